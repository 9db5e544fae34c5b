"""Lab: checks of lesson 3's exercises: finding blocks by their content."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from random import Random
from typing import Any

from minipaged.lab.check.diagnose import diagnose, refuse_a_float
from minipaged.lab.check.verdict import Attempt, Rejected, attempted, exercise


@contextmanager
def because(reason: str) -> Iterator[None]:
    """Whatever is rejected inside, a second line says why it must be otherwise."""
    try:
        yield
    except Rejected as found:
        raise Rejected(f"{found}\n  {reason}") from None


SHARED = (  # blocks, first, second, block size; and what is forgotten if it is wrong
    (0, [1, 2], [9, 2, 3], 2, "the first tokens differ already"),
    (2, [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 9, 9, 9], 2, "count blocks, not tokens"),
    (
        1,
        [1, 2, 9, 4, 5, 6],
        [1, 2, 3, 4, 5, 6, 7],
        2,
        "behind the first difference nothing may be taken: K and V depend on the past",
    ),
    (1, [1, 2, 3], [1, 2, 3, 4, 5], 2, "the first prompt's last block is not full"),
    (
        1,
        [1, 2, 3, 4],
        [1, 2, 3, 4],
        2,
        "the second prompt's last token must be computed: its logits are wanted",
    ),
    (2, [1, 2, 3, 4], [1, 2, 3, 4, 5], 2, "of the first one, all full blocks count"),
    (0, [], [1, 2, 3], 2, "a prompt may be empty"),
    (0, [1, 2], [], 2, "a prompt may be empty"),
    (2, [7, 7, 7, 8], [7, 7, 7], 1, "blocks may have one token each"),
)


@exercise
def shared_blocks(attempt: Attempt) -> None:
    """(first, second, block_size) -> whole blocks that the second may take over."""
    for expected, first, second, size, reason in SHARED:
        with because(reason):
            found = attempt(first, second, size)
            diagnose(attempt.call(first, second, size), found, expected)
    refuse_a_float(attempt, SHARED[1][1:4])


@exercise
def prefix_index(attempt: Attempt) -> None:
    """A class with publish, find and forget over blocks of 2 tokens."""
    _tell_story(_Asked(attempt(2)))
    for seed in range(30):
        _random_walk(attempt, Random(seed))


class _Asked:
    """The reader's index, and what was done with it."""

    def __init__(self, index: Any):
        self.index, self.events = index, []

    def publish(self, tokens: list[int], block_ids: list[int]) -> None:
        """These blocks hold the tokens, and can be found from now on."""
        self._do("publish", tokens, block_ids)

    def forget(self, block_id: int) -> None:
        """It was handed out."""
        self._do("forget", block_id)

    def find(self, asked: list[int], right: list[set[int]], why: str = "") -> list[int]:
        """What `find` gives, if it is `right`: of each set, one block.

        why: what is forgotten if it is wrong.
        """
        with because(why) if why else nullcontext():
            found = self._do("find", asked)
            if not isinstance(found, list) or not all(
                isinstance(id_, int) for id_ in found
            ):
                said = f"returned {found!r:.40}, expected a list of ids"
                raise Rejected(f"find({asked}) {said}")
            is_right = all(id_ in ids for id_, ids in zip(found, right, strict=False))
            if len(found) != len(right) or not is_right:
                last = ", ".join(self.events[-4:])
                many = " (the last four)" if len(self.events) > 4 else ""
                expected = [min(ids) if len(ids) == 1 else ids for ids in right]
                said = f"find({asked}) gave {found}, expected {expected}"
                raise Rejected(f"after {last}{many}:\n  {said}")
        return found

    def _do(self, name: str, *arguments: Any) -> Any:
        """Call a method; of one that is left as it was, say so."""
        call = f"{name}({', '.join(map(str, arguments))})"
        if not hasattr(self.index, name):
            raise Rejected(f"it has no method {name}")
        said = "look first: most keys do not lead to this block"
        hints = {ValueError: said, KeyError: said} if name == "forget" else {}
        try:
            result = attempted(call, getattr(self.index, name), *arguments, hints=hints)
        except NotImplementedError as error:
            if str(error) or not self.events:
                raise
            raise Rejected(f"{name} is not written yet") from None
        if name != "find":
            self.events.append(call)
        return result


def _tell_story(index: _Asked) -> None:
    """One thing after another, each of which some index gets wrong."""
    a, b = [1, 2, 3, 4], [9, 9, 7, 7]
    index.publish(a, [0, 1])
    index.find([*a, 5], [{0}, {1}], "both blocks are published")
    why = "the last token is never covered: it must be computed"
    index.find(a, [{0}], why)
    index.find([1, 2, 3], [{0}], "a prompt may end inside a block")
    index.find([9, 9, 3, 4, 5], [], "block 1 has these tokens after another past")
    index.publish(b, [2, 3])
    why = "behind block 2 nobody has published 3, 4: block 1 stands after another past"
    index.find([9, 9, 3, 4, 5], [{2}], why)
    index.forget(3)
    why = "block 3 was handed out, so it will hold other tokens; a list that is empty "
    index.find([*b, 0], [{2}], why + "now is as good as missing")
    index.forget(0)
    why = "stop at the first block that is missing: block 1 alone is of no use"
    index.find([*a, 5], [], why)
    index.publish([8, 8], [0])
    why = "block 0 holds other tokens now; block 1 stands after what it held before"
    index.find([8, 8, 3, 4, 5], [{0}], why)

    twins = [6, 6, 7, 7, 8, 8]
    index.publish(twins, [4, 5, 6])
    index.publish(twins[:4], [4, 7])
    index.find([*twins, 0], [{4}, {5, 7}, {6}], "7 is a twin of 5")
    index.forget(7)
    why = "block {} holds the same as block {} did (a twin): keep both, lose only one"
    index.find([*twins, 0], [{4}, {5}, {6}], why.format(5, 7))
    index.forget(5)
    none = "blocks 5 and 7 are both forgotten, so neither may be found"
    index.find([*twins, 0], [{4}], none)
    index.publish(twins[:4], [4, 5])
    index.publish(twins, [4, 9, 10])
    index.forget(5)
    index.find([*twins, 0], [{4}, {9}, {6, 10}], why.format(9, 5))
    index.publish([*twins, 1, 1], [4, 9, 6, 8])
    index.forget(9)
    why = "a sequence publishes its blocks again and again; forgotten, they are gone"
    index.find([*twins, 0], [{4}], why)


def _random_walk(attempt: Attempt, rng: Random) -> None:
    """Compare with a plain list of all that is published.

    As in generate: a prompt takes over what it finds, and publishes its whole table,
    blocks that are known already included. Blocks that are forgotten come back.
    """
    index = _Asked(attempt(2))
    published: dict[int, list[int]] = {}  # block: the tokens up to its end
    for _ in range(20):
        tokens = [rng.randint(0, 1) for _ in range(rng.randint(0, 8))]
        found = index.find(tokens, _cached(published, tokens)) if published else []
        free = [id_ for id_ in range(40) if id_ not in published]
        ids = [*found, *rng.sample(free[:8], len(tokens) // 2 - len(found))]
        index.publish(tokens, ids)
        published |= {id_: tokens[: 2 * n + 2] for n, id_ in enumerate(ids)}
        while published and (rng.random() < 0.5 or len(published) > 30):
            gone = rng.choice(sorted(published))
            del published[gone]
            index.forget(gone)
        asked = [rng.randint(0, 1) for _ in range(rng.randint(0, 8))]
        index.find(asked, _cached(published, asked))


def _cached(published: dict[int, list[int]], asked: list[int]) -> list[set[int]]:
    """What may be found: of each block, the ids that hold it."""
    right: list[set[int]] = []
    for end in range(2, len(asked), 2):  # never all the tokens
        choices = {id_ for id_, tokens in published.items() if tokens == asked[:end]}
        if not choices:
            break
        right.append(choices)
    return right
