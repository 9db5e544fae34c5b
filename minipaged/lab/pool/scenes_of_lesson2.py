"""Lab: the guided scenes of lesson 2: holes that are used, and a pool that is full."""

from minipaged.lab.pool.board import Board
from minipaged.lab.pool.scene import Ask, Scene, Step, block_of, divide, num_held
from minipaged.lab.pool.twin import Reservations


def _into_the_holes(board: Board) -> str:
    ids = board.sequences["C"].table.block_ids
    return f"{{C}} fits into the holes: blocks {', '.join(map(str, ids))}"


def _why_this_block(board: Board, guess: int | None) -> str:
    if guess == 9 // board.pool.block_size:
        return f"{guess} is the entry. C's table says which block that is."
    return divide(board, "C", 9)


def _why_this_slot(board: Board, guess: int | None) -> str:
    first = "12 is the position, not the slot. " * (guess == 12)
    return first + divide(board, "B", 12)


HOLES = Scene(
    "Holes: where is position n?",
    2,
    16,
    4,
    (
        Step(
            "A and B come.",
            (("start", 3), ("start", 4)),
            "A brings 3 tokens, B brings 4. Each takes the first free block.",
            "{A} and {B} arrive",
            look=("A", 2),
        ),
        Step(
            "A gets 4 tokens, then B gets 3.",
            (("append", "A", 4), ("append", "B", 3)),
            "A fills its block and takes another. B's block is full, so B takes "
            "another too.",
            "{A} and {B} grow in turns",
            look=("A", 6),
        ),
        Step(
            "The same again: 4 tokens for A, 3 for B.",
            (("append", "A", 4), ("append", "B", 3)),
            "Whose block is full takes any free block. The tables keep the order.",
            "The blocks of {A} and {B} are mixed",
            look=("B", 9),
        ),
        Step(
            "A ends.",
            (("free", "A"),),
            "Nothing is moved or cleared. The block that was freed last is handed out "
            "first: A's blocks, in A's order.",
            look=("B", 9),
        ),
        Step(
            "C comes with 13 tokens.",
            (("start", 13),),
            "C takes the blocks that A left, and the next free one. In contiguous "
            "memory, C must wait.",
            _into_the_holes,
            Ask(
                "C comes with 13 tokens. In which block will its position 9 lie?",
                lambda board: block_of(board, "C", 9),
                _why_this_block,
                "block",
            ),
            look=("C", 9),
        ),
        Step(
            "B gets 2 tokens.",
            (("append", "B", 2),),
            "B's last block had two empty slots. No block is taken.",
            look=("B", 11),
        ),
        Step(
            "B gets one more token.",
            (("append", "B", 1),),
            "Where is position n? Divide, look up, put together. Try any position.",
            ask=Ask(
                "B gets one more token, at position 12. In which slot will it lie?",
                lambda board: board.sequences["B"].table.slot(12),
                _why_this_slot,
                "slot",
            ),
            look=("B", 12),
        ),
    ),
    Reservations({"A": 20, "B": 28}, others=24),
)

FULL = Scene(
    "Running out of blocks",
    2,
    8,
    4,
    (
        Step(
            "A comes with 16 tokens.",
            (("start", 16),),
            "The pool has 8 blocks of 4 slots.",
        ),
        Step(
            "B comes with 12 tokens.",
            (("start", 12),),
            "One block is free.",
        ),
        Step(
            "A asks for room for 9 tokens.",
            (("append", "A", 9),),
            "All or nothing: A was not even given the one block that is free.",
            "{A} is refused, and keeps what it had",
            Ask(
                "A asks for room for 9 tokens: three blocks. How many blocks has A "
                "afterwards?",
                lambda board: len(board.sequences["A"].table.block_ids),
                lambda board, _: f"A needs 3 more, and {board.pool.num_free} is free.",
            ),
            fails=True,
        ),
        Step(
            "B ends.",
            (("free", "B"),),
            "Now there is room for A.",
        ),
        Step(
            "A asks again.",
            (("append", "A", 9),),
            "A server lets A wait until then, or takes the blocks of another, and "
            "lets it compute them again later. Nothing is ever done by half.",
            ask=Ask(
                "A asks again for room for 9 tokens. How many blocks are held then, "
                "in all?",
                num_held,
                lambda board, _: (
                    f"A holds all of them, and {board.pool.num_free} is free."
                ),
            ),
        ),
    ),
)
