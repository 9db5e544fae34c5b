"""Lab: clients that leave, and the blocks that their requests hold meanwhile (G)."""

from collections.abc import Mapping, Sequence

from minipaged.draw.letters import counted
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import NOTHING, others, strong
from minipaged.lab.plots.render import Figure, render

HIGH = 54.0  # pixels of the most blocks


def plot_leaving(
    left: Mapping[str, int], held: Mapping[str, Sequence[int]], title: str
) -> Figure:
    """Until when each client reads; below, how many blocks are held in each step.

    left: the step after which each client is gone. held: by what the server does, the
    blocks in each step; all of the same steps.
    """
    picture = Picture(title)
    for name, step in left.items():
        lane = picture.lane(name, "", is_bold=True, height=16.0, apart=4.0)
        lane.bar(0, step, strong(name), "reads" if step >= 4 else "")
    most = max(max(counts) for counts in held.values())
    for words, counts in held.items():
        cells = [
            Cell("", others() if count else NOTHING, high=count / most)
            for count in counts
        ]
        picture.lane(
            words,
            f"at last {counted(counts[-1], 'block')}",
            cells,
            height=HIGH,
            apart=12.0,
        )
    picture.axis("step")
    picture.legend((others(), f"blocks held in a step, at most {most}"))
    return render(picture.scene())
