"""Lab: when a program asks for its tiles, and when it computes them; drawn as rows."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from minipaged.draw.bands import Drawn
from minipaged.draw.letters import counted
from minipaged.draw.palette import BAD, GOOD, theme
from minipaged.draw.picture import Picture
from minipaged.draw.rows import AIR
from minipaged.draw.sheet import Sheet
from minipaged.draw.tones import NOTHING, behind_words, soft, strong
from minipaged.lab.plots.render import Figure, render

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
    picture = Picture(title)
    ends = {name: tiles[-1].turn[1] for name, tiles in runs.items()}
    slowest, quickest = max(ends.values()), min(ends.values())
    for name, tiles in runs.items():
        colour = None
        if quickest < slowest and ends[name] in (quickest, slowest):
            colour = BAD if ends[name] == slowest else GOOD
        verdict = f"{counted(len(tiles), 'tile')} in {ends[name]:g} units"
        picture.headline(name, "", verdict, colour)
        _draw_run(picture, tiles)
    picture.axis("units of time", is_bare=True)
    others = behind_words(soft(0)), "earlier, or later"
    picture.legend((strong(0), "begins in the first turn"), others)
    picture.text("ids, K and V: from asking until they are there")
    return render(picture.scene())


def _draw_run(picture: Picture, tiles: Sequence[Tile]) -> None:
    """A row for each thing that a program does, with lines between turns."""
    start, stop = tiles[0].turn
    _add_loop(picture, tiles)
    for label, part in ROWS.items():
        spans = [getattr(tile, part) for tile in tiles]
        if all(begin == end for begin, end in spans):
            continue
        now = [at for at, span in enumerate(spans) if start <= span[0] < stop]
        ahead = f" + {now[0]}" if now and now[0] else ""
        does = f"{label}{' of' * (label != 'computes')} tile i{ahead}"
        for number, numbers in enumerate(_lanes(spans)):
            lane = picture.lane("" if number else label, height=22.0, apart=5.0)
            if start and now and not number:
                lane.aside = does
            for at in numbers:
                tone = strong(0) if at in now else soft(0)
                lane.bar(*spans[at], tone, str(at))
            for moment in {moment for tile in tiles for moment in tile.turn}:
                lane.line(moment, theme().rim, 1.0, 3.0)
            # Words stand behind the last turn, and not on its line.
            lane.bar(spans[numbers[-1]][1], tiles[-1].turn[1], NOTHING)


def _add_loop(picture: Picture, tiles: Sequence[Tile]) -> None:
    """Above the lanes: a bracket over the first turn, and what comes before it."""
    (start, stop), *others = (tile.turn for tile in tiles)
    whole, end = stop - start, tiles[-1].turn[1]
    is_like_others = all(abs(b - a - whole) < 1e-9 for a, b in others[:-1])
    said = f"{'a turn' if is_like_others else 'the first turn'}: {whole:g} units"

    def draw(sheet: Sheet, x: float, y: float, width: float) -> None:
        begin, until, behind = (
            x + picture.room_left + moment * picture.unit(width)
            for moment in (start, stop, end)
        )
        corners = (begin, y + 23), (begin, y + 18), (until, y + 18), (until, y + 23)
        sheet.line(*corners, color=sheet.look.ink, linewidth=1.2)
        sheet.write(begin, y + 7, said)
        if start:
            quiet = {"color": sheet.look.quiet}
            sheet.write(begin - AIR, y + 7, "before the loop", ha="right", **quiet)
            sheet.write(behind + AIR, y + 7, "in turn i:", **quiet)

    picture.add(Drawn(20.0, draw))


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
