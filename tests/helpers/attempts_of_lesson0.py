"""Right and wrong attempts at the ten-minute start's exercise, and what they get."""


def must_copy(num_tokens, block_size, num_holders):
    """By the room that is left, unlike the solution in the notebook."""
    room = -num_tokens % block_size
    return room > 0 and num_holders > 1


FAULTS = {
    "must_copy": [
        (
            lambda n, size, holders: holders > 1,
            "got True, expected False; a full block is not written",
        ),
        (lambda n, size, holders: n % size > 0, "the only holder harms nobody"),
        (lambda n, size, holders: n > 0, "the only holder harms nobody"),
        (
            lambda n, size, holders: not n % size and holders > 1,
            "got False, expected True; the last block is part-filled",
        ),
        (lambda n, size, holders: n % size and holders > 2, "one other holder"),
        (lambda n, size, holders: n < size and holders > 1, "several blocks"),
        (lambda n, *rest: not must_copy(n, *rest), "where to write in place"),
        (lambda *case: 1, "got 1, expected False; the only holder harms nobody"),
        (lambda n, *rest: None, "got None, expected True or False; is a return"),
        (lambda n, *rest: "no", "returned 'no', expected True or False"),
        (lambda n, size, holders: n / (holders - 1) > 0, "ZeroDivisionError"),
    ],
}
