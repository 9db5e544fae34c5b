"""Lab: all of contiguous memory as it changes: what is each slot used for?"""

from collections.abc import Sequence

from minipaged.draw.bands import Drawn
from minipaged.draw.letters import width_of
from minipaged.draw.palette import ink_on
from minipaged.draw.picture import Picture
from minipaged.draw.scales import Scale, scale_of
from minipaged.draw.sheet import Sheet
from minipaged.draw.tones import Tone, free, kind_of_slot
from minipaged.lab.plots.charts import legend_of_slots
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.waste import Stay, WasteReport

HIGH, LEFT, BELOW = 280.0, 44.0, 44.0  # pixels: of the memory, beside it, below it
PLATE = Tone(
    "#FFFFFF"
)  # behind words: a picture of many colours has no ground for them
WEDGE = (  # of its life so far when it is said, where the words stand, and the words
    (0.02, 0.06, "starts, as wide as its prompt"),
    (0.5, 0.5, "one token a step"),
    (0.99, 0.94, "ends"),
)


def plot_memory_over_time(
    report: WasteReport, num_slots: int, iterations: range, title: str
) -> Figure:
    """All of memory as it changes: addresses from left to right, time downwards.

    One chat that begins and ends in these iterations says what its wedge means.
    """
    stays = [stay for stay in report.stays if _is_present(stay, iterations)]
    times = iterations.start, iterations.stop

    def draw(sheet: Sheet, x: float, y: float, width: float) -> None:
        slots = 0, num_slots
        across = scale_of(slots, x + LEFT, width - LEFT, False, slots)
        down = scale_of(times, y + 8, HIGH, False, times)
        sheet.box(across.left, down.left, across.width, HIGH, free())
        for stay in stays:
            _draw_stay(sheet, stay, across, down)
        sheet.box(across.left, down.left, across.width, HIGH, rim=sheet.look.rim)
        _draw_axes(sheet, across, down)
        _label_a_wedge(sheet, stays, across, down)

    picture = Picture(title)
    picture.text("step, downwards (one new token for each chat)")
    picture.add(Drawn(HIGH + BELOW, draw))
    kinds = {"external", "token_states"} | {k for stay in stays for k in _ends(stay)}
    picture.legend(*legend_of_slots(kinds))
    return render(picture.scene())


def _is_present(stay: Stay, iterations: range) -> bool:
    """Is it in memory in one of them?"""
    last = stay.admitted + stay.request.output
    return stay.admitted < iterations[-1] and last >= iterations[0]


def _ends(stay: Stay) -> dict[str, int]:
    """How far each kind behind its tokens reaches in its piece, the longest first."""
    (prompt, output), reservation, (_, size), _ = stay
    ends = {"rounded_up": size, "internal": reservation, "reserved": prompt + output}
    inner = *list(ends.values())[1:], 0
    pairs = zip(ends.items(), inner, strict=True)
    return {kind: end for (kind, end), further in pairs if end > further}


def _draw_stay(sheet: Sheet, stay: Stay, across: Scale, down: Scale) -> None:
    """A box for each kind of slot, over them the wedge of tokens, which grows."""
    (prompt, output), _, (start, _), admitted = stay
    first = max(admitted + 1, down.lowest)
    last = min(admitted + output + 1, down.highest)
    left, top, bottom = across.x(start), down.x(first), down.x(last)
    for kind, end in _ends(stay).items():
        wide = across.x(start + end) - left
        sheet.box(left, top, wide, bottom - top, kind_of_slot(kind))
    ends = (across.x(start + prompt + when - admitted) for when in (first, last))
    corners = (left, top), (next(ends), top), (next(ends), bottom), (left, bottom)
    sheet.area(*corners, face=kind_of_slot("token_states").face)


def _draw_axes(sheet: Sheet, across: Scale, down: Scale) -> None:
    """Numbers at the left and below, and what the slots are."""
    bottom, quiet = down.left + down.width, {"color": sheet.look.quiet}
    for tick in down.ticks:
        sheet.write(across.left - 8, down.x(tick), f"{tick:,g}", ha="right", **quiet)
    for tick in across.ticks[:: 1 + (len(across.ticks) > 9)]:
        sheet.write(across.x(tick), bottom + 11, f"{tick:,g}", ha="center", **quiet)
    middle = across.left + across.width / 2
    sheet.write(middle, bottom + 29, "slot (address)", ha="center")


def _label_a_wedge(
    sheet: Sheet, stays: Sequence[Stay], across: Scale, down: Scale
) -> None:
    """Of the longest chat that is seen whole, if there is room for words beside it."""
    lengths = {
        stay: stay.request.output
        for stay in stays
        if down.lowest <= stay.admitted
        and stay.admitted + stay.request.output < down.highest
        and stay.piece.start + sum(stay.request) < 0.75 * across.highest
    }
    stay = max(lengths, key=lengths.__getitem__, default=None)
    if stay is None or lengths[stay] < 0.25 * (down.highest - down.lowest):
        return
    (prompt, output), first = stay.request, stay.admitted + 1
    edge = stay.piece.start + prompt
    beside, ink = across.x(edge + output) + 14, ink_on(PLATE.face)
    for share, height, words in WEDGE:
        y = down.x(first + height * output)
        point = across.x(edge + share * output), down.x(first + share * output)
        sheet.line((beside, y), point, color=ink, linewidth=1.1, head=9)
        style = {"rounding": 3.0, "layer": 2}
        sheet.box(beside, y - 9, width_of(words) + 16, 18, PLATE, ink, **style)
        sheet.write(beside + 8, y, words, color=ink)
