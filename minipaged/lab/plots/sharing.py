"""Lab: which threads of a program share a logit, and their exchanges."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.lab.plots.palette import BAD
from minipaged.lab.plots.signs import PART, SPAN, Sheet, counted, width_of
from minipaged.lab.plots.tones import soft, strong

WARP = 32  # threads
STRIP, STRIP_STEP = 16.0, 54.0  # pixels of a strip; from one to the next
GROUPS_APART, WARPS_APART = 14.0, 6.0  # pixels, at most
BAR, BAR_STEP = 18.0, 27.0  # pixels of a bar, and from one to the next


def plot_sharing(
    spread: Mapping[str, tuple[int, int]],
    counts: Mapping[str, tuple[int, int]],
    title: str,
    dim: int = 128,
    num_threads: int = 128,
) -> Figure:
    """Strips of a program's threads, by logits; below, bars of exchanges for a tile.

    In a strip, a box is a thread. Threads that share a logit are a group, and groups
    stand apart; so do the warps of a group, less far. The first group is strong. A bar
    has two parts: the exchanges for logits, and the others of a step.

    spread: how many threads share a logit, and how many logits of a tile a program
    computes, by what has it so. counts: exchanges in the code for a tile, those for its
    logits and the others, by what needs them. dim: products of a logit, of which each
    thread has equally many. num_threads: of a program.
    """
    for name, (shared_by, num_logits) in spread.items():
        _check(name, shared_by, num_logits, dim, num_threads)
    sheet = Sheet(title)
    y = _draw_spread(sheet, 8, spread, dim, num_threads)
    sheet.finish(_draw_counts(sheet, y, counts))
    return sheet.figure


def _check(
    name: str, shared_by: int, num_logits: int, dim: int, num_threads: int
) -> None:
    """Threads share products evenly, and groups of threads share logits evenly."""
    if shared_by < 2 or shared_by.bit_count() > 1 or dim % shared_by:
        said = f"{name}: {shared_by} threads, {dim} products"
        raise ValueError(f"{said}; choose 2, 4, 8, ... that divide the products")
    if num_threads % shared_by:
        said = f"{name}: groups of {shared_by} threads, {num_threads} in a program"
        raise ValueError(f"{said}; choose a size that divides the program's threads")
    groups = num_threads // shared_by
    if num_logits < 1 or num_logits % groups:
        said = f"{name}: {num_logits} logits, {groups} at once"
        raise ValueError(f"{said}; choose a multiple of {groups}")


def _draw_spread(
    sheet: Sheet,
    y: float,
    spread: Mapping[str, tuple[int, int]],
    dim: int,
    num_threads: int,
) -> float:
    """A strip of all threads of a program, for each; where the bars begin."""
    said = f"The {num_threads} threads of a program"
    remark = f"a box is a thread; the strong ones share the {dim} products of a logit"
    sheet.write(0, y, said, PART)
    sheet.write(width_of(said, PART) + 12, y, remark, color=sheet.look.quiet)
    y += 25
    for name, (shared_by, num_logits) in spread.items():
        products = dim // shared_by
        each = f"{products} products" if products > 1 else "one product"
        who = f"{shared_by} threads share a logit, {each} each"
        then = _exchanges(shared_by, num_logits, num_threads)
        sheet.headline(y, name, who, then, BAD)
        _draw_strip(sheet, y + 13, shared_by, num_threads)
        y += STRIP_STEP
    return y + 8


def _exchanges(shared_by: int, num_logits: int, num_threads: int) -> str:
    """How many logits are summed at once, and the exchanges for all of a program."""
    at_once = num_threads // shared_by
    said = f"{at_once} logits at once" if at_once > 1 else "1 logit at a time"
    each = counted(min(shared_by, WARP).bit_length() - 1, "exchange")  # log2
    between = ", and between warps" if shared_by > WARP else ""
    return f"{said}: {num_logits // at_once} × {each}{between}"


def _draw_strip(sheet: Sheet, y: float, shared_by: int, num_threads: int) -> None:
    """From the left edge to the right one; the first group of threads is strong."""
    between_groups = min(GROUPS_APART, SPAN * shared_by / num_threads / 4)
    apart = [0.0] * num_threads  # in front of each thread
    apart[WARP::WARP] = [WARPS_APART for _ in apart[WARP::WARP]]
    apart[shared_by::shared_by] = [between_groups for _ in apart[shared_by::shared_by]]
    room = (SPAN - sum(apart)) / num_threads
    gap, x = room / 3, 0.0
    wide = room - gap * (num_threads - 1) / num_threads  # none behind the last thread
    for thread, before in enumerate(apart):
        x += before
        tone = strong(0) if thread < shared_by else soft(0)
        sheet.box(x, y, wide, STRIP, tone)
        x += wide + gap


def _draw_counts(
    sheet: Sheet, y: float, counts: Mapping[str, tuple[int, int]]
) -> float:
    """A bar for each of them, in two parts; where the legend below them ends."""
    said = "Exchanges in the code for one tile"
    remark = "all threads of a warp at once: one exchange"
    sheet.write(0, y, said, PART)
    sheet.write(width_of(said, PART) + 12, y, remark, color=sheet.look.quiet)
    left, most = max(map(width_of, counts)) + 14, max(1, *map(sum, counts.values()))
    longest = SPAN - left - width_of(f"{most:,}", PART, bold=True) - 8
    tones, y = [strong(0), soft(0)], y + 18
    for name, parts in counts.items():
        sheet.write(0, y + BAR / 2, name)
        x = left
        for part, tone in zip(parts, tones, strict=True):
            sheet.box(x, y, longest * part / most, BAR, tone)
            x += longest * part / most
        words = f"{sum(parts):,}"
        sheet.write(x + 8, y + BAR / 2, words, PART, weight="bold")
        y += BAR_STEP
    signs = zip(tones, ("for logits", "for the rest of the step"), strict=True)
    sheet.legend(0, y + 8, list(signs))
    return y + 16
