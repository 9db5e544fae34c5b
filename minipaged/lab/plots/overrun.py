"""Lab: a sequence grows past its piece of memory, over another sequence's tokens."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, visible
from minipaged.draw.marks import Scene
from minipaged.draw.palette import BAD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone, free, soft, strong
from minipaged.lab.plots.render import render

FREE = "."  # the owner of a slot that nobody has written
LEFT, HEIGHT = 118.0, 26.0  # where the slots begin; how high they are, in pixels
ROWS = 22.0, 68.0  # how far down the memory is, before and after
ZOOM = 146.0  # and the overwritten slots with their words
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
    drawing = _Overrun(before, after, starts, words, Sheet(title))
    return render(drawing.draw())


class _Overrun:
    """Which slots changed hands, and where they are drawn."""

    def __init__(
        self,
        before: Sequence[str],
        after: Sequence[str],
        starts: Mapping[str, int],
        words: Mapping[str, Sequence[str]],
        sheet: Sheet,
    ):
        if len(before) != len(after):
            raise ValueError(f"{len(before)} slots before, but {len(after)} after")
        self.before, self.after, self.sheet = before, after, sheet
        self.starts, self.words = starts, words
        self.width = (SPAN - LEFT) / len(before)
        pairs = enumerate(zip(before, after, strict=True))
        self.lost = [slot for slot, (was, now) in pairs if was not in (FREE, now)]

    def draw(self) -> Scene:
        """The memory twice, the overwritten slots, and what the tones mean."""
        self._draw_pieces()
        self._draw_memory(ROWS[0], "before", self.before, is_after=False)
        self._draw_memory(ROWS[1], "after", self.after, is_after=True)
        y = ROWS[1] + HEIGHT + 26
        if self.lost:
            self._draw_words(self.lost[:MOST_WORDS])
            y = ZOOM + 2 * HEIGHT + 38
        first, *_ = self.starts
        signs = [(soft(name), f"{name}'s, there before") for name in self.starts]
        signs.append((strong(first), "written since"))
        if self.lost:
            signs.append((Tone(BAD), "overwritten"))
        self.sheet.legend(LEFT, y, signs)
        return self.sheet.finish(y + 10)

    def _draw_pieces(self) -> None:
        """Above the memory: whose piece begins where, and its number of slots."""
        starts = sorted(self.starts.items(), key=lambda item: item[1])
        stops = [start for _, start in starts[1:]] + [len(self.before)]
        for (name, start), stop in zip(starts, stops, strict=True):
            x = LEFT + start * self.width
            said = f"{name}'s {stop - start} slots"
            self.sheet.write(x, ROWS[0] - 13, said, PART, weight="bold")

    def _draw_memory(
        self, y: float, label: str, owners: Sequence[str], is_after: bool
    ) -> None:
        """A row of slots, a frame around each piece, crosses where tokens are lost."""
        sheet, tones = self.sheet, []
        sheet.write(0, y + HEIGHT / 2, label, PART)
        for slot, owner in enumerate(owners):
            is_new = is_after and self.before[slot] != owner
            tone = strong(owner) if is_new else soft(owner)
            tone = Tone(BAD) if is_after and slot in self.lost else tone
            tones.append(free() if owner == FREE else tone)
        sheet.cells(LEFT, y, [self.width] * len(owners), HEIGHT, tones)
        for slot, pair in enumerate(pairwise(owners), start=1):
            if pair == (FREE, FREE):  # else an empty slot is lost in a dark page
                x = LEFT + slot * self.width
                sheet.line((x, y), (x, y + HEIGHT), alpha=0.6)
        edges = [*sorted(self.starts.values()), len(owners)]
        for start, stop in pairwise(edges):
            x, width = LEFT + start * self.width, (stop - start) * self.width
            sheet.box(x, y, width, HEIGHT, rim=sheet.look.ink, linewidth=1.2)
        for slot in self.lost * is_after:
            self._cross_out(LEFT + (slot + 0.5) * self.width, y + HEIGHT / 2)

    def _cross_out(self, x: float, y: float) -> None:
        reach = min(7.0, self.width / 2 - 1.5)
        for side in (-reach, reach):
            ends = (x - side, y - reach), (x + side, y + reach)
            self.sheet.line(*ends, color="#FFFFFF", linewidth=1.4)

    def _draw_words(self, slots: Sequence[int]) -> None:
        """The overwritten slots larger: each word that was there over the one now."""
        sheet, width = self.sheet, (SPAN - LEFT) / len(slots)
        bottom = ROWS[1] + HEIGHT + 2
        for slot, x in ((slots[0], LEFT), (slots[-1] + 1, SPAN)):
            above = LEFT + slot * self.width
            sheet.line((above, bottom), (x, ZOOM - 18), color=BAD, linewidth=1.2)
        sheet.write(0, ZOOM - 9, "slot", color=sheet.look.quiet)
        for at, slot in enumerate(slots):
            x = LEFT + (at + 0.5) * width
            sheet.write(x, ZOOM - 9, str(slot), ha="center", color=sheet.look.quiet)
        lost = self.before[slots[0]]
        rows = ((f"{lost}'s word, gone", self.before), ("the word now", self.after))
        for row, (label, owners) in enumerate(rows):
            y = ZOOM + row * (HEIGHT + 4)
            sheet.write(0, y + HEIGHT / 2, label, PART)
            tone = strong if row else soft
            tones = [tone(owners[slot]) for slot in slots]
            shown = [visible(self._word(owners[slot], slot)) for slot in slots]
            sheet.cells(LEFT, y, [width] * len(slots), HEIGHT, tones, shown)
        if len(self.lost) > len(slots):
            said = f"and {len(self.lost) - len(slots)} more"
            sheet.write(SPAN, ZOOM + 2 * HEIGHT + 16, said, ha="right")

    def _word(self, owner: str, slot: int) -> str:
        return self.words[owner][slot - self.starts[owner]]
