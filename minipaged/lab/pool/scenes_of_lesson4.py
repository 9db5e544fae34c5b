"""Lab: the guided scenes of lesson 4: blocks that are shared, and copied."""

from minipaged.lab.pool.scene import Ask, Scene, Step, num_entries, num_held

NUM_BEFORE = 7  # blocks are held when A has been forked: A and E share one

BEAMS = Scene(
    "Beam search: 4 beams, and one dies",
    4,
    64,
    16,
    (
        Step(
            "A comes with a prompt of 64 tokens.",
            (("start", 64),),
            "The prompt fills 4 blocks.",
        ),
        Step(
            "A is forked into four beams.",
            (("fork", "A", 3),),
            "Each of the prompt's blocks has 4 holders. No block was taken.",
            "{A} is forked into {A}, {B}, {C} and {D}",
        ),
        Step(
            "Each beam gets 10 tokens.",
            tuple(("append", name, 10) for name in "ABCD"),
            "The prompt's last block is full, so nothing was copied.",
            lambda board: (
                f"Four blocks for all, and one for each: {num_held(board)}, not "
                f"{num_entries(board)}"
            ),
            Ask(
                "Each beam gets 10 tokens of its own. How many blocks are held then, "
                "in all?",
                num_held,
                lambda board, _: (
                    f"Without sharing it would be {num_entries(board)}: five for each."
                ),
            ),
        ),
        Step(
            "The best next tokens follow B, C and twice A. So D dies, and A is forked.",
            (("free", "D"), ("fork", "A", 1)),
            "D's own block is free, and no block was taken. E holds all of A's "
            "blocks, also the one that A has not filled.",
            "{D} dies, and {A} is forked into {A} and {E}",
        ),
        Step(
            "Each beam gets one more token.",
            tuple(("append", name, 1) for name in "ABCE"),
            "A writes first, into a copy. Then E is alone, and writes in place.",
            "{A} has a copy, and writes into it",
            Ask(
                "A and E hold a part-filled block together. Each of the four writes a "
                "token. How many blocks are copied?",
                lambda board: num_held(board) - NUM_BEFORE,
                "B and C are alone in theirs; E is alone as soon as A has its copy.",
            ),
        ),
    ),
)

COPY = Scene(
    "Copy on write: four hold one block",
    4,
    16,
    4,
    (
        Step(
            "A comes with a prompt of 6 tokens.",
            (("start", 6),),
            "Its last block has room for two more.",
        ),
        Step(
            "A is forked into four.",
            (("fork", "A", 3),),
            "All four hold both blocks. Nothing is copied yet.",
            "{A} is forked into {A}, {B}, {C} and {D}",
        ),
        Step(
            "Each of the four gets one token.",
            tuple(("append", name, 1) for name in "ABCD"),
            "Three of them have a copy of block 1; the fourth has block 1 itself. "
            "vLLM's V1 engine copies nothing here: there, each sample is a request of "
            "its own. It shares full blocks, which are found by their hashes, and "
            "computes the rest itself.",
            "A block with other holders is copied before the write",
            Ask(
                "All four write one more token into block 1. How many copies of it "
                "must be made?",
                lambda board: num_held(board) - 2,
                "One fewer than the holders: the last one is alone, and writes "
                "in place.",
            ),
        ),
    ),
)
