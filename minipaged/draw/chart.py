"""Lab: charts of numbers: lines, stairs, columns and dots over two axes.

For example:

    chart = Chart("Twice as fast", xlabel="sequences", ylabel="tokens a second")
    chart.line([(1, 90), (2, 170), (4, 300)], "ours")
    chart.mark(y=250, words="the goal")
    svg = to_svg(chart.scene())
"""

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from minipaged.draw.letters import width_of
from minipaged.draw.marks import Point, Scene
from minipaged.draw.palette import line_colour
from minipaged.draw.picture import Band, Picture
from minipaged.draw.scales import Limits, Scale, scale_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import MARKERS, Tone, others, strong

DASHES = ("-", "--", ":", "-.")
MANY = 20  # points of a line; more have no markers
SIZE = 6.5  # points of a marker
ROOM = 1.4  # times the highest number, up to the end of a logarithmic y axis
TICKS, LABEL = 20.0, 22.0  # pixels below the axis, for numbers and for what they are


class Curve(NamedTuple):
    """Points of one series, from left to right."""

    name: str
    points: tuple[Point, ...]
    series: int  # which colour, marker and dashes it has
    is_stairs: bool
    has_markers: bool
    has_line: bool
    marker: str

    @property
    def dashes(self) -> str:
        """Of its line."""
        return DASHES[self.series % len(DASHES)]


class Chart(Band):
    """Numbers over an axis: `scene()` is a picture of this chart alone.

    In a larger picture: `picture.add(chart)`.
    """

    def __init__(
        self,
        title: str = "",
        *,
        xlabel: str = "",
        ylabel: str = "",
        height: float = 260.0,
        x_limits: Limits | None = None,
        y_limits: Limits | None = None,
        x_is_logarithmic: bool = False,
        y_is_logarithmic: bool = False,
        x_ticks: Sequence[float] | None = None,
        below: "Chart | None" = None,
    ):
        """A chart without numbers.

        height: pixels between the axis and the upper edge. limits: where an axis begins
        and ends, or None; by default it holds all numbers, and an even one begins at 0
        if they are near it. x_ticks: the numbers below the axis, if they are not to be
        chosen. below: a chart above this one; both are to one scale.
        """
        self.title, self.xlabel, self.ylabel = title, xlabel, ylabel
        self.height = height
        self.x_limits, self.y_limits, self.x_ticks = x_limits, y_limits, x_ticks
        self.x_is_logarithmic = x_is_logarithmic
        self.y_is_logarithmic = y_is_logarithmic
        self.curves: list[Curve] = []
        self._columns: list[tuple[float, float, float]] = []
        self._bands: list[tuple[float, float]] = []
        self._boxes: list[tuple[Point, Point, Tone]] = []
        self._marks: list[tuple[float | None, float | None, str, str]] = []
        self._notes: list[tuple[float, float, str]] = []
        self.aligned: list[Chart] = below.aligned if below else []
        self.aligned.append(self)

    def line(
        self,
        points: Sequence[Point],
        name: str = "",
        *,
        series: int | None = None,
        is_stairs: bool = False,
        has_markers: bool | None = None,
        has_line: bool = True,
        marker: str | None = None,
    ) -> None:
        """A line through these points, or stairs that hold each value to the next.

        series: which colour, marker and dashes; by default the next ones. A line of
        more than 20 points has no markers, unless it is said otherwise. marker: in
        place of the series' own.
        """
        if series is None:
            series = len(self.curves)
        if has_markers is None:
            has_markers = len(points) <= MANY and not is_stairs
        marker = marker or MARKERS[series % len(MARKERS)]
        self.curves.append(
            Curve(name, tuple(points), series, is_stairs, has_markers, has_line, marker)
        )

    def columns(self, edges: Sequence[float], counts: Sequence[float]) -> None:
        """Upright bars from edge to edge, one fewer than there are edges."""
        pairs = zip(pairwise(edges), counts, strict=True)
        self._columns += [(low, high, count) for (low, high), count in pairs]

    def mark(
        self,
        *,
        x: float | None = None,
        y: float | None = None,
        words: str = "",
        linestyle: str = "--",
    ) -> None:
        """A line over the whole chart at x, or at y, with words at its end."""
        self._marks.append((x, y, words, linestyle))

    def band(self, low: float, high: float) -> None:
        """A grey area over the whole chart, from height to height."""
        self._bands.append((low, high))

    def box(self, low: Point, high: Point, tone: Tone) -> None:
        """A rectangle from its lower left corner to its upper right one."""
        self._boxes.append((low, high, tone))

    def note(self, x: float, y: float, words: str) -> None:
        """Words above a point."""
        self._notes.append((x, y, words))

    def scene(self) -> Scene:
        """A picture of this chart alone."""
        picture = Picture(self.title)
        picture.add(self)
        return picture.scene()

    # --- layout -----------------------------------------------------------------------

    def numbers(self, at: int) -> list[float]:
        """All that must have room on the axis: 0 for across, 1 for upwards."""
        found = [point[at] for curve in self.curves for point in curve.points]
        found += [mark[at] for mark in self._marks if mark[at] is not None]
        found += [corner[at] for *corners, _ in self._boxes for corner in corners]
        if self._columns and at == 0:
            found += [edge for low, high, _ in self._columns for edge in (low, high)]
        if self._columns and at == 1:
            found += [0.0, *(count for *_, count in self._columns)]
        return found

    def _up(self, bottom: float) -> Scale:
        numbers, limits = self.numbers(1), self.y_limits
        if self.y_is_logarithmic and limits is None:
            limits = min(numbers) / ROOM, max(numbers) * ROOM
        return scale_of(numbers, bottom, -self.height, self.y_is_logarithmic, limits)

    def rooms(self) -> tuple[float, float]:
        """Pixels at the left, for numbers; at the right, for the words of marks."""
        numbers = [width_of(f"{tick:,g}") for tick in self._up(0.0).ticks]
        words = [width_of(words) for _, y, words, _ in self._marks if y is not None]
        return max(numbers) + 10, max([0.0, *words]) + 8

    def _above(self) -> float:
        return 20.0 * sum(
            x is not None and bool(words) for x, _, words, _ in self._marks
        )

    def _names(self) -> list[Curve]:
        return [curve for curve in self.curves if curve.name]

    def _legend(self, width: float) -> list[list[Curve]]:
        """The named curves, in as many lines as they take."""
        lines: list[list[Curve]] = [[]]
        used = 0.0
        for curve in self._names():
            wide = 36 + width_of(curve.name) + 22
            if lines[-1] and used + wide > width:
                lines.append([])
                used = 0.0
            lines[-1].append(curve)
            used += wide
        return lines if lines[0] else []

    def measure(self, width: float) -> float:
        """Words above, the chart, its numbers, what they are, and what lines mean."""
        below = TICKS + LABEL * bool(self.xlabel)
        head = 22.0 * bool(self.ylabel)
        legend = 20.0 * len(self._legend(width))
        return head + self._above() + self.height + below + legend + 6 * bool(legend)

    def draw(self, sheet: Sheet, x: float, y: float, width: float) -> None:
        """Grid first, then boxes, columns, lines, marks and words."""
        head = 22.0 * bool(self.ylabel)
        if self.ylabel:
            sheet.write(x, y + 8, self.ylabel)
        top = y + head + self._above()
        bottom = top + self.height
        up = self._up(bottom)
        rooms = [chart.rooms() for chart in self.aligned]
        left, right = (max(room) for room in zip(*rooms, strict=True))
        left, right = x + left, x + width - right
        numbers = [n for chart in self.aligned for n in chart.numbers(0)]
        across = scale_of(
            numbers, left, right - left, self.x_is_logarithmic, self.x_limits
        )
        if self.x_ticks is not None:
            across = across._replace(ticks=tuple(self.x_ticks))
        sheet.scene.curves += self.curves
        self._draw_axes(sheet, across, up, (left, right, bottom))
        if self.xlabel:
            low = bottom + TICKS + LABEL / 2
            sheet.write((left + right) / 2, low, self.xlabel, ha="center")
        for low, high in self._bands:
            low, high = max(low, up.lowest), min(high, up.highest)
            area = left, up.x(high), right - left, up.x(low) - up.x(high)
            sheet.box(*area, others())
        for (start, low), (stop, high), tone in self._boxes:
            corner = across.x(start), up.x(high)
            wide, tall = across.x(stop) - corner[0], up.x(low) - corner[1]
            sheet.box(*corner, wide, tall, tone)
        for low, high, count in self._columns:
            gap = 0.03 * (across.x(high) - across.x(low))
            box = across.x(low) + gap, up.x(count)
            wide = across.x(high) - across.x(low) - 2 * gap
            if count:
                sheet.box(*box, wide, bottom - box[1], strong(0))
        for curve in self.curves:
            self._draw_curve(sheet, curve, across, up)
        self._draw_marks(sheet, across, up, (left, right, bottom, top))
        for x_note, y_note, words in self._notes:
            aside = self._aside(x_note, y_note)
            ha = ("right", "center", "left")[aside + 1]
            sheet.write(across.x(x_note) + 7 * aside, up.x(y_note) - 9, words, ha=ha)
        self._draw_legend(sheet, x, y + self.measure(width), width)

    def _aside(self, x: float, y: float) -> int:
        """Where a note has no line in its way: -1 left of its point, 1 right, 0 above.

        A line that rises from the point leaves room at the left, one that has fallen to
        it at the right.
        """
        for curve in self.curves:
            if (x, y) in curve.points:
                at = curve.points.index((x, y))
                after = curve.points[at + 1 : at + 2]
                before = curve.points[max(0, at - 1) : at]
                if after and after[0][1] > y:
                    return -1
                if before and before[0][1] > y:
                    return 1
        return 0

    def _draw_marks(
        self,
        sheet: Sheet,
        across: Scale,
        up: Scale,
        frame: tuple[float, float, float, float],
    ) -> None:
        """Lines; words of several upright ones stand one above the other."""
        left, right, bottom, top = frame
        upright = sorted(mark for mark in self._marks if mark[0] is not None)
        level = [mark for mark in self._marks if mark[0] is None]
        style = {"color": sheet.look.ink, "linewidth": 1.2}
        for _, number, words, linestyle in level:
            y = up.x(number)
            sheet.line((left, y), (right, y), linestyle=linestyle, **style)
            sheet.write(right + 6, y, words)
        num_said = sum(bool(words) for *_, words, _ in upright)
        for at, (number, _, words, linestyle) in enumerate(upright):
            x, y = across.x(number), top
            if words:
                y -= 20 * sum(bool(words) for *_, words, _ in upright[at:]) - 11
            style["linestyle"] = linestyle
            sheet.line((x, y if num_said > 1 else top), (x, bottom), **style)
            if num_said < 2:
                sheet.write(x, y, words, ha="center")
            elif x + 6 + width_of(words) < right:
                sheet.write(x + 6, y, words)
            else:
                sheet.write(x - 6, y, words, ha="right")

    def _draw_axes(
        self,
        sheet: Sheet,
        across: Scale,
        up: Scale,
        frame: tuple[float, float, float],
    ) -> None:
        left, right, bottom = frame
        quiet = {"color": sheet.look.quiet}
        for tick in up.ticks:
            height = up.x(tick)
            sheet.line((left, height), (right, height), alpha=0.35, layer=0)
            sheet.write(left - 7, height, f"{tick:,g}", ha="right", **quiet)
        for tick in across.ticks:
            place = across.x(tick)
            sheet.line((place, bottom), (place, bottom + 4))
            words = f"{tick:,g}"
            middle = min(place, SPAN - width_of(words) / 2)
            sheet.write(middle, bottom + 13, words, ha="center", **quiet)
        sheet.line((left, bottom), (right, bottom), layer=1)

    def _draw_curve(self, sheet: Sheet, curve: Curve, across: Scale, up: Scale) -> None:
        places = [(across.x(x), up.x(y)) for x, y in curve.points]
        ends = up.left + up.width - 0.01, up.left + 0.01
        colour = line_colour(curve.series)
        if curve.has_line:
            path = places
            if curve.is_stairs:
                path = places[:1]
                for (_, before), (x, y) in pairwise(places):
                    path += [(x, before), (x, y)]
            for part in _between(path, *ends):
                sheet.path(part, color=colour, linewidth=1.6, linestyle=curve.dashes)
        if curve.has_markers:
            dots = [(x, y) for x, y in places if ends[0] <= y <= ends[1]]
            style = {"size": 9.0, "linewidth": 2.0} if curve.marker == "x" else {}
            style = {"color": colour, "size": SIZE, "layer": 3, **style}
            sheet.dots(dots, curve.marker, **style)

    def _draw_legend(self, sheet: Sheet, x: float, low: float, width: float) -> None:
        lines = self._legend(width)
        for at, line in enumerate(lines):
            y, left = low - 20.0 * (len(lines) - at) + 10, x
            for curve in line:
                colour = line_colour(curve.series)
                if curve.has_line:
                    style = {"linewidth": 1.6, "linestyle": curve.dashes}
                    style["color"] = colour
                    sheet.path([(left, y), (left + 28, y)], **style)
                if curve.has_markers:
                    sheet.dots([(left + 14, y)], curve.marker, color=colour, size=SIZE)
                sheet.write(left + 36, y, curve.name)
                left += 36 + width_of(curve.name) + 22


def _between(path: Sequence[Point], top: float, bottom: float) -> list[list[Point]]:
    """The parts of a line that lie between two heights."""
    points = list(path[:1])
    for (x0, y0), (x1, y1) in pairwise(path):
        ways = [(edge - y0) / (y1 - y0) for edge in (top, bottom) if y0 != y1]
        cuts = sorted(way for way in ways if 0 < way < 1)
        points += [(x0 + way * (x1 - x0), y0 + way * (y1 - y0)) for way in cuts]
        points.append((x1, y1))
    runs = groupby(points, key=lambda point: top - 0.01 <= point[1] <= bottom + 0.01)
    return [list(run) for is_between, run in runs if is_between]
