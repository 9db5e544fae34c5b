"""Lab: when tiles are asked for, arrive and are computed; drawn as lanes."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from matplotlib.figure import Figure

from minipaged.lab.plots.palette import BAD, GOOD
from minipaged.lab.plots.signs import SPAN, Sheet, width_of
from minipaged.lab.plots.tones import free, others, soft, strong

LEFT = 104.0  # pixels beside the lanes
LANE, HEIGHT = 27.0, 22.0  # pixels from lane to lane, and of a lane
HIGH = 30.0  # pixels of as many tiles as are ever under way
HEAD, BETWEEN = 28.0, 26.0  # above the lanes of a panel; between panels


class Turn(NamedTuple):
    """What a program does with one tile; five moments on one clock."""

    program: int
    tile: int
    look_up: float  # asks for the ids of its blocks
    ask: float  # asks for K and V
    arrive: float
    start: float  # begins to compute
    end: float


def pipeline(
    num_tiles: int,
    latency: float,
    compute: float,
    tiles_ahead: int = 0,
    num_programs: int = 1,
    ids: float = 0.0,
) -> list[Turn]:
    """The turns of programs that share a multiprocessor, in the order of computing.

    A program asks for a tile when it begins to compute the one that lies `tiles_ahead`
    before it; with none ahead, when it has computed the last one. With tiles ahead, the
    ids of their blocks are asked for a turn earlier still; in a turn they stand where
    they must be under way at the latest. The multiprocessor computes one tile at a
    time, the first that is there. The memory serves all reads at once: how much it can
    move in a second is left out.

    latency: from asking for K and V until they are there. compute: for a tile. ids:
    from asking for a tile's block ids until they are there.
    """
    turns: dict[tuple[int, int], Turn] = {}
    free_at = 0.0

    def begin(program: int, tile: int) -> float:
        """When the program begins with this tile; 0 for those before the first."""
        return turns[program, tile].start if tile >= 0 else 0.0

    def next_turn(program: int, tile: int) -> Turn:
        """As early as it can be; another program may be computing then."""
        last = turns[program, tile - 1].end if tile else 0.0
        ask = last + ids
        if tiles_ahead:
            early = begin(program, tile - tiles_ahead - 1) + ids
            ask = max(early, begin(program, tile - tiles_ahead))
        arrive = ask + latency
        ready = max(arrive, last)
        return Turn(program, tile, ask - ids, ask, arrive, ready, ready + compute)

    done = [0] * num_programs
    while min(done) < num_tiles:
        waiting = [
            next_turn(program, tile)
            for program, tile in enumerate(done)
            if tile < num_tiles
        ]
        turn = min(waiting, key=lambda turn: (turn.start, turn.program))
        start = max(turn.start, free_at)
        turn = turn._replace(start=start, end=start + compute)
        turns[turn.program, turn.tile] = turn
        done[turn.program] += 1
        free_at = turn.end
    return list(turns.values())


def plot_pipeline(runs: Mapping[str, Sequence[Turn]], title: str) -> Figure:
    """A panel for each schedule, on one clock: what is under way, and what is computed.

    Tiles that a program has in hand at the same time lie in lanes of their own. Below
    them, how many tiles are under way; on average, as Little's law has it, they are
    those that arrive in a unit of time, multiplied by the latency.
    """
    sheet = Sheet(title)
    longest = max(turn.end for turns in runs.values() for turn in turns)
    most = max(count for turns in runs.values() for *_, count in under_way(turns))
    unit, y = (SPAN - LEFT) / longest, 0.0
    speeds = {name: _speed(turns) for name, turns in runs.items()}
    slowest, fastest = min(speeds.values()), max(speeds.values())
    for name, turns in runs.items():
        colour = sheet.look.ink
        if slowest < fastest and speeds[name] in (slowest, fastest):
            colour = BAD if speeds[name] == slowest else GOOD
        end = max(turn.end for turn in turns)
        mean = sum(turn.arrive - turn.ask for turn in turns) / end
        said = f"{len(turns)} tiles in {end:g} units: {mean:.1f} under way on average"
        sheet.headline(y + 8, name, "", said, colour)
        y = _draw_lanes(sheet, y + HEAD, turns, unit)
        y = _draw_under_way(sheet, y, turns, unit, most) + BETWEEN
    y = _draw_clock(sheet, y - BETWEEN + 6, longest, unit)
    has_ids = any(t.ask > t.look_up for run in runs.values() for t in run)
    signs = [(others(), "block ids under way")] * has_ids
    signs += [(soft(0), "K and V under way"), (strong(0), "computed")]
    if any(t.start > t.arrive for run in runs.values() for t in run):
        signs.append((free(), "here, and waits its turn"))
    sheet.legend(0, y + 24, signs)
    sheet.finish(y + 32)
    return sheet.figure


def under_way(turns: Sequence[Turn]) -> list[tuple[float, float, int]]:
    """From when to when, of how many tiles K and V are under way."""
    moments = sorted({0.0, *(at for turn in turns for at in turn[2:7])})
    return [
        (start, end, sum(turn.ask <= start < turn.arrive for turn in turns))
        for start, end in pairwise(moments)
    ]


def _speed(turns: Sequence[Turn]) -> float:
    """Tiles in a unit of time."""
    return len(turns) / max(turn.end for turn in turns)


def _lanes(turns: Sequence[Turn]) -> list[list[Turn]]:
    """Turns of the same program that do not overlap, together."""
    lanes: list[list[Turn]] = []
    for turn in sorted(turns, key=lambda turn: (turn.program, turn.tile)):
        for lane in lanes:
            last = lane[-1]
            if last.program == turn.program and last.end <= turn.look_up + 1e-9:
                lane.append(turn)
                break
        else:
            lanes.append([turn])
    return lanes


def _draw_lanes(sheet: Sheet, y: float, turns: Sequence[Turn], unit: float) -> float:
    """The turns of each program; where they end."""
    quiet = {"color": sheet.look.quiet}
    lanes, before = _lanes(turns), None
    is_alone = len({turn.program for turn in turns}) == 1
    for lane in lanes:
        program = lane[0].program
        said = f"program {program}" if program != before else "the same"
        y += 5.0 * (before not in (None, program))
        sheet.write(0, y + HEIGHT / 2, _tiles(lane) if is_alone else said, **quiet)
        for turn in lane:
            _draw_turn(sheet, y, turn, unit)
        before, y = program, y + LANE
    return y


def _tiles(lane: Sequence[Turn]) -> str:
    """Which ones a lane of the only program has."""
    numbers = [turn.tile for turn in lane]
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"tiles {numbers[0]} to {numbers[-1]}"
    shown = [*map(str, numbers[:3]), *["…"] * (len(numbers) > 3)]
    return f"tile{'s' * (len(numbers) > 1)} {', '.join(shown)}"


def _draw_under_way(
    sheet: Sheet, y: float, turns: Sequence[Turn], unit: float, most: int
) -> float:
    """How many tiles are under way, as steps; where they stand."""
    counts = under_way(turns)
    ground, own = y + HIGH, max(count for *_, count in counts)
    corners = [(LEFT, ground)]
    for start, end, count in counts:
        x, right, top = LEFT + start * unit, LEFT + end * unit, ground
        top -= HIGH * count / most
        sheet.box(x, top, right - x, ground - top, soft(0))
        corners += [(x, top), (right, top)]
    sheet.line(*corners, (corners[-1][0], ground), color=sheet.look.ink)
    sheet.line((LEFT, ground), (SPAN, ground))
    said = f"under way: 0–{own}"
    sheet.write(0, ground - 8, said, color=sheet.look.quiet)
    return ground


def _draw_turn(sheet: Sheet, y: float, turn: Turn, unit: float) -> None:
    """The parts of a turn, and in the last one the number of the tile."""
    moments = turn.look_up, turn.ask, turn.arrive, turn.start, turn.end
    name = turn.program
    for tone, (start, end) in zip(
        (others(), soft(name), free(), strong(name)), pairwise(moments), strict=True
    ):
        x, width = LEFT + start * unit, (end - start) * unit
        if width < 0.5:
            continue
        said = str(turn.tile) if tone == strong(name) else ""
        said = said if width > width_of(said) + 2 else ""
        sheet.cells(x, y, [width], HEIGHT, [tone], [said])
        if tone == free():
            sheet.box(x + 1, y + 0.5, width - 2, HEIGHT - 1, rim=sheet.look.rim)


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
