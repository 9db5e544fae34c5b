"""Lab: blocks that are reused while an index names pasts by their ids."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

from minipaged.draw.letters import listed
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.rows import Row, Span
from minipaged.draw.tones import Tone, behind_words, soft, strong
from minipaged.lab.plots.render import Figure, render

Key = tuple[int | None, tuple[int, ...]]  # block id or number of the parent, tokens
Index = Mapping[Key, int]
NONE = MappingProxyType({})


def plot_reuse(
    before: Index,
    after: Index,
    found: Sequence[int],
    decode: Callable[[Sequence[int]], str],
    title: str,
    names: tuple[str, str] = ("D", "F"),
    rest: Mapping[int, Sequence[int]] = NONE,
) -> Figure:
    """Three moments: the first user's blocks, some handed on, the second one's search.

    before, after: (block id of the parent, tokens) -> block, as the index was when the
    first user had asked and when the second one had. found: the blocks that a later
    search of the second user takes. The blocks of `before` are drawn, with what their
    keys say. A step of the search onto a block that is older than the block before it
    is false, because the older one stood after another content. rest: the tokens of
    the second user's next blocks, which are new; they stand below the old ones.
    """
    one, two = names
    old, new = (
        {block: key for key, block in index.items()} for index in (before, after)
    )
    blocks = sorted(old)
    handed = [block for block in blocks if new.get(block) != old[block]]
    kept = [block for block in blocks if block not in handed]
    path = [block for block in found if block in blocks]
    moments = _Moments(title, blocks, decode)
    tones = dict.fromkeys(blocks, strong(one))
    moments.add(f"1. {one} asks: blocks {listed([*map(str, blocks)])}", old, tones)
    tones = dict.fromkeys(kept, soft(one)) | dict.fromkeys(handed, strong(two))
    heading = f"2. Blocks {listed([*map(str, handed)])} are handed to {two}, who asks"
    moments.add(heading, new, tones)
    if rest:
        moments.add_rest(new, rest, strong(two), handed)
    tones |= dict.fromkeys(handed, soft(two))
    steps = " → ".join(map(str, path))
    heading = f"3. {two} asks again. The search: {steps}"
    moments.lead(moments.add(heading, new, tones), path, handed)
    signs = [
        (tone, f"{name}'s, {since}")
        for name in names
        for tone, since in (
            (strong(name), "new"),
            (behind_words(soft(name)), "there before"),
        )
    ]
    moments.picture.legend(*signs)
    return render(moments.picture.scene())


def plot_searches(
    by_id: Index,
    by_serial: Index,
    found: tuple[Sequence[int], Sequence[int]],
    decode: Callable[[Sequence[int]], str],
    title: str,
    owners: Mapping[int, str],
    serial_of: Mapping[Hashable, int] = NONE,
) -> Figure:
    """The same search in two indexes: by ids of parents, and by serial numbers.

    found: the blocks that each of the searches takes. owners: whose each block is, the
    second user's last ones behind all others; these stand below, where only the second
    search comes. A step from one user's block to another's older one is false, but for
    the first block, which they share. serial_of: the number of each key that is a
    parent, written over its block; the number of b"" is no block's, and a block that
    is nobody's parent has none. A number whose block holds something else is gone.
    """
    false_path, path = found
    upper = [block for block in owners if block in false_path]
    lower = [block for block in owners if block not in false_path]
    keys, serials = (
        {block: key for key, block in index.items()} for index in (by_id, by_serial)
    )
    moments = _Moments(title, upper, decode)
    tones = {block: soft(name) for block, name in owners.items()}
    handed = [block for block in upper if owners[block] == owners[lower[0]]]
    steps = (" → ".join(map(str, blocks)) for blocks in found)
    row = moments.add(f"By block ids: {next(steps)}", keys, tones)
    moments.lead(row, false_path, handed)
    nothing = serial_of.get(b"")  # stands before every first block
    serials = {
        block: (None if parent == nothing else parent, tokens)
        for block, (parent, tokens) in serials.items()
    }
    above = {block: keys[block] for block in upper} | serials
    moments.parents = "serial"
    moments.numbers = {
        block: serial_of[key] for key, block in by_serial.items() if key in serial_of
    }
    row = moments.add(f"By serial numbers: {next(steps)}", above, tones)
    moments.lead(row, [block for block in path if block in upper], handed)
    rest = {block: serials[block][1] for block in lower}
    more = moments.add_rest(serials, rest, tones[lower[0]], handed)
    for before, block in pairwise(path):
        if block in more:
            start = row[upper.index(before)]
            moments.step(start, more[block], GOOD, is_level=True)
    names = dict.fromkeys(owners.values())
    moments.picture.legend(*((behind_words(soft(name)), f"{name}'s") for name in names))
    return render(moments.picture.scene())


class _Moments:
    """Rows of the same blocks, at one moment each."""

    def __init__(
        self, title: str, blocks: list[int], decode: Callable[[Sequence[int]], str]
    ):
        self.picture = Picture(title, widest=170.0)
        self.blocks, self.decode = blocks, decode
        self.parents = "block"
        self.numbers: Mapping[int, int] = {}  # of blocks, if they are to be shown

    def add(
        self, heading: str, content: Mapping[int, Key], tones: Mapping[int, Tone]
    ) -> Row:
        """What lies in the blocks, and after what, by their keys."""
        self.picture.headline(heading)
        cells = []
        for block in self.blocks:
            parent, tokens = content.get(block, (None, ()))
            is_gone = self.numbers and parent not in self.numbers.values()
            after = f"after {self.parents} {parent}"
            remark = f"{after}, gone" if is_gone else f"key: {after}"
            remark = "key: after nothing" if parent is None else remark
            cells.append(self._cell(block, tokens, tones[block], remark))
        return self.picture.row("", "", cells, gap=30.0, height=54.0)

    def add_rest(
        self,
        content: Mapping[int, Key],
        rest: Mapping[int, Sequence[int]],
        tone: Tone,
        handed: Sequence[int],
    ) -> dict:
        """More blocks, below those behind the ones handed on; their cells, by id."""
        first = self.blocks.index(handed[-1]) + 1
        cells = [Cell()] * first
        for block, tokens in rest.items():
            remark = "not in the index"
            if block in content:
                remark = f"key: after {self.parents} {content[block][0]}"
            cells.append(self._cell(block, tokens, tone, remark))
        row = self.picture.row("", "", cells, gap=30.0, height=54.0)
        return {block: row[at] for at, block in enumerate(rest, start=first)}

    def lead(self, row: Row, path: Sequence[int], handed: Sequence[int]) -> None:
        """A search from block to block; from a handed one to an older one is false."""
        for before, block in pairwise(path):
            is_false = before in handed and block not in handed
            ends = (row[self.blocks.index(one)] for one in (before, block))
            self.step(*ends, BAD if is_false else None, is_false=is_false)

    def step(
        self, source: Span, target: Span, colour: str | None, **style: bool
    ) -> None:
        """An arrow; the key that leads there has its colour."""
        self.picture.link(source, target, colour, is_followed=True, **style)
        if colour:
            cells, at = target.row.cells, target.start
            cells[at] = cells[at]._replace(ink=colour)

    def _cell(self, block: int, tokens: Sequence[int], tone: Tone, remark: str) -> Cell:
        """A block with its id, the text of its tokens, and its key."""
        name = f"block {block}"
        if self.numbers:
            number = self.numbers.get(block)
            name += " · no serial" if number is None else f" · serial {number}"
        text = self.decode(tokens).replace("|>", "|> ").replace("<|", " <|")
        return Cell(text, tone, above=name, below=remark)
