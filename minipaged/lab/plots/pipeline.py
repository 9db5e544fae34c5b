"""Lab: when a program asks for its tiles, and when it computes them; drawn as rows."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from minipaged.draw.letters import counted, width_of
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import behind_words, soft, strong
from minipaged.lab.plots.render import render

LEFT = 96.0  # pixels beside the rows
LANE, HEIGHT = 27.0, 22.0  # pixels from box to box downwards, and of a box
HEAD, BRACKET, BETWEEN = 42.0, 10.0, 22.0  # above a bracket; of it; between panels
ROWS = {"block ids": "ids", "K and V": "reads", "computes": "computes"}
Span = tuple[float, float]  # from when to when


class Tile(NamedTuple):
    """What becomes of a tile, on one clock."""

    ids: Span  # from asking for its block ids until they are there
    reads: Span  # from asking for its K and V until they are there
    computes: Span
    turn: Span  # the turn of the program in which it is computed


def pipeline(
    num_tiles: int,
    latency: float,
    compute: float,
    tiles_ahead: int = 0,
    ids: float = 0.0,
) -> list[Tile]:
    """When a program asks for each tile, and when it computes it.

    With no tile ahead, a turn does one thing after the other: it asks for the block
    ids, then for K and V, then it computes. With n ahead, turn i begins when K and V of
    tile i are there. It asks for K and V of tile i + n, and for the ids of tile i + n +
    1; then it computes tile i. The turns before turn 0 ask, and compute nothing.

    latency: from asking for K and V until they are there. compute: for a tile. ids:
    from asking for a tile's block ids until they are there.
    """
    if not tiles_ahead:
        whole = ids + latency + compute
        starts = [whole * tile for tile in range(num_tiles)]
        return [_one_by_one(start, ids, latency, compute) for start in starts]
    begins: dict[int, float] = {}
    now = 0.0
    for turn in range(-tiles_ahead - 1, num_tiles):
        if 0 <= turn + tiles_ahead < num_tiles:  # it needs the ids to ask for this one
            now = max(now, begins[turn - 1] + ids)
        if turn >= 0:
            now = max(now, begins[turn - tiles_ahead] + latency)
        begins[turn] = now
        now += compute * (turn >= 0)
    tiles = []
    for number in range(num_tiles):
        look_up, ask, start = (
            begins[number - early] for early in (tiles_ahead + 1, tiles_ahead, 0)
        )
        spans = (look_up, look_up + ids), (ask, ask + latency), (start, start + compute)
        tiles.append(Tile(*spans, turn=(start, begins.get(number + 1, now))))
    return tiles


def _one_by_one(start: float, ids: float, latency: float, compute: float) -> Tile:
    """A tile that is asked for and computed in the same turn."""
    ask = start + ids
    arrive = ask + latency
    end = arrive + compute
    return Tile((start, ask), (ask, arrive), (arrive, end), turn=(start, end))


def plot_pipeline(runs: Mapping[str, Sequence[Tile]], title: str) -> Figure:
    """A panel for each run, a row for each thing that a program does for a tile.

    All panels have one clock. Boxes bear the numbers of their tiles. Thin lines are
    where turns begin and end. The first turn has a bracket, and what begins in it is
    filled: those boxes show what a turn does side by side.
    """
    sheet, y = Sheet(title), 0.0
    ends = {name: tiles[-1].turn[1] for name, tiles in runs.items()}
    slowest, quickest = max(ends.values()), min(ends.values())
    unit = (SPAN - LEFT) / slowest
    for name, tiles in runs.items():
        colour = sheet.look.ink
        if quickest < slowest and ends[name] in (quickest, slowest):
            colour = BAD if ends[name] == slowest else GOOD
        said = f"{counted(len(tiles), 'tile')} in {ends[name]:g} units"
        sheet.headline(y + 8, name, "", said, colour)
        y = _draw_panel(sheet, y + HEAD, tiles, unit) + BETWEEN
    y = _draw_clock(sheet, y - BETWEEN + 6, slowest, unit)
    others = behind_words(soft(0)), "earlier, or later"
    x = sheet.legend(0, y + 24, [(strong(0), "begins in the first turn"), others])
    remark = "ids, K and V: from asking until they are there"
    sheet.write(x, y + 24, remark, color=sheet.look.quiet)
    return render(sheet.finish(y + 32))


def _draw_panel(sheet: Sheet, y: float, tiles: Sequence[Tile], unit: float) -> float:
    """The bracket, the lines between turns, the rows; where these end."""
    rows = {
        name: [getattr(tile, part) for tile in tiles] for name, part in ROWS.items()
    }
    rows = {name: row for name, row in rows.items() if any(a < b for a, b in row)}
    lanes = {name: _lanes(row) for name, row in rows.items()}
    turn, right = tiles[0].turn, LEFT + tiles[-1].turn[1] * unit
    is_ahead = min(row[0][0] for row in rows.values()) < turn[0]
    _draw_bracket(sheet, y, tiles, unit, "before the loop" if is_ahead else "")
    bottom = y + BRACKET + LANE * sum(map(len, lanes.values()))
    for moment in {moment for tile in tiles for moment in tile.turn}:
        x = LEFT + moment * unit
        sheet.line((x, y + BRACKET / 2), (x, bottom), layer=0.5)
    if is_ahead:
        _write_beside(sheet, right, y, "in turn i:")
    y += BRACKET
    for name, row in rows.items():
        now = [at for at, span in enumerate(row) if turn[0] <= span[0] < turn[1]]
        middle = y + LANE * len(lanes[name]) / 2 - (LANE - HEIGHT) / 2
        sheet.write(0, middle, name)
        if is_ahead and now:
            _write_beside(sheet, right, middle, _said_of(name, now[0]))
        for lane in lanes[name]:
            for number in lane:
                _draw_box(sheet, y, number, row[number], unit, number in now)
            y += LANE
    return y


def _said_of(name: str, number: int) -> str:
    """What turn i does, if turn 0 does it for the tile of this number."""
    of = "" if name == "computes" else "of "
    return f"{name} {of}tile i" + f" + {number}" * (number > 0)


def _write_beside(sheet: Sheet, right: float, y: float, said: str) -> None:
    """What a turn does, where the run has ended, if there is room."""
    if right + 16 + width_of(said) <= SPAN:
        sheet.write(right + 16, y, said, color=sheet.look.quiet)


def _lanes(spans: Sequence[Span]) -> list[list[int]]:
    """Tiles of a row; those whose spans overlap lie in different lanes."""
    lanes: list[list[int]] = []
    for tile, (start, _) in enumerate(spans):
        for lane in lanes:
            if spans[lane[-1]][1] <= start:
                lane.append(tile)
                break
        else:
            lanes.append([tile])
    return lanes


def _draw_bracket(
    sheet: Sheet, y: float, tiles: Sequence[Tile], unit: float, before: str
) -> None:
    """Over the first turn; above it, how long it takes, and what comes before it."""
    x, right = (LEFT + moment * unit for moment in tiles[0].turn)
    style = {"color": sheet.look.ink, "linewidth": 1.6}
    sheet.line((x, y + 6), (x, y), (right, y), (right, y + 6), **style)
    first, *others = [end - start for start, end in (tile.turn for tile in tiles)]
    is_like_others = all(abs(other - first) < 1e-9 for other in others[:-1])
    which = "a turn" if is_like_others else "the first turn"
    sheet.write(x, y - 10, f"{which}: {first:g} units")
    if width_of(before) < x - 24:
        sheet.write(x - 24, y - 10, before, ha="right", color=sheet.look.quiet)


def _draw_box(
    sheet: Sheet, y: float, number: int, span: Span, unit: float, is_now: bool
) -> None:
    """A tile's box, and its number if there is room."""
    x, width = LEFT + span[0] * unit, (span[1] - span[0]) * unit
    if width < 0.5:
        return
    said = str(number) if width > width_of(str(number)) + 2 else ""
    tone = strong(0) if is_now else soft(0)
    sheet.cells(x, y, [width], HEIGHT, [tone], [said])


def _draw_clock(sheet: Sheet, y: float, longest: float, unit: float) -> float:
    """A line with ticks below all panels; where its numbers end."""
    quiet, steps = {"color": sheet.look.quiet}, (1, 2, 5, 10, 20, 50, 100, 200, 500)
    every = next((n for n in steps if longest / n <= 12), longest)
    sheet.line((LEFT, y), (SPAN, y))
    sheet.write(0, y + 14, "units of time", **quiet)
    at = 0.0
    while at <= longest:
        x = LEFT + at * unit
        sheet.line((x, y), (x, y + 5))
        words = f"{at:g}"
        if x + width_of(words) / 2 <= SPAN + 4:
            sheet.write(x, y + 14, words, ha="center", **quiet)
        at += every
    return y + 20
