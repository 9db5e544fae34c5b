"""Lab: which blocks must be brought back when a step reads all of them."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from minipaged.draw.letters import counted
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import free, soft, strong
from minipaged.lab.plots.render import Figure, render

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
    blocks = Picture(title)
    for policy, steps in policies.items():
        moved = sum(missed is True for step in steps for missed in step)
        verdict = f"{counted(moved, 'block')} brought back"
        if later and policy in later:
            verdict += f"; {later[policy]}"
        blocks.headline(policy, "", verdict, BAD if moved else GOOD)
        for number, step in enumerate(steps, start=first_step):
            cells = [
                Cell("", free() if missed is None else (soft, strong)[missed](owner))
                for owner, missed in zip(owners, step, strict=True)
            ]
            row = blocks.row(f"step {number}", "", cells, height=15.0, fills=True)
    ends = [at for at in range(len(owners)) if owners[at] != owners[at - 1]] or [0]
    for start, stop in pairwise([*ends, len(owners)]):
        blocks.under(row[start:stop], owners[start])
    signs = [(strong(owners[0]), "must be brought back"), (soft(owners[0]), "is there")]
    signs.append((free(), "not read: its user waits"))
    blocks.legend(*signs, verdict=f"room: {num_blocks}")
    return render(blocks.scene())
