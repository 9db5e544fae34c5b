"""Lab: checks of lesson 3's exercises: finding blocks by their content."""

from random import Random
from typing import Any

from minipaged.lab.check.verdict import Attempt, Rejected, attempted, exercise, expect


@exercise
def shared_blocks(attempt: Attempt) -> None:
    """(first, second, block_size) -> whole blocks that the second may take over."""
    attempt.expect(2, [1, 2, 3, 4, 5], [1, 2, 3, 4, 6], 2)
    attempt.expect(1, [1, 2, 3, 4], [1, 2, 3, 4], 2)  # one token must be computed
    attempt.expect(2, [1, 2, 3, 4], [1, 2, 3, 4, 5], 2)
    attempt.expect(1, [1, 2, 3], [1, 2, 3, 4, 5], 2)  # a part-filled block is no block
    attempt.expect(1, [1, 2, 9, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7], 2)  # no gap
    attempt.expect(0, [1, 2, 3, 4], [9, 2, 3, 4, 5], 2)
    attempt.expect(0, [], [1, 2, 3], 2)
    attempt.expect(2, [7, 7, 7, 8], [7, 7, 7], 1)


@exercise
def block_keys(attempt: Attempt) -> None:
    """(tokens, block_size, salt) -> a key for each full block and all before it."""
    rng = Random(0)
    for size in (1, 2, 3):
        for _ in range(60):
            one, other = ([rng.randint(0, 1) for _ in range(8)] for _ in "ab")
            _compare_keys(attempt, one, other, size, b"", b"")
    _compare_keys(attempt, [1, 2, 3, 4], [1, 2, 3, 4], 2, b"one", b"two")
    _compare_keys(attempt, [12, 3], [1, 23], 1, b"", b"")  # digits run together
    _compare_keys(attempt, [1, 12], [11, 2], 2, b"", b"")
    _compare_keys(attempt, [2], [12], 1, b"1", b"")  # a salt and a token do
    # A short hash would have two equal ones among so many.
    keys = {attempt([n], 1, b"")[0] for n in rng.sample(range(10**6), 3000)}
    expect("different keys of 3000 different blocks", len(keys), 3000)


def _compare_keys(
    attempt: Attempt, one: list[int], other: list[int], size: int, a: bytes, b: bytes
) -> None:
    first, second = list(attempt(one, size, a)), list(attempt(other, size, b))
    expect(f"keys of {one} in blocks of {size}", len(first), len(one) // size)
    expect(f"keys of {one}, asked again", list(attempt(one, size, a)), first)
    for index, (key, their) in enumerate(zip(first, second, strict=True)):
        end = (index + 1) * size
        same = one[:end] == other[:end] and a == b
        story = f"block {index} of {one} and of {other}, size {size}, salts {a} and {b}"
        expect(f"{story}; keys are equal", key == their, same)


@exercise
def prefix_index(attempt: Attempt) -> None:
    """A class with publish, find and forget over blocks of 2 tokens."""
    for seed in range(30):
        _random_walk(attempt, Random(seed))


def _random_walk(attempt: Attempt, rng: Random) -> None:
    """Compare with a plain list of all that is published.

    As in generate: a prompt takes over what it finds, and publishes its whole table,
    blocks that are known already included.
    """
    index: Any = attempt(2)
    published: dict[int, list[int]] = {}  # block: the tokens up to its end
    events: list[str] = []  # what was done, for the answer
    for block in range(0, 80, 4):
        tokens = [rng.randint(0, 1) for _ in range(rng.randint(0, 8))]
        found = _ask(index, published, tokens, events) if published else []
        new = range(block, block + len(tokens) // 2 - len(found))
        ids = [*found, *new]
        events.append(f"publish({tokens}, {ids})")
        attempted(events[-1], index.publish, tokens, ids)
        published |= {id_: tokens[: 2 * n + 2] for n, id_ in enumerate(ids)}
        if published and rng.random() < 0.5:
            gone = rng.choice(sorted(published))
            del published[gone]
            events.append(f"forget({gone})")
            attempted(events[-1], index.forget, gone)
        asked = [rng.randint(0, 1) for _ in range(rng.randint(0, 8))]
        _ask(index, published, asked, events)


def _ask(
    index: Any, published: dict[int, list[int]], asked: list[int], events: list[str]
) -> list[int]:
    """What the attempt finds, if every block of it may be found."""
    found = attempted(f"find({asked})", index.find, asked)
    if not isinstance(found, list):
        raise Rejected(f"find({asked}) returned {found!r:.40}, expected a list of ids")
    right: list[set[int]] = []
    for end in range(2, len(asked), 2):  # never all the tokens
        choices = {id_ for id_, tokens in published.items() if tokens == asked[:end]}
        if not choices:
            break
        right.append(choices)
    last = ", ".join(events[-4:]) or "nothing"
    story = f"after {last} (the last four): find({asked})"
    expect(f"{story}, number of blocks", len(found), len(right))
    for id_, choices in zip(found, right, strict=True):
        if id_ not in choices:
            raise Rejected(f"{story} gave block {id_}, expected one of {choices}")
    return found
