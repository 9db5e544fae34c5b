"""Lab: the waves of launches over time: how many programs run, and what is busy."""

import math
from collections.abc import Mapping

from minipaged.draw.letters import PART, counted, width_of
from minipaged.draw.palette import HATCHING, ink_on
from minipaged.draw.scales import Scale, scale_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import KEPT, soft, strong
from minipaged.lab.measure.wave_times import WaveTimes
from minipaged.lab.plots.render import Figure, render

LEFT, RIGHT = 160.0, 10.0  # pixels beside the waves
ROW, STRIP = 26.0, 26.0  # of a program on each multiprocessor; of the unit below
TOP, GAP, BETWEEN = 26.0, 8.0, 42.0  # above a launch; to the strip; to the next launch
WHOLE = 28.0  # pixels for the time of the whole launch, above its waves


def plot_waves(launches: Mapping[str, WaveTimes], title: str) -> Figure:
    """One clock for all launches: a box for each wave, as high as programs run in it.

    Upwards are the places, in rows: a row is one program on each multiprocessor. Places
    without a program are hatched. The strip below is as full as the unit of shared
    memory and L1 is busy in a wave. Where a launch has two waves, only the time of both
    was measured, and stands above them. The second wave's is reckoned, the rest is the
    first one's. How long each keeps the unit busy is then reckoned, too.
    """
    sheet, y = Sheet(title), TOP
    longest = max(sum(times.us) for times in launches.values())
    clock = scale_of([0, longest], LEFT, SPAN - LEFT - RIGHT, False, (0, longest))
    for name, times in launches.items():
        y = _draw_launch(sheet, clock, y, name, times) + BETWEEN
    y -= BETWEEN - 14
    sheet.line((LEFT, y), (SPAN - RIGHT, y))
    sheet.write(LEFT - 12, y + 14, "time", ha="right", color=sheet.look.quiet)
    for tick in clock.ticks[:: 1 + (len(clock.ticks) > 6)]:
        x = clock.x(tick)
        sheet.line((x, y), (x, y + 5))
        said = f"{tick:,.0f} µs" if tick else "0"
        sheet.write(min(x, SPAN - 24), y + 14, said, ha="center")
    signs = [(strong(0), "programs"), (KEPT, "places without a program")]
    sheet.legend(0, y + 44, [*signs, (soft(0), "the L1 unit is busy")])
    return render(sheet.finish(y + 54))


def _draw_launch(
    sheet: Sheet, clock: Scale, top: float, name: str, times: WaveTimes
) -> float:
    """Its waves side by side, and the unit's strip; where it ends."""
    launch, start, has_parts = times.launch, 0.0, len(times.us) > 1
    if has_parts:
        _draw_whole(sheet, clock, top - 10, sum(times.us))
        top += WHOLE
    else:
        _draw_source(sheet, top - 10, "measured")
    bottom = top + ROW * launch.fit
    known = "reckoned" if has_parts else "measured"
    _draw_source(sheet, bottom + GAP + STRIP + 11, f"{known}: busy for")
    sheet.write(0, (top + bottom) / 2 - 9, name, PART, weight="bold")
    said = f"room for {launch.fit} on each"
    sheet.write(0, (top + bottom) / 2 + 9, said, color=sheet.look.quiet)
    strip = bottom + GAP
    sheet.write(0, strip + STRIP / 2, "L1 unit", color=sheet.look.quiet)
    waves = zip(launch.waves, times.us, times.busy, strict=True)
    for (programs, us, busy), time in zip(waves, _time_words(times), strict=True):
        x, wide = clock.x(start), clock.x(start + us) - clock.x(start)
        high = ROW * launch.fit * programs / launch.places
        if programs < launch.places:
            sheet.empty(x, top, wide, bottom - top - high)
        _draw_programs(sheet, x, bottom, wide, high, programs)
        share = f"{busy * us:,.0f} of {us:,.0f} µs: {100 * busy:.0f} %"
        for y, said in ((top - 10, time), (strip + STRIP + 11, share)):
            sheet.write(min(x + 4, SPAN - width_of(said)), y, said)
        sheet.box(x, strip, wide, STRIP, rim=sheet.look.rim)
        high = STRIP * min(busy, 1)
        sheet.box(x, strip + STRIP - high, wide, high, soft(0))
        start += us
    sheet.box(LEFT, top, clock.x(start) - LEFT, bottom - top, rim=sheet.look.rim)
    return strip + STRIP + 12


def _time_words(times: WaveTimes) -> list[str]:
    """Of each wave; of several the later ones' are reckoned, and the rest is left."""
    said = [f"{us:,.0f} µs" for us in times.us]
    if len(said) == 1:
        return said
    later = [f"wave {n}, reckoned: {us}" for n, us in enumerate(said[1:], 2)]
    return [f"wave 1, the rest: {said[0]}", *later]


def _draw_source(sheet: Sheet, y: float, words: str) -> None:
    """At the left of numbers: where they are from."""
    sheet.write(LEFT - 12, y, words, ha="right", color=sheet.look.quiet)


def _draw_whole(sheet: Sheet, clock: Scale, y: float, us: float) -> None:
    """How long all waves of a launch take together: a line, and in it the time."""
    _draw_source(sheet, y, "measured")
    words, (left, right) = f"both waves: {us:,.0f} µs", (clock.x(0), clock.x(us))
    middle, half = (left + right) / 2, width_of(words) / 2 + 8
    for x, end in ((left, middle - half), (right, middle + half)):
        sheet.line((x, y - 5), (x, y + 5))
        sheet.line((x, y), (end, y))
    sheet.write(middle, y, words, ha="center")


def _draw_programs(
    sheet: Sheet, x: float, bottom: float, wide: float, high: float, programs: int
) -> None:
    """The box of a wave, from its lower left corner; in it lines between rows."""
    sheet.box(x, bottom - high, wide, high, strong(0))
    for number in range(1, math.ceil(high / ROW - 1e-9)):
        y = bottom - number * ROW
        sheet.line((x, y), (x + wide, y), color=HATCHING, linewidth=0.8)
    words = counted(programs, "program")
    middle = bottom - min(ROW, high) / 2
    sheet.write(x + 10, middle, words, color=ink_on(strong(0).face))
