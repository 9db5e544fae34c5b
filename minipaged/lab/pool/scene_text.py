"""Lab: a whole scene in words and letters, for pages that run no widgets."""

import re
from collections.abc import Iterable, Iterator
from textwrap import fill

from minipaged.lab.pool.guide import Guide, play_through
from minipaged.lab.pool.html.blocks import read_block
from minipaged.lab.pool.lane_words import tell_line
from minipaged.lab.pool.scene import Step
from minipaged.lab.pool.words import name_slots, tell_twin

WIDTH = 76  # letters in a line
MOST_BLOCKS = 16  # in a row; of a larger pool, those that the scene uses
INDENT = "   "
SIGNS = {  # of a block, in the order of the legend
    "A": "A is held by A",
    "4": "4 has four holders",
    "○": "○ is free and can still be found",
    "·": "· is free",
    "[": "[ ] has changed in this step",
}


def tell_scene(name: str) -> str:
    """The steps with their questions; at the end, the answers.

    Blocks are shown until the first question: after it they would tell the answer.
    """
    steps, answers, moments, asked = [], [], [], False
    for number, guide in enumerate(play_through(name), start=1):
        step, blocks = guide.scene.steps[number - 1], _see(guide)
        seen = [blocks, *_lanes(guide)]
        moments.append(blocks)
        asked = asked or step.ask is not None
        steps.append(_lines(f"{number}. {_say(guide, step)}"))
        if not asked:
            steps += seen
        if twin := _twin_fails(guide):
            steps.append(_lines(f"{INDENT}In contiguous memory: {twin}"))
        if step.ask:
            answers += [_lines(f"{number}. {_answer(guide, step)}"), *seen]
    width = _width(guide, moments)
    head = _head(guide, [one for one in steps + answers if isinstance(one, list)])
    parts = [head, "", *_drawn(steps, width), "", "Answers", *_drawn(answers, width)]
    return "\n".join(parts)


def _head(guide: Guide, rows: Iterable[list[str]]) -> str:
    """What scene it is, how blocks and slots are numbered, and what the signs mean."""
    pool, seen = guide.sandbox.board.pool, {sign for row in rows for sign in row}
    size = pool.block_size
    text = (
        f"{pool.num_blocks} blocks of {size} slots: block 0 is {name_slots(0, size)}, "
        f"block 1 is {name_slots(1, size)}, and so on. "
    )
    kinds = {_kind(sign) for signs in seen for sign in signs.strip()}
    text += "; ".join(words for sign, words in SIGNS.items() if sign in kinds) + "."
    title = f"{guide.scene.title} (run the cell to play it)"
    return f"{title}\n{_lines(text)}"


def _kind(sign: str) -> str:
    return "A" if sign.isalpha() else "4" if sign.isdigit() else sign


def _say(guide: Guide, step: Step) -> str:
    """What the step asks; or what happens in it."""
    if step.ask:
        return step.ask.question
    return re.sub(r"[{}]", "", guide.frames[-1].big) + "."


def _answer(guide: Guide, step: Step) -> str:
    """What became of it, and why."""
    frame, board = guide.frames[-1], guide.sandbox.board
    head = frame.verdict.head
    if step.ask.unit == "block":
        slots = name_slots(step.ask.answer(board), board.pool.block_size)
        head = f"{head[:-1]}: {slots}."
    return f"{head} {frame.verdict.why} {re.sub(r'[{}]', '', frame.big)}."


def _twin_fails(guide: Guide) -> str:
    """What contiguous memory says in the step in which it fails."""
    now, before = guide.sandbox.board.snapshot().twin, guide.sandbox.turns[-1].before
    if now is None or now.num_lost <= before.twin.num_lost:
        return ""
    return tell_twin(now, before.twin)


def _lanes(guide: Guide) -> list[str]:
    """Who runs and who waits, where a scheduler decides it."""
    lanes = guide.sandbox.board.snapshot().lanes
    return [_lines(f"{INDENT}{tell_line(lanes)}")] if lanes is not None else []


def _see(guide: Guide) -> list[str]:
    """A sign for each block, in brackets where something has changed."""
    now, before = guide.sandbox.board.snapshot(), guide.sandbox.turns[-1].before
    signs = []
    for block_id in range(now.num_blocks):
        block, was = read_block(now, block_id), read_block(before, block_id)
        sign = f"{block.holders}" if block.holders > 1 else block.first
        sign = sign or ("○" if block.hash else "·")
        signs.append(f"[{sign}]" if block.differs_from(was) else f" {sign} ")
    return signs


def _width(guide: Guide, moments: list[list[str]]) -> int:
    """How many blocks are shown: all, or those that the scene uses."""
    num_blocks = guide.sandbox.board.pool.num_blocks
    if num_blocks <= MOST_BLOCKS:
        return num_blocks
    used = (id_ for signs in moments for id_, one in enumerate(signs) if one != " · ")
    return max(used) + 1


def _drawn(parts: list[str | list[str]], width: int) -> Iterator[str]:
    """Texts as they are; blocks in a row, below their numbers where it is the first."""
    margin, has_numbers = f"{INDENT}block ", False
    for part in parts:
        if isinstance(part, str):
            yield part
            continue
        more = f"... {len(part) - 1}" * (width < len(part))
        if not has_numbers:
            numbers = "".join(f"{block_id:>2} " for block_id in range(width))
            yield f"{margin}{numbers}{more}".rstrip()
        has_numbers = True
        rest = f"... {part[-1].strip()}" * bool(more)
        yield f"{' ' * len(margin)}{''.join(part[:width])}{rest}".rstrip()


def _lines(text: str) -> str:
    """In lines that no sum is broken by."""
    kept = re.sub(r"(?<=[\d=×+]) (?=[\d=×+])", "\u00a0", text)
    made = fill(kept, WIDTH, subsequent_indent=INDENT, break_long_words=False)
    return made.replace("\u00a0", " ")
