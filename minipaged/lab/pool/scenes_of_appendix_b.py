"""Lab: the guided scenes of appendix B: a pool too small, and who must give way."""

from minipaged.lab.pool.scene import Ask, Scene, Step, letter
from minipaged.lab.pool.served_board import ServedBoard, Serving

APPENDIX_B = 8  # where it stands in the series, behind the six lessons and appendix A
COME = (("arrive", 9, 8), ("arrive", 6, 9), ("arrive", 7, 7), ("step",))
STEP = ("step",)


def _first_in_line(board: ServedBoard) -> str:
    return board.snapshot().lanes.waiting[0].names[0]


def _places_of_c(board: ServedBoard) -> int:
    return board.snapshot().lanes.swapped[0].num_places


def _blocks_of_c(board: ServedBoard) -> int:
    """Room for all that C has, and for the token that comes next.

    The scheduler asks for so many; the step that starts C takes room for what it has.
    """
    num, size = board.requests["C"].sequences[0].num_tokens, board.pool.block_size
    return -(-(num + 1) // size)


def _tokens_of_c(board: ServedBoard) -> int:
    """How many tokens of C this step computes."""
    works = board.plan.works
    return sum(w.num_tokens for w in works if w.request is board.requests["C"])


def _why_so_many(board: ServedBoard, _: object) -> str:
    num, size = board.requests["C"].sequences[0].num_tokens, board.pool.block_size
    return (
        f"This step fills {num} slots, one for each token of C, and our scheduler "
        f"also wants a slot for the token that comes next: {num + 1}, in blocks of "
        f"{size}. Until A ended, fewer blocks were free."
    )


def _why_so_few(board: ServedBoard, _: object) -> str:
    num = board.requests["C"].sequences[0].num_tokens
    return (
        "K and V of all other tokens came back with the blocks. Without the CPU's "
        f"memory it would be {num}."
    )


RECOMPUTE = Scene(
    "Out of blocks: who gives way?",
    APPENDIX_B,
    8,
    4,
    (
        Step(
            "A, B and C come.",
            COME,
            "9, 6 and 7 tokens: one step computes all three prompts. One block is "
            "free.",
            "{A}, {B} and {C} begin together",
        ),
        Step(
            "Two steps: each gets two tokens.",
            (STEP, STEP),
            "C has taken the last block. Nobody has reserved any for later.",
            "All 8 blocks are held",
        ),
        Step(
            "One step more.",
            (STEP,),
            "All of its blocks come back, though B needs a single one. C waits, and "
            "is first in line.",
            "{C} is preempted, {A} and {B} go on",
            Ask(
                "B's blocks are full, and no block is free. Who gives blocks back: A, "
                "B or C?",
                _first_in_line,
                "The latest one. The first one is never preempted, so somebody "
                "always goes on.",
                read=letter,
            ),
        ),
        Step(
            "Four steps: A and B go on.",
            (STEP,) * 4,
            "Two blocks were free at first, then one, then none. C is still waiting.",
            "{A} and {B} get four tokens each, {C} gets none",
        ),
        Step(
            "A ends.",
            (STEP,),
            "C computes 10 tokens, 9 of them again. Its text goes on as if nothing "
            "had happened. (This scene has no prefix cache. With one, C may find full "
            "blocks of its past again, if nobody has overwritten them.)",
            "{A} ends, and {C} starts again",
            Ask(
                "Now A ends. How many blocks must be free before C starts again?",
                _blocks_of_c,
                _why_so_many,
            ),
        ),
    ),
    serving=Serving(),
)

SWAP = Scene(
    "Out of blocks: to the CPU and back",
    APPENDIX_B,
    8,
    4,
    (
        Step(
            "A, B and C come, and each gets two tokens.",
            (*COME, STEP, STEP),
            "There is room for 8 blocks more in the CPU's memory. Nothing is computed "
            "there. (The paper's vLLM could swap like this; by default it did so for "
            "groups only. vLLM 0.32, with engine V1, recomputes, as in the scene "
            "before.)",
            "{A}, {B} and {C} hold all 8 blocks",
        ),
        Step(
            "One step more.",
            (STEP,),
            "They lie there until C comes back. Its place in line is the first.",
            "{C} moves to the CPU's memory, {A} and {B} go on",
            Ask(
                "B needs one block, and none is free. How many blocks of C move to the "
                "CPU's memory?",
                _places_of_c,
                "All or nothing: each step reads all K and V of a sequence, so a "
                "part of them is of no use.",
            ),
        ),
        Step(
            "Four steps: A and B go on.",
            (STEP,) * 4,
            "What lies in the CPU's memory does not change.",
            "{A} and {B} get four tokens each, {C} gets none",
        ),
        Step(
            "A ends.",
            (STEP,),
            "Other blocks than before, the same K and V: the table says where.",
            "{A} ends, and {C} comes back",
            Ask(
                "Now A ends, and there is room for C. How many tokens does the next "
                "step compute for C?",
                _tokens_of_c,
                _why_so_few,
            ),
        ),
    ),
    serving=Serving(num_places=8),
)
