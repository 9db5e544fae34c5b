"""Lab: pictures made of rows of cells, with links and words; they lay themselves out.

Say what there is, from top to bottom; nothing is measured. For example:

    picture = Picture("B's table names A's block")
    a = picture.row("A", "writes position 3", [Cell("0", soft("A"))])
    memory = picture.row("memory", "", [Cell("A", soft("A")), Cell("B", soft("B"))])
    picture.link(a[0], memory[0])
    picture.legend((soft("A"), "A's"))
    svg = to_svg(picture.scene())
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import inf

from minipaged.draw.bands import Drawn, Legend, Panels
from minipaged.draw.lanes import Axis, Lane
from minipaged.draw.letters import PART, width_of
from minipaged.draw.links import draw_cross, draw_link, is_step
from minipaged.draw.marks import Item, Link, Scene
from minipaged.draw.palette import BAD, theme
from minipaged.draw.rows import AIR, Band, Cell, Row, Span
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Sign, Tone, behind_words

WIDEST = 44.0  # pixels of a cell, at most
LINKED, WORDS = 46.0, 12.0  # pixels if links lead there; more, if they have words


class Picture(Band):
    """Rows, headings, panels and a legend, from top to bottom."""

    def __init__(self, title: str = "", widest: float = WIDEST):
        """An empty picture. `widest`: pixels that a unit of cells takes at most."""
        self.title, self.widest = title, widest
        self._bands: list[Band] = []
        self._links: list[tuple[Span, Span, dict, Item | None]] = []
        self._frames: list[tuple[Span, Span, str, float]] = []
        self._crosses: list[tuple[Span, str, float]] = []
        self._heads: Sequence[str] = ()

    # --- what it consists of ----------------------------------------------------------

    def row(
        self,
        label: str = "",
        remark: str = "",
        cells: Sequence[Cell] = (),
        **options: object,
    ) -> Row:
        """A row of cells. `label`, with a quiet `remark` below, stands at its left.

        Options: what a `Row` has, such as height, values or aside.
        """
        row = Row(cells, self, label=label, remark=remark, **options)
        self.add(row)
        return row

    def lane(
        self,
        label: str = "",
        remark: str = "",
        cells: Sequence[Cell] = (),
        **options: object,
    ) -> Lane:
        """A row whose places are numbers: see `Lane`. Options: as of `row`."""
        lane = Lane(cells, self, label=label, remark=remark, **options)
        self.add(lane)
        return lane

    def axis(
        self,
        words: str = "",
        *,
        highest: float | None = None,
        is_logarithmic: bool = False,
        marks: Mapping[float, str] | None = None,
        is_bare: bool = False,
        ticks: Sequence[float] | None = None,
    ) -> None:
        """The numbers of all lanes above it, since the last axis; they begin at 0.

        highest: where they end; by default with the longest lane. marks: words for
        numbers, at which there is a heavy line. is_bare: no thin lines in the lanes.
        ticks: the numbers, if they are not to be chosen.
        """
        lanes = [band for band in self._bands if isinstance(band, Lane)]
        lanes = [lane for lane in lanes if not lane.axis]
        self.add(
            Axis(lanes, words, highest, is_logarithmic, marks or {}, is_bare, ticks)
        )

    def blocks(
        self,
        label: str = "",
        remark: str = "",
        blocks: Sequence[Sequence[Cell]] = (),
        **options: object,
    ) -> Row:
        """A row of blocks of cells, with air between them and a rim around each.

        `row.block(2)` are the cells of the third block. Options: as of `row`.
        """
        starts = [0, *accumulate(map(len, blocks))][:-1]
        cells = [cell for block in blocks for cell in block]
        options = {"gap": 12.0, "rim": theme().rim, "starts": starts, **options}
        return self.row(label, remark, cells, **options)

    def heads(self, *words: str) -> None:
        """What the values at the right of the next rows are."""
        self._heads = words

        def draw(sheet: Sheet, x: float, y: float, width: float) -> None:
            for end, word in zip(self.ends_of_values(x + width), words, strict=False):
                sheet.write(end, y + 7, word, ha="right", color=sheet.look.quiet)

        self.add(Drawn(14.0, draw))

    def headline(
        self, what: str, remark: str = "", verdict: str = "", colour: str | None = None
    ) -> None:
        """What the next rows show; at the right edge, how good or bad it is."""

        air = 8.0 * bool(self._bands)

        def draw(sheet: Sheet, x: float, y: float, width: float) -> None:
            middle = y + air + 10
            beside = x + width_of(what, PART, bold=True) + 12
            sheet.write(x, middle, what, PART, weight="bold")
            sheet.write(beside, middle, remark, color=sheet.look.quiet)
            style = {"ha": "right", "color": colour or sheet.look.ink}
            sheet.write(x + width, middle, verdict, PART, **style)

        self.add(Drawn(20.0 + air, draw))

    def text(self, *lines: str, **style: str | float) -> None:
        """Lines of words: quiet, if no style says otherwise."""

        def draw(sheet: Sheet, x: float, y: float, width: float) -> None:
            for at, words in enumerate(lines):
                quiet = {"color": sheet.look.quiet}
                sheet.write(x, y + 9 + 18 * at, words, **{**quiet, **style})

        self.add(Drawn(18.0 * len(lines), draw))

    def add(self, band: Band) -> None:
        """A band of another kind, such as a `Chart`."""
        self._bands.append(band)

    def rule(self) -> None:
        """A thin line over the whole width."""

        def draw(sheet: Sheet, x: float, y: float, width: float) -> None:
            sheet.line((x, y + 5), (x + width, y + 5), alpha=0.5)

        self.add(Drawn(10.0, draw))

    def space(self, height: float = 12.0) -> None:
        """Nothing, so many pixels high, besides the space around it."""
        self.add(Drawn(height, lambda *place: None))

    def legend(
        self,
        *signs: tuple[Tone | Sign, str] | tuple[Tone, str, str],
        verdict: str = "",
        colour: str | None = None,
        **rim: str | float,
    ) -> None:
        """What the tones mean, in as many lines as it takes; a verdict before them.

        A sign with a third value has a thick rim of this colour. rim, linewidth: of a
        thin rim around all signs.
        """
        self.add(Legend(signs, verdict, colour, rim, self))

    def beside(
        self, *pictures: "Picture", gap: float = 28.0, shares: Sequence[float] = ()
    ) -> None:
        """These pictures side by side; their titles are headings.

        shares: in which proportion they are wide, if not equally.
        """
        self.add(Panels(pictures, gap, shares))

    def link(
        self,
        source: Span,
        target: Span,
        colour: str | None = None,
        is_followed: bool = False,
        words: str = "",
        is_false: bool = False,
        is_straight: bool = False,
        is_level: bool = False,
        item: Item | None = None,
    ) -> None:
        """An arrow between cells of two rows, or of one: below it, or in a wide gap.

        words: in lines beside the middle, if it does not lead to another panel.
        is_false: the arrow bears a cross. is_straight: it has no bend. is_level: it
        leaves and enters cells at their sides, not above and below. item: what it
        stands for, on a page that can point at it; then rows make no room for it: it
        runs over them, and beside columns of blocks.
        """
        style = {"colour": colour, "is_followed": is_followed, "words": words}
        style |= {"is_false": is_false, "is_straight": is_straight}
        style |= {"is_level": is_level}
        self._links.append((source, target, style, item))

    def over(self, span: Span, words: str, colour: str | None = None) -> None:
        """A bracket above these cells, with words; of colour "none": words alone."""
        span.row.brackets.append((span, words, colour, True))

    def under(self, span: Span, words: str, colour: str | None = None) -> None:
        """A bracket below these cells, with words."""
        span.row.brackets.append((span, words, colour, False))

    def frame(
        self,
        span: Span,
        colour: str,
        linewidth: float = 2.0,
        last: Span | None = None,
    ) -> None:
        """A frame around these cells: in the gaps beside them, if there are any.

        last: cells of a row further below, down to which the frame reaches.
        """
        self._frames.append((span, last or span, colour, linewidth))

    def cross(self, span: Span, colour: str = BAD, linewidth: float = 2.6) -> None:
        """Strike these cells out."""
        self._crosses.append((span, colour, linewidth))

    def scene(self, span: float = SPAN) -> Scene:
        """The picture as a scene, laid out; span: pixels from left to right."""
        sheet = Sheet(self.title, span)
        self.draw(sheet, 0.0, 0.0, span)
        self.tell(sheet.scene)
        return sheet.finish(self.measure(span))

    # --- layout -----------------------------------------------------------------------

    @property
    def _rows(self) -> list[Row]:
        return [band for band in self._bands if isinstance(band, Row)]

    @property
    def room_left(self) -> float:
        """Pixels that labels take, with air behind them."""
        widths = [0.0]
        for row in self._rows:
            widths.append(width_of(row.label, PART, row.is_bold))
            widths.append(width_of(row.remark))
        return max(widths) + AIR if max(widths) else 0.0

    @property
    def room_right(self) -> float:
        """Pixels that the values take."""
        return sum(self._widths_of_values())

    def _widths_of_values(self) -> list[float]:
        columns = max((len(row.values) for row in self._rows), default=0)
        widths = [0.0] * columns
        rows = [(row.values, row.is_heavy) for row in self._rows]
        for words, is_heavy in [(self._heads, False), *rows]:
            for at, word in enumerate(words):
                widths[at] = max(widths[at], width_of(word, bold=is_heavy) + AIR)
        return widths

    def ends_of_values(self, right: float) -> list[float]:
        """Where each column of values ends, if the picture ends at `right`; pixels."""
        widths = self._widths_of_values()
        return [right - sum(widths[at + 1 :]) for at in range(len(widths))]

    def as_drawn(self, tone: Tone) -> Tone:
        """The tone as cells above have it: a line, if it is a line in all of them."""
        is_line = {row.is_line[tone] for row in self.all_rows() if tone in row.is_line}
        return behind_words(tone) if is_line == {True} else tone

    def all_rows(self) -> list[Row]:
        """Its rows, and those of the pictures within."""
        rows = [*self._rows]
        for band in self._bands:
            if isinstance(band, Panels):
                rows += [row for picture in band.pictures for row in picture.all_rows()]
        return rows

    def unit(self, width: float) -> float:
        """Pixels of a unit, for all rows that have no unit of their own."""
        room = width - self.room_left - self.room_right
        has_axis = any(isinstance(band, Axis) for band in self._bands)
        found = [inf if has_axis else self.widest]
        for row in self._rows:
            if row.units and not row.unit and not row.fills:
                aside = width_of(row.aside, bold=row.is_heavy)
                aside += 2 * AIR * bool(row.aside)
                found.append((room - aside - row.gaps) / row.units)
        return min(found)

    def _gap(self, upper: Band, lower: Band | None) -> float:
        """Pixels between two bands: more if links lead down or up there."""
        rows = self._rows
        for source, target, style, item in self._links:
            is_aside = item or style["is_level"]
            if is_aside or source.row not in rows or target.row not in rows:
                continue
            if source.row is target.row:
                if source.row is upper and not is_step(source, target):
                    return LINKED + WORDS * bool(style["words"])
                continue
            first, last = sorted((source.row, target.row), key=self._bands.index)
            if first is upper or last is lower:
                return LINKED
        return upper.apart

    def measure(self, width: float) -> float:
        """How high all bands are together, if they are so wide."""
        return self._walk(width)[-1]

    def _walk(self, width: float) -> list[float]:
        """The upper edge of each band, and the lower edge of the last."""
        y, edges = 0.0, []
        for at, band in enumerate(self._bands):
            if at:
                y += self._gap(self._bands[at - 1], band)
            edges.append(y)
            y += band.measure(width)
        if self._bands:  # arcs below the last row
            y += self._gap(self._bands[-1], None) - self._bands[-1].apart
        return [*edges, y]

    def draw(self, sheet: Sheet, x: float, y: float, width: float) -> None:
        """Draw all bands; links and frames when all have their places."""
        edges = self._walk(width)
        for band, top in zip(self._bands, edges, strict=False):
            band.draw(sheet, x, y + top, width)
        for span, last, colour, linewidth in self._frames:
            area = span.row.area(span.start, span.stop)
            aside = 1.5 - 0.3 * span.row.gap
            high = last.row.y + last.row.height - area.y + 6
            inner = area.x + aside, area.y - 3, area.width - 2 * aside, high
            sheet.box(*inner, rim=colour, linewidth=linewidth)
        for span, *style in self._crosses:
            draw_cross(sheet, span.row.area(span.start, span.stop), *style)
        for source, target, style, item in self._links:
            rows = self.all_rows() if item else []
            passed = [
                row
                for row in rows
                if row.picture is target.row.picture
                and source.row.y < row.y < target.row.y
            ]
            aside = 0.0 if style["is_straight"] else self._aside(source, target)
            with sheet.group(item):
                draw_link(sheet, source, target, aside, passed, **style)

    def _aside(self, source: Span, target: Span) -> float:
        """Pixels from the target's middle, so that not all arrows meet there."""
        rows = {
            span.row.area(span.start, span.stop).middle: span
            for span, other, *_ in self._links
            if other == target and span.row is not target.row
        }
        if len(rows) < 2 or source.row is target.row:
            return 0.0
        order = [rows[x] for x in sorted(rows)].index(source)
        area = target.row.area(target.start, target.stop)
        return min(24.0, area.width / len(rows)) * (order - (len(rows) - 1) / 2)

    def tell(self, scene: Scene) -> None:
        """Note in the scene what rows and links say, also of pictures within."""
        scene.rows += [row.facts for row in self._rows]
        scene.links += [
            Link(
                one.row.label,
                one.start,
                other.row.label,
                other.start,
                style["colour"],
                style["words"],
                style["is_false"],
            )
            for one, other, style, _ in self._links
        ]
        for band in self._bands:
            if isinstance(band, Panels):
                for picture in band.pictures:
                    picture.tell(scene)
