"""Lab: a sequence grows past its piece of memory, over another sequence's tokens."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from minipaged.draw.bands import Drawn
from minipaged.draw.letters import visible
from minipaged.draw.palette import BAD, theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.rows import Row
from minipaged.draw.sheet import Sheet
from minipaged.draw.tones import Tone, free, soft, strong
from minipaged.lab.plots.render import Figure, render

FREE = "."  # the owner of a slot that nobody has written
MOST_WORDS = 16  # more overwritten slots are not written out
ZOOM = 24.0  # pixels from the memory to the overwritten slots, drawn larger


def plot_overrun(
    before: Sequence[str],
    after: Sequence[str],
    starts: Mapping[str, int],
    title: str,
    words: Mapping[str, Sequence[str]],
) -> Figure:
    """A memory at two moments; below, what was in the overwritten slots, and what is.

    before, after: whose token each slot holds, "." for nobody's.
    starts: the slot at which the piece of each sequence begins.
    words: of each sequence, in order; the word in a slot follows from its start.
    """
    if len(before) != len(after):
        raise ValueError(f"{len(before)} slots before, but {len(after)} after")
    slots = enumerate(zip(before, after, strict=True))
    lost = [slot for slot, (was, now) in slots if was not in (FREE, now)]
    tones = {FREE: free()} | {name: soft(name) for name in starts}
    old = [tones[owner] for owner in before]
    new = [
        tones[now] if was == now else strong(now)
        for was, now in zip(before, after, strict=True)
    ]
    for slot in lost:
        new[slot] = Tone(BAD)
    first, *_ = starts
    signs = [(soft(name), f"{name}'s, there before") for name in starts]
    signs.append((strong(first), "written since"))

    picture = Picture(title)
    memory, now = (
        picture.row(label, "", [Cell("", tone) for tone in own], fills=True, apart=16)
        for label, own in (("before", old), ("after", new))
    )
    names = sorted(starts, key=starts.__getitem__)
    edges = [*sorted(starts.values()), len(before)]
    for name, (start, stop) in zip(names, pairwise(edges), strict=True):
        picture.over(memory[start:stop], f"{name}'s {stop - start} slots", "none")
        for row in (memory, now):
            picture.frame(row[start:stop], theme().ink, 1.2)
    for slot in lost:
        picture.cross(now[slot], "#FFFFFF", 1.4)
    if lost:
        signs.append((Tone(BAD), "overwritten"))
        _add_words(picture, now, lost, (before, after), starts, words)
    picture.legend(*signs)
    return render(picture.scene())


def _add_words(
    picture: Picture,
    memory: Row,
    lost: Sequence[int],
    owners: tuple[Sequence[str], Sequence[str]],
    starts: Mapping[str, int],
    words: Mapping[str, Sequence[str]],
) -> None:
    """The overwritten slots larger: each word that was there over the one now."""
    shown = lost[:MOST_WORDS]

    def draw(sheet: Sheet, x: float, y: float, width: float) -> None:
        area = memory.area(shown[0], shown[-1] + 1)
        for start, end in ((area.x, memory.left), (area.x + area.width, x + width)):
            ends = (start, area.y + area.height + 4), (end, y + ZOOM)
            sheet.line(*ends, color=BAD, linewidth=1.2)

    picture.add(Drawn(ZOOM, draw))
    numbers = [Cell(below=str(slot)) for slot in shown]
    picture.row("slot", "", numbers, fills=True, height=0.0, apart=0.0)
    was, now = owners
    for label, whose, tone in (
        (f"{was[shown[0]]}'s word, gone", was, soft),
        ("the word now", now, strong),
    ):
        cells = []
        for slot in shown:
            owner = whose[slot]
            word = visible(words[owner][slot - starts[owner]])
            cells.append(Cell(word, tone(owner)))
        picture.row(label, "", cells, fills=True, apart=4)
    if len(lost) > len(shown):
        picture.text(f"and {len(lost) - len(shown)} more")
