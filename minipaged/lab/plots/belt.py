"""Lab: Little's law as a belt: what is asked for lies on it until it is used."""

from collections.abc import Sequence

from minipaged.draw.letters import COUNT, DPI, PART, width_of
from minipaged.draw.palette import line_colour
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone, strong
from minipaged.lab.plots.render import Figure, render

PLACES = 16  # boxes that cover a belt
WIDEST, AIR, LARGEST = 20.0, 3.0, 16.0  # of a place; between boxes; of a box
RATE, GATE = 166.0, 12.0  # pixels for the rate at the right; between queue and belt
THICK, WHEEL = 11.0, 2.8  # of a belt; the radius of its wheels
HEAD, ABOVE, BELOW, BETWEEN = 28.0, 42.0, 40.0, 20.0  # above all; of a row, around it
ARROW = 36.0  # pixels from a belt to its rate
LEAST_ROOM = 60.0  # pixels for the two arrows of a time
ENDS = " from asking to use"  # where a time begins and ends


def plot_belt(
    ceiling: float, latency: float, megabytes: Sequence[float], title: str
) -> Figure:
    """A row for each of the megabytes: so much is under way, so fast does it arrive.

    The belt is as long as the latency. Memory lays on it at most as much as covers it;
    what else is asked for waits in a queue before it. Lengths are times: with a queue,
    a byte comes later by as much as the queue is long.

    ceiling: GB/s that memory gives at most. latency: microseconds from when a program
    asks for a tile until it uses it, if nothing waits. megabytes: what is under way, by
    row.
    """
    drawing = _Belts(ceiling, latency, max(megabytes), Sheet(title))
    return drawing.draw(megabytes)


class _Belts:
    """Belts below each other, all of one length, from asking to use."""

    def __init__(self, ceiling: float, latency: float, most: float, sheet: Sheet):
        self.ceiling, self.latency, self.sheet = ceiling, latency, sheet
        self.full = ceiling * latency / 1000  # MB, as 1 MB in 1 µs is 1,000 GB/s
        queue = self._num_waiting(most)
        room = SPAN - RATE - GATE * bool(queue)
        self.place = min(WIDEST, room / (PLACES + queue))
        self.size = min(self.place - AIR, LARGEST)
        self.end = SPAN - RATE
        self.start = self.end - PLACES * self.place

    def _num_waiting(self, megabytes: float) -> int:
        """Boxes for which the belt has no place yet."""
        return max(0, round(PLACES * (megabytes / self.full - 1)))

    def draw(self, megabytes: Sequence[float]) -> Figure:
        """The rows, what stands above their rates, and what a box is."""
        sheet, y = self.sheet, HEAD
        above = y + ABOVE * bool(self._num_waiting(megabytes[0])) - 16
        sheet.write(self.end + ARROW, above, "rate, at most")
        for under_way in megabytes:
            y = self._draw_row(y, under_way)
        signs = [(strong(0), f"{self.full / PLACES:.2f} MB on the way")]
        if self._num_waiting(max(megabytes)):
            signs += [(_waiting(), "asked for, waits")]
        sheet.legend(0, y + 2, signs)
        return render(sheet.finish(y + 12))

    def _draw_row(self, y: float, under_way: float) -> float:
        """A belt, what waits before it, the time, the rate; where the row ends."""
        waiting = self._num_waiting(under_way)
        floor = y + ABOVE * bool(waiting) + LARGEST
        self._draw_label(y, under_way)
        self._draw_belt(floor)
        covered = min(1.0, under_way / self.full)
        lying = round(PLACES * covered)
        for number in range(lying):
            at = (number * PLACES) // lying
            self._draw_box(self.end - (at + 1) * self.place, floor, strong(0))
        left = self.start - GATE - waiting * self.place
        for number in range(waiting):
            self._draw_box(left + number * self.place, floor, _waiting())
        rate = self.ceiling * covered
        needed = 1000 * under_way / rate
        self._draw_time(left if waiting else self.start, floor + 24, needed)
        self._draw_rate(floor, under_way, needed, rate)
        return floor + BELOW + BETWEEN

    def _draw_label(self, y: float, under_way: float) -> None:
        """How much is under way, and how it fills the belt."""
        sheet, more = self.sheet, under_way - self.full
        said = f"{100 * under_way / self.full:.0f} % of the belt is covered"
        if more > -0.05:
            said = "the belt is covered: this is the ceiling"
        if more >= 0.05:
            said = f"memory gives no more: {more:.1f} MB wait"
        sheet.write(0, y + 8, f"{under_way:.1f} MB under way", PART, weight="bold")
        sheet.write(0, y + 26, said, color=sheet.look.quiet)

    def _draw_belt(self, y: float) -> None:
        """Seen from the side: a band around wheels; its upper edge is at y."""
        sheet, wide = self.sheet, self.end - self.start
        style = {"linewidth": 1.4, "rounding": THICK / 2}
        sheet.box(self.start, y, wide, THICK, rim=sheet.look.rim, **style)
        count = PLACES // 2
        apart = (wide - THICK) / count
        xs = [self.start + THICK / 2 + wheel * apart for wheel in range(count + 1)]
        style = {"size": 2 * WHEEL * 72 / DPI, "color": sheet.look.rim, "linewidth": 0}
        sheet.dots([(x, y + THICK / 2) for x in xs], "o", **style)

    def _draw_box(self, x: float, floor: float, tone: Tone) -> None:
        """In the middle of a place that begins at x."""
        left = x + (self.place - self.size) / 2
        self.sheet.box(left, floor - self.size, self.size, self.size, tone)

    def _draw_time(self, left: float, y: float, needed: float) -> None:
        """How long a byte takes, from where it begins to wait or to move.

        From when to when that is, is said where there is room.
        """
        sheet, said = self.sheet, f"{needed:.3g} µs"
        if width_of(said + ENDS) + LEAST_ROOM < self.end - left:
            said += ENDS
        middle, half = (left + self.end) / 2, width_of(said) / 2 + 6
        for x, inner in ((left, middle - half), (self.end, middle + half)):
            sheet.line((x, y - 5), (x, y + 5))
            sheet.arrow((inner, y), (x, y))
        sheet.write(middle, y, said, ha="center")

    def _draw_rate(
        self, floor: float, under_way: float, needed: float, rate: float
    ) -> None:
        """What arrives in a second, and how that is computed."""
        sheet, x = self.sheet, self.end + ARROW
        start = self.end + 6, floor - LARGEST / 2
        sheet.arrow(start, (x - 6, start[1]), line_colour(0), is_followed=True)
        said = f"{rate:,.0f}"
        sheet.write(x, start[1], said, COUNT)
        sheet.write(x + width_of(said, COUNT) + 6, start[1] + 2, "GB/s", PART)
        said = f"= {under_way:.1f} MB / {needed:.3g} µs"
        sheet.write(x, floor + 24, said)


def _waiting() -> Tone:
    """Of what is asked for, and not on its way yet."""
    return Tone("none", line=line_colour(0))
