"""Lab: guided scenes on a pool: what happens next, and what do you expect?"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from minipaged.lab.pool.board import Board
from minipaged.lab.pool.sandbox import Move


@dataclass(frozen=True)
class Step:
    """A text, and what is done when the reader goes on from it.

    With a `question`, the reader guesses first; `answer` counts on the live board.
    """

    text: str
    moves: tuple[Move, ...]
    question: str = ""
    answer: Callable[[Board], int] | None = None
    fails: bool = False  # the moves must raise OutOfBlocks


@dataclass(frozen=True)
class Scene:
    """A scene on a pool of its own, and what it has shown in the end."""

    title: str
    num_blocks: int
    block_size: int
    steps: tuple[Step, ...]
    end: str


def _num_held(board: Board) -> int:
    return board.pool.num_blocks - board.pool.num_free


def _num_found(board: Board) -> int:
    return board.prefix_cache.tokens_hit // board.pool.block_size


SCENES: Mapping[str, Scene] = MappingProxyType(
    {
        "beams": Scene(
            "Beam search: 4 beams, 64 + 10 tokens",
            64,
            16,
            (
                Step("A prompt of 64 tokens comes.", (("start", 64, False, False),)),
                Step(
                    "It fills 4 blocks. Now the search goes on in four ways: A is "
                    "forked into four beams.",
                    (("fork", "A", 3),),
                ),
                Step(
                    "Each of the prompt's blocks has 4 holders, and no block was "
                    "taken. Now each beam gets 10 tokens of its own.",
                    tuple(("append", name, 10) for name in "ABCD"),
                    "How many blocks will be held in all?",
                    _num_held,
                ),
            ),
            "Four blocks for all, and one for each. Without sharing, it would be five "
            "for each: 20. The prompt's last block is full, so nothing was copied. To "
            "see a copy, fork a beam now, and write.",
        ),
        "copy": Scene(
            "Copy on write: four holders, one block",
            16,
            4,
            (
                Step("A prompt of 6 tokens comes.", (("start", 6, False, False),)),
                Step(
                    "Block 1 has room for two more. A is forked into four.",
                    (("fork", "A", 3),),
                ),
                Step(
                    "All four hold block 1, and want to write another token into it.",
                    tuple(("append", name, 1) for name in "ABCD"),
                    "How many copies of it must be made?",
                    lambda board: _num_held(board) - 2,
                ),
            ),
            "One fewer than there are writers: the last one holds the block alone by "
            "then, and writes in place.",
        ),
        "prefix": Scene(
            "A prompt that comes again",
            16,
            4,
            (
                Step("A prompt of 14 tokens comes.", (("start", 14, True, True),)),
                Step(
                    "Three of its blocks are full, and known by what is in them. A "
                    "ends.",
                    (("free", "A"),),
                ),
                Step(
                    "They are free, but their content is still there: a dashed rim, "
                    "and the first digits of the hash. B comes, with the same first 13 "
                    "tokens.",
                    (("start", 14, True, True),),
                    "How many blocks need not be computed again?",
                    _num_found,
                ),
            ),
            "Only full blocks are known, and the last token is always computed, for "
            "its logits are wanted. So the fourth block is B's own.",
        ),
        "eviction": Scene(
            "Eviction: which block is given up first?",
            10,
            4,
            (
                Step("A prompt of 18 tokens comes.", (("start", 18, True, True),)),
                Step("A ends; its full blocks can be found.", (("free", "A"),)),
                Step(
                    "B comes, with another text. As long as there are blocks without "
                    "content, it is given those.",
                    (("start", 24, False, True),),
                ),
                Step(
                    "Now C wants one block. Only A's are left, from 0 (the start) to "
                    "3 (the end).",
                    (("start", 4, False, True),),
                    "Which of them is handed out?",
                    lambda board: board.sequences["C"].table.block_ids[0],
                ),
                Step("B and C end.", (("free", "B"), ("free", "C"))),
                Step(
                    "D comes, and begins as A did. A had four full blocks.",
                    (("start", 18, True, True),),
                    "How many of them does D find?",
                    _num_found,
                ),
            ),
            "A sequence is freed from its end, and what is unused for longest goes "
            "first. So the start stays longest, without which the rest is of no use.",
        ),
        "full": Scene(
            "Running out of blocks",
            8,
            4,
            (
                Step("A prompt of 16 tokens comes.", (("start", 16, False, False),)),
                Step("A second one has 12.", (("start", 12, False, False),)),
                Step(
                    "One block is free. A wants room for 9 tokens: three blocks.",
                    (("append", "A", 9),),
                    "How many blocks has A afterwards?",
                    lambda board: len(board.sequences["A"].table.block_ids),
                    fails=True,
                ),
                Step(
                    "All or nothing: A was not even given the one that is free. Now B "
                    "ends, and A asks again.",
                    (("free", "B"), ("append", "A", 9)),
                    "How many blocks are held in all?",
                    _num_held,
                ),
            ),
            "A server waits with A, or takes the blocks of another, and lets it "
            "compute them again later. In no case is half of anything done.",
        ),
    }
)
