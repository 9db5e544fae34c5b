"""Lab: which threads hold the products of a logit, and their exchanges."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.lab.plots.palette import BAD
from minipaged.lab.plots.signs import PART, SPAN, Sheet, counted, width_of
from minipaged.lab.plots.tones import behind_words, soft, strong

WARP = 32  # threads
STRIP, STRIP_STEP, APART = 16.0, 54.0, 10.0  # of a strip; to the next; between warps
BAR, BAR_STEP = 18.0, 27.0  # pixels of a bar, and from one to the next


def plot_sharing(
    spread: Mapping[str, int],
    counts: Mapping[str, tuple[int, int]],
    title: str,
    dim: int = 128,
) -> Figure:
    """Strips of the threads that share a logit; below, bars of exchanges for a tile.

    In a strip, a box is a thread, and warps stand apart. All strips are equally long,
    as they are of equally many products. A bar has two parts: the exchanges for logits,
    and the others of a step.

    spread: how many threads share a logit, by what has it so. counts: exchanges in the
    code for a tile, those for its logits and the others, by what needs them. dim:
    products of a logit, of which each thread has equally many.
    """
    for name, shared_by in spread.items():
        if shared_by < 2 or shared_by.bit_count() > 1 or dim % shared_by:
            said = f"{name}: {shared_by} threads, {dim} products"
            raise ValueError(f"{said}; choose 2, 4, 8, ... that divide the products")
    sheet = Sheet(title)
    sheet.finish(_draw_counts(sheet, _draw_spread(sheet, 8, spread, dim), counts))
    return sheet.figure


def _draw_spread(sheet: Sheet, y: float, spread: Mapping[str, int], dim: int) -> float:
    """A strip of all threads that share a logit, for each; where the bars begin."""
    said = f"Who holds the {dim} products of a logit"
    sheet.write(0, y, said, PART)
    beside = width_of(said, PART) + 12
    sheet.write(beside, y, "a box is a thread", color=sheet.look.quiet)
    y += 25
    for name, num_threads in spread.items():
        who, then = _said_of(num_threads, dim)
        sheet.headline(y, name, who, then, BAD)
        num_warps = -(-num_threads // WARP)
        room = SPAN - APART * (num_warps - 1)
        gap = min(4.0, room / num_threads / 3)
        step = (room + gap) / num_threads
        for thread in range(num_threads):
            x = thread * step + thread // WARP * APART
            sheet.box(x, y + 13, step - gap, STRIP, behind_words(soft(0)))
        y += STRIP_STEP
    return y + 8


def _said_of(num_threads: int, dim: int) -> tuple[str, str]:
    """What threads that share a logit hold, and the exchanges that this needs."""
    num_warps, products = num_threads // WARP, dim // num_threads
    hold = f"hold {products if products > 1 else 'one'} each"
    if num_warps <= 1:
        who = f"{counted(num_threads, 'thread')} {hold}"
        return who, counted(num_threads.bit_length() - 1, "exchange")
    who = f"{num_threads} threads, in {num_warps} warps, {hold}"
    in_warp = counted(WARP.bit_length() - 1, "exchange")
    return who, f"{in_warp} in each warp, then between the warps"


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
