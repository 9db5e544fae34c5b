"""Lab: two prompts as chains of hashed blocks, and which of them are one block."""

from collections.abc import Iterator, Sequence

from minipaged.draw.letters import visible
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import Tone, held
from minipaged.lab.plots.render import Figure, render

MOST = 8  # blocks in a row; more are not drawn
Words = Sequence[str]
HIT, FALSE_HIT, NOT_TAKEN, DIFFERENT = range(4)


def plot_hash_chain(
    first: Words,
    second: Words,
    block_size: int,
    found: int,
    title: str,
    names: tuple[str, str] = ("A", "B"),
) -> Figure:
    """Two rows of blocks, parent to child; what was found is linked.

    first, second: the words of two prompts; a tail that fills no block is left out.
    found: how many leading blocks of the second were taken from the index, whichever it
    was. Equal words after an equal past are a true hit. After another past they may not
    be taken: if they were, the hit is false, and a cross says so. Bands above the words
    say who holds a block; orange ones, that the second one should not.
    """
    chains, rows = Picture(title, widest=170.0), []
    texts = [_blocks(words, block_size) for words in (first, second)]
    kinds = [_kind(*texts, index, found) for index in range(len(texts[1]))]
    one, two = names
    chains.text(f"{one}'s and {two}'s prompts, in blocks of {block_size} tokens")
    for row, (name, blocks) in enumerate(zip(names, texts, strict=True)):
        cells = []
        for index, block in enumerate(blocks):
            kind = kinds[index] if index < len(kinds) else DIFFERENT
            caption = {"below" if row else "above": f"entry {index}"}
            rim = BAD if kind == FALSE_HIT else "none"
            tone = _tone(names, kind, row, index < found)
            words = " ".join(map(visible, block))
            cells.append(Cell(words, tone, rim=rim, **caption))
        style = {"gap": 22.0, "height": 66.0, "is_bold": True}
        rows.append(chains.row(name, "", cells, **style))
        for index in range(1, len(blocks)):
            chains.link(rows[row][index - 1], rows[row][index])
        if not row:
            chains.space(0)  # arrows need more room
    for index, kind in enumerate(kinds):
        if kind != DIFFERENT:
            said, colour = {
                HIT: ("same block", GOOD),
                FALSE_HIT: ("equal\ntokens,\nanother\npast", BAD),
                NOT_TAKEN: ("equal\ntokens,\nnot taken", None),
            }[kind]
            style = {"words": said, "is_false": kind == FALSE_HIT}
            style["is_followed"] = kind != NOT_TAKEN
            chains.link(rows[1][index], rows[0][index], colour, **style)
    chains.legend(*_signs(names, len(texts[0]), kinds, found))
    return render(chains.scene())


def _blocks(words: Words, size: int) -> list[Words]:
    """The full ones, as many as are drawn."""
    return [words[at * size : (at + 1) * size] for at in range(len(words) // size)][
        :MOST
    ]


def _kind(
    first: Sequence[Words], second: Sequence[Words], index: int, found: int
) -> int:
    """What the block of the second prompt has to do with that of the first."""
    if list(second[index]) != list(first[index] if index < len(first) else ()):
        return DIFFERENT
    if index >= found:
        return NOT_TAKEN
    before = (list(map(list, row[:index])) for row in (first, second))
    return HIT if next(before) == next(before) else FALSE_HIT


def _tone(names: tuple[str, str], kind: int, row: int, is_found: bool) -> Tone:
    """Whose the block is that stands in this row."""
    if kind in (HIT, FALSE_HIT):
        return held("".join(names), BAD if kind == FALSE_HIT else None)
    return held(names[row], is_new=row == 1 and not is_found)


def _signs(
    names: tuple[str, str], num_first: int, kinds: Sequence[int], found: int
) -> Iterator[tuple[Tone, str]]:
    """The bands that occur, and what they mean."""
    one, two = names
    if kinds.count(HIT) + kinds.count(FALSE_HIT) < num_first:
        yield held(one), f"{one}'s block"
    if HIT in kinds:
        yield held(one + two), f"{one}'s block, rightly taken for {two}"
    if FALSE_HIT in kinds:
        yield held(one + two, BAD), f"{one}'s block, wrongly taken for {two}"
    if DIFFERENT in kinds[:found]:
        yield held(two), f"{two}'s block, found"
    if len(kinds) > found:
        yield held(two, is_new=True), f"computed for {two} now"
