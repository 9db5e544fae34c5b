"""Lab: blocks that are reused while an index names pasts by their ids."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, fit, width_of
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone, behind_words, soft, strong
from minipaged.lab.plots.render import render

GAP, LINE, LINES = 30.0, 16.0, 3  # pixels between blocks and of a line; lines of text
HEIGHT = LINE * LINES + 8
ROW, TOP = HEIGHT + 80.0, 48.0  # from moment to moment; above the first one
LOWER = HEIGHT + 54.0  # from a row to what stands below it
Index = Mapping[tuple[int | None, tuple[int, ...]], int]


def plot_reuse(
    before: Index,
    after: Index,
    found: Sequence[int],
    decode: Callable[[Sequence[int]], str],
    title: str,
    names: tuple[str, str] = ("D", "F"),
    rest: Mapping[int, Sequence[int]] = MappingProxyType({}),
) -> Figure:
    """Three moments: the first user's blocks, some handed on, the second one's search.

    before, after: (block id of the parent, tokens) -> block, as the index was when the
    first user had asked and when the second one had. found: the blocks that a later
    search of the second user takes. The blocks of `before` are drawn, with what their
    keys say. A step of the search onto a block that is older than the block before it
    is false, because the older one stood after another content. rest: the tokens of
    the second user's next blocks, which are new; they stand below the old ones.
    """
    sheet = Sheet(title)
    one, two = names
    old, new = (
        {block: key for key, block in index.items()} for index in (before, after)
    )
    blocks = sorted(old)
    handed = [block for block in blocks if new.get(block) != old[block]]
    kept = [block for block in blocks if block not in handed]
    path = [block for block in found if block in blocks]
    drawing = _Moments(sheet, blocks, decode)
    drawing.heading(0, f"1. {one} asks: blocks {_listed(blocks)}")
    drawing.draw(0, old, dict.fromkeys(blocks, strong(one)))
    drawing.heading(1, f"2. Blocks {_listed(handed)} are handed to {two}, who asks")
    tones = dict.fromkeys(kept, soft(one)) | dict.fromkeys(handed, strong(two))
    drawing.draw(1, new, tones)
    if rest:
        drawing.draw_rest(new, rest, strong(two), handed)
        drawing.lower = LOWER
    steps = " → ".join(map(str, path))
    drawing.heading(2, f"3. {two} asks again. The search: {steps}")
    tones = dict.fromkeys(kept, soft(one)) | dict.fromkeys(handed, soft(two))
    drawing.draw(2, new, tones, path, handed)
    bottom = TOP + 3 * ROW + drawing.lower - 34
    signs = [
        (tone, f"{name}'s, {since}")
        for name in names
        for tone, since in (
            (strong(name), "new"),
            (behind_words(soft(name)), "there before"),
        )
    ]
    sheet.legend(0, bottom, signs)
    return render(sheet.finish(bottom + 8))


def plot_searches(
    by_id: Index,
    by_serial: Index,
    found: tuple[Sequence[int], Sequence[int]],
    decode: Callable[[Sequence[int]], str],
    title: str,
    owners: Mapping[int, str],
    serial_of: Mapping[Hashable, int] = MappingProxyType({}),
) -> Figure:
    """The same search in two indexes: by ids of parents, and by serial numbers.

    found: the blocks that each of the searches takes. owners: whose each block is, the
    second user's last ones behind all others; these stand below, where only the second
    search comes. A step from one user's block to another's older one is false, but for
    the first block, which they share. serial_of: the number of each key that is a
    parent, written over its block; the number of b"" is no block's, and a block that
    is nobody's parent has none. A number whose block holds something else is gone.
    """
    sheet = Sheet(title)
    false_path, path = found
    upper = [block for block in owners if block in false_path]
    lower = [block for block in owners if block not in false_path]
    keys, serials = (
        {block: key for key, block in index.items()} for index in (by_id, by_serial)
    )
    drawing = _Moments(sheet, upper, decode)
    tones = {block: soft(name) for block, name in owners.items()}
    handed = [block for block in upper if owners[block] == owners[lower[0]]]
    steps = (" → ".join(map(str, blocks)) for blocks in found)
    drawing.heading(0, f"By block ids: {next(steps)}")
    drawing.draw(0, keys, tones, false_path, handed)
    drawing.heading(1, f"By serial numbers: {next(steps)}")
    nothing = serial_of.get(b"")  # stands before every first block
    serials = {
        block: (None if parent == nothing else parent, tokens)
        for block, (parent, tokens) in serials.items()
    }
    above = {block: keys[block] for block in upper} | serials
    drawing.numbers = {
        block: serial_of[key] for key, block in by_serial.items() if key in serial_of
    }
    drawing.draw(1, above, tones, path, handed, parents="serial")
    rest = {block: serials[block][1] for block in lower}
    tone = tones[lower[0]]
    drawing.draw_rest(serials, rest, tone, handed, path, parents="serial")
    bottom = TOP + ROW + LOWER + HEIGHT + 40
    names = dict.fromkeys(owners.values())
    sheet.legend(0, bottom, [(behind_words(soft(name)), f"{name}'s") for name in names])
    return render(sheet.finish(bottom + 8))


def _listed(blocks: Sequence[int]) -> str:
    """Their ids in words."""
    *first, last = map(str, blocks)
    return f"{', '.join(first)} and {last}" if first else last


class _Moments:
    """Rows of the same blocks, at one moment each."""

    def __init__(
        self, sheet: Sheet, blocks: list[int], decode: Callable[[Sequence[int]], str]
    ):
        self.sheet, self.blocks, self.decode = sheet, blocks, decode
        self.width = min(170.0, (SPAN + GAP) / len(blocks) - GAP)
        self.lower = 0.0  # pixels, of what follows a row that has a second line
        self.numbers: Mapping[int, int] = {}  # of blocks, if they are to be shown

    def heading(self, row: int, words: str) -> None:
        """What happens at this moment, above its row."""
        self.sheet.write(0, self._y(row) - 40, words, PART)

    def draw(
        self,
        row: int,
        content: Mapping[int, tuple[int | None, tuple[int, ...]]],
        tones: Mapping[int, Tone],
        path: Sequence[int] = (),
        handed: Sequence[int] = (),
        parents: str = "block",
    ) -> None:
        """What lies in the blocks, and which path through them was taken."""
        sheet, y, width = self.sheet, self._y(row), self.width
        is_false = False
        for block in self.blocks:
            x = self._x(block)
            parent, tokens = content.get(block, (None, ()))
            self._block(x, y, block, tokens, tones[block])
            is_step = block in path and path.index(block) > 0
            was_handed = is_step and path[path.index(block) - 1] in handed
            is_false = is_step and block not in handed and was_handed
            is_gone = self.numbers and parent not in self.numbers.values()
            remark = f"key: after {parents} {parent}" + ", gone" * bool(is_gone)
            if parent is None:
                remark = "key: after nothing"
            style = {"color": BAD, "weight": "bold"} if is_false else {}
            sheet.write(x, y + HEIGHT + 12, remark, **style)
            if is_step:
                before = self._x(path[path.index(block) - 1]) + width
                self._step((before, y + HEIGHT / 2), (x, y + HEIGHT / 2), is_false)

    def draw_rest(
        self,
        content: Mapping[int, tuple[int | None, tuple[int, ...]]],
        rest: Mapping[int, Sequence[int]],
        tone: Tone,
        handed: Sequence[int],
        path: Sequence[int] = (),
        parents: str = "block",
    ) -> None:
        """More blocks of the second row, below those behind the ones handed on."""
        y = self._y(1) + LOWER
        first = self.blocks.index(handed[-1]) + 1
        behind = self.blocks[first : first + len(rest)]
        for block, above in zip(rest, behind, strict=True):
            x = self._x(above)
            self._block(x, y, block, rest[block], tone)
            said, style = "not in the index", {}
            if block in content:
                said = f"key: after {parents} {content[block][0]}"
            if block in path:
                style = {"color": GOOD, "weight": "bold"}
                before = path[path.index(block) - 1]
                start = self._x(before) + self.width, self._y(1) + HEIGHT / 2
                self._step(start, (x, y + HEIGHT / 2), colour=GOOD)
            self.sheet.write(x, y + HEIGHT + 12, said, **style)

    def _block(
        self, x: float, y: float, block: int, tokens: Sequence[int], tone: Tone
    ) -> None:
        """A block with its id and the text of its tokens."""
        sheet, width = self.sheet, self.width
        sheet.write(x, y - 12, f"block {block}", color=sheet.look.quiet)
        if block in self.numbers:
            sheet.write(x + width, y - 12, f"serial {self.numbers[block]}", ha="right")
        elif self.numbers:
            style = {"ha": "right", "color": sheet.look.quiet}
            sheet.write(x + width, y - 12, "no serial", **style)
        tone = behind_words(tone)
        sheet.box(x, y, width, HEIGHT, tone)
        lines = _lines(self.decode(tokens), width - 8)
        for number, line in enumerate(lines):
            low = y + (HEIGHT - LINE * len(lines)) / 2 + LINE * number
            sheet.word(x, low, width, LINE, line, tone)

    def _y(self, row: int) -> float:
        return TOP + row * ROW + self.lower

    def _x(self, block: int) -> float:
        return self.blocks.index(block) * (self.width + GAP)

    def _step(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        is_false: bool = False,
        colour: str | None = None,
    ) -> None:
        """One step of a search; a false one bears a cross."""
        (x0, y), (x1, low) = start, end
        colour = BAD if is_false else colour
        self.sheet.arrow((x0 + 1, y), (x1 - 1, low), colour, is_followed=True)
        if is_false:
            middle, up = (x0 + x1) / 2, y - 17
            for slant in (-6, 6):
                ends = (middle - slant, up - 6), (middle + slant, up + 6)
                self.sheet.line(*ends, color=BAD, linewidth=2.6)


def _lines(text: str, width: float) -> list[str]:
    """The text in a few lines; the last one is cut if it must be."""
    lines: list[str] = []
    for word in text.replace("|>", "|> ").replace("<|", " <|").split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and (width_of(longer) <= width or len(lines) == LINES):
            lines[-1] = longer
        else:
            lines.append(word)
    return [fit(line, width)[0] for line in lines]
