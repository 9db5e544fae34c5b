"""Lab: the guided scenes of lesson 3: what can be found again, and what is given up."""

from minipaged.lab.pool.scene import Ask, Scene, Step, num_found

PREFIX = Scene(
    "A prompt that comes again",
    3,
    16,
    4,
    (
        Step(
            "A comes with a prompt of 14 tokens.",
            (("start", 14, True, True),),
            "Three of its blocks are full, and known by what is in them.",
        ),
        Step(
            "A ends.",
            (("free", "A"),),
            "Their content is still there: a dashed rim, and the first digits of the "
            "hash.",
        ),
        Step(
            "B comes with the same first 13 tokens.",
            (("start", 14, True, True),),
            "Only full blocks are known. A's fourth block was never full, so nobody "
            "can find it, and B computes its last two tokens in a block of its own. It "
            "is the one that A has left half full: the block that was freed last is "
            "handed out before any new one.",
            "{B} finds the full blocks of its prompt",
            Ask(
                "B comes with the same first 13 tokens. How many blocks need not be "
                "computed again?",
                num_found,
                "These are the full blocks of A's prompt.",
            ),
        ),
    ),
)

EVICTION = Scene(
    "Eviction: which block goes first?",
    3,
    10,
    4,
    (
        Step(
            "A comes with a prompt of 18 tokens.",
            (("start", 18, True, True),),
            "Four of its five blocks are full, and known by what is in them.",
        ),
        Step(
            "A ends.",
            (("free", "A"),),
            "The dashed blocks can still be found. Which free block goes first is our "
            "choice: those that cannot be found, then the longest unused. vLLM 0.32 "
            "chooses alike.",
        ),
        Step(
            "B comes with another text.",
            (("start", 24, False, True),),
            "As long as there are blocks that cannot be found, B is given those.",
        ),
        Step(
            "C comes, and wants one block.",
            (("start", 4, False, True),),
            "A was freed from its end, and what is unused for longest goes first. So "
            "the start of a text, without which the rest is of no use, stays longest.",
            "{C} is given what was unused for longest",
            Ask(
                "C wants one block. Only A's are left, from 0 (the start of its text) "
                "to 3 (the end). Which is handed out?",
                lambda board: board.sequences["C"].table.block_ids[0],
                "It is the end of A's text.",
                "block",
            ),
        ),
        Step(
            "B and C end.",
            (("free", "B"), ("free", "C")),
            "Their full blocks can be found as well.",
            "{B} and {C} end",
        ),
        Step(
            "D comes with A's prompt.",
            (("start", 18, True, True),),
            "Only the block that was given up must be computed again, and the last "
            "one, which was not full.",
            "{D} finds the start of its prompt",
            Ask(
                "D comes with A's prompt, which filled four blocks. How many of them "
                "does D find?",
                num_found,
                "The end of A's text is the part that is lost.",
            ),
        ),
    ),
)
