"""Lab: a sequence grows past its piece of memory, over another sequence's tokens."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from matplotlib.figure import Figure

from minipaged.draw.letters import visible
from minipaged.draw.palette import BAD, theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import Tone, free, soft, strong
from minipaged.lab.plots.render import render

FREE = "."  # the owner of a slot that nobody has written
MOST_WORDS = 16  # more overwritten slots are not written out


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
    pairs = list(enumerate(zip(before, after, strict=True)))
    lost = [slot for slot, (was, now) in pairs if was not in (FREE, now)]
    tones = {FREE: free()} | {name: soft(name) for name in starts}
    new = [strong(now) if was != now else tones[now] for _, (was, now) in pairs]
    first, *_ = starts
    signs = [(soft(name), f"{name}'s, there before") for name in starts]
    signs.append((strong(first), "written since"))

    picture = Picture(title)
    cells = [Cell("", tones[owner]) for owner in before]
    memory = picture.row("before", "", cells, fills=True)
    cells = [
        Cell("", Tone(BAD) if slot in lost else tone) for slot, tone in enumerate(new)
    ]
    now = picture.row("after", "", cells, fills=True)
    edges = sorted(starts.values())
    for start, stop in pairwise([*edges, len(before)]):
        (name,) = (name for name, at in starts.items() if at == start)
        picture.over(memory[start:stop], f"{name}'s {stop - start} slots")
        picture.frame(now[start:stop], theme().ink, 1.2)
    if lost:
        signs.append((Tone(BAD), "overwritten"))
        rest = len(lost) - MOST_WORDS
        more = f", and {rest} more" if rest > 0 else ""
        picture.under(now[lost[0] : lost[-1] + 1], "overwritten", BAD)
        shown = lost[:MOST_WORDS]
        owner = before[lost[0]]
        for label, owners, tone in (
            (f"{owner}'s word, gone", before, soft),
            ("the word now", after, strong),
        ):
            cells = [
                Cell(
                    visible(words[owners[slot]][slot - starts[owners[slot]]]),
                    tone(owners[slot]),
                    above=str(slot) if tone is soft else "",
                )
                for slot in shown
            ]
            picture.row(label, "", cells, fills=True, apart=4)
        picture.text(f"the overwritten slots, by their numbers{more}")
    picture.legend(*signs)
    return render(picture.scene())
