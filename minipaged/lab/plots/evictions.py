"""Lab: which blocks must be brought back when a step reads all of them."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, counted
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone, free, soft, strong
from minipaged.lab.plots.render import render

HEIGHT, GAP, PARTS = 15.0, 3.0, 22.0  # pixels of a block, between rows, between parts
LEFT = 74.0  # where the blocks begin
Missed = Sequence[Sequence[bool | None]]  # for each step and block; None: not read


def plot_evictions(
    policies: Mapping[str, Missed],
    owners: Sequence[str],
    title: str,
    num_blocks: int,
    first_step: int = 1,
    later: Mapping[str, str] | None = None,
) -> Figure:
    """For each policy, step by step: the blocks that were gone when they were read.

    policies: by name, for each step and each block that somebody needs: True if it had
    to be brought back first, False if it was there, None if it was not read in this
    step. owners: whose each block is. num_blocks: how many there is room for.
    first_step: its number. later: by policy, what is still to be done after these
    steps, in words.
    """
    sheet, y = Sheet(title), 8.0
    width = (SPAN - LEFT) / len(owners)
    for policy, steps in policies.items():
        moved = sum(missed is True for step in steps for missed in step)
        verdict = f"{counted(moved, 'block')} brought back"
        if later and policy in later:
            verdict += f"; {later[policy]}"
        sheet.headline(y, policy, "", verdict, GOOD if not moved else BAD)
        y += 16
        for number, step in enumerate(steps, start=first_step):
            style = {"color": sheet.look.quiet, "ha": "right"}
            sheet.write(LEFT - 10, y + HEIGHT / 2, f"step {number}", **style)
            for index, (owner, missed) in enumerate(zip(owners, step, strict=True)):
                x = LEFT + index * width
                tone: Tone = strong(owner) if missed else soft(owner)
                if missed is None:
                    tone = free()
                    sheet.box(x + 1, y, width - 2, HEIGHT, rim=sheet.look.rim)
                sheet.box(x + 0.5, y, width - 1, HEIGHT, tone)
            y += HEIGHT + GAP
        y += PARTS
    for owner in dict.fromkeys(owners):
        places = [at for at, one in enumerate(owners) if one == owner]
        x = LEFT + (sum(places) / len(places) + 0.5) * width
        sheet.write(x, y - PARTS + 8, owner, PART, ha="center", weight="bold")
    y += 20
    first = owners[0]
    signs = [(strong(first), "must be brought back"), (soft(first), "is there")]
    x = sheet.legend(LEFT, y, [*signs, (free(), "not read: its user waits")])
    sheet.write(SPAN, y, f"room: {num_blocks}", ha="right", color=sheet.look.quiet)
    return render(sheet.finish(y + 10))
