"""Lab: the waves of launches over time: how many programs run, and what is busy."""

from collections.abc import Mapping

from minipaged.draw.bands import Drawn
from minipaged.draw.letters import counted
from minipaged.draw.palette import theme
from minipaged.draw.picture import Picture
from minipaged.draw.rows import TWO_LINES
from minipaged.draw.sheet import Sheet
from minipaged.draw.tones import KEPT, free, soft, strong
from minipaged.lab.measure.wave_times import WaveTimes
from minipaged.lab.plots.render import Figure, render

HEIGHT = TWO_LINES  # pixels of a lane
LEAST = 0.7  # of a row: in fewer programs there is no room for words


def plot_waves(launches: Mapping[str, WaveTimes], title: str) -> Figure:
    """One clock for all launches: a box for each wave, as high as programs run in it.

    Upwards are the places, in rows: a row is one program on each multiprocessor. Places
    without a program are hatched. The strip below is as full as the unit of shared
    memory and L1 is busy in a wave. Where a launch has two waves, only the time of both
    was measured, and stands above them. The second wave's is computed, the rest is the
    first one's. How long each keeps the unit busy is then computed, too.
    """
    picture = Picture(title)
    for name, times in launches.items():
        _add_launch(picture, name, times)
    picture.axis("time, µs", is_bare=True)
    signs = [(strong(0), "programs"), (KEPT, "places without a program")]
    picture.legend(*signs, (soft(0), "the L1 unit is busy"))
    return render(picture.scene())


def _add_launch(picture: Picture, name: str, times: WaveTimes) -> None:
    """Its places, row upon row, what runs there wave by wave, and the unit's strip."""
    launch, has_parts = times.launch, len(times.us) > 1
    picture.headline(name)
    each = launch.places / launch.fit  # programs of a row: one on each multiprocessor
    rows = [
        picture.lane(height=HEIGHT, apart=1.0, rim=theme().rim)
        for _ in range(launch.fit)
    ]
    middle = rows[launch.fit // 2]
    middle.label, middle.remark = "places", f"{launch.fit} on each multiprocessor"
    rows[-1].apart = 8.0
    unit = picture.lane("L1 unit", height=HEIGHT, rim=theme().rim)
    unit.remark = "computed" if has_parts else "measured"
    start, spans = 0.0, []
    waves = zip(launch.waves, times.us, times.busy, strict=True)
    for programs, us, busy in waves:
        stop, words_at = start + us, int(programs < LEAST * each)
        for at, row in enumerate(reversed(rows)):
            share = min(1.0, max(0.0, programs / each - at))
            said = counted(programs, "program") * (at == words_at)
            tone = strong(0) if share else KEPT
            span = row.bar(start, stop, tone, said, high=share or 1.0)
        spans.append(span)
        said = f"{busy * us:,.0f} of {us:,.0f} µs: {100 * busy:.0f} %"
        tone, share = (soft(0), min(busy, 1.0)) if busy else (free(), 1.0)
        picture.under(unit.bar(start, stop, tone, high=share), said, "none")
        start = stop
    for number, (span, us) in enumerate(zip(spans, times.us, strict=True), 1):
        how = "computed" if number > 1 else "the rest"
        said = f"wave {number}, {how}: {us:,.0f} µs"
        picture.over(span, said if has_parts else f"{us:,.0f} µs, measured", "none")
    if has_parts:
        said = f"both waves: {sum(times.us):,.0f} µs, measured"
        picture.over(rows[0][:], said, theme().ink)

    def draw(sheet: Sheet, *place: float) -> None:
        for row in rows:
            for at, cell in enumerate(row.cells):
                if cell.high < 1:
                    x, y, wide, high = row.area(at, at + 1)
                    sheet.empty(x, y, wide, (1 - cell.high) * high)

    picture.add(Drawn(0.0, draw))
