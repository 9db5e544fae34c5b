"""Lab: the parts of a GPU: its memory and caches, its multiprocessors, their parts."""

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path

from minipaged.lab.plots.signs import PART, SPAN, Sheet, counted, width_of
from minipaged.lab.plots.tones import behind_words, free, soft, strong

LEFT, PAD, GAP = 164.0, 14.0, 10.0  # pixels beside the parts, in and between boxes
LINES, SIDE = 2, 12.0  # of small squares, and how high they are
FRAME, CACHE, MEMORY = 62.0, 270.0, 338.0  # the upper edges of the boxes
WARPS, WARP, REGISTERS = 92.0, 28.0, 22.0  # where programs begin; their parts' height
GATE, HIGH = 184.0, 36.0  # the unit of shared memory, and how high it is
UNITS = 76.0  # how wide the matrix units are
LARGE, L2 = 44.0, 26.0  # how high the memory is, and its cache


def plot_gpu(
    gpu: Mapping[str, float],
    read_gb_per_s: float,
    title: str,
    num_programs: int = 3,
    num_warps: int = 4,
) -> Figure:
    """All multiprocessors small, one of them large, the cache and the memory below.

    Of the programs on the large one, the first computes, and the others wait for what
    the memory sends. Each has so many warps, and their threads' registers. All that is
    loaded passes the unit of shared memory, and so does what threads exchange.

    gpu: `multiprocessors`, `registers` and `shared_bytes` of each, `l2_megabytes`, as
    `measured_tuning()` has them. read_gb_per_s: its read ceiling.
    """
    sheet = Sheet(title)
    _draw_squares(sheet, int(gpu["multiprocessors"]))
    sheet.box(LEFT, FRAME, SPAN - LEFT, GATE + HIGH - FRAME, rim=sheet.look.ink)
    _draw_gate(sheet, gpu["shared_bytes"])
    end = _draw_programs(sheet, int(gpu["multiprocessors"]), num_programs, num_warps)
    said = "all loads pass this unit, and all exchanges"
    sheet.write((end + SPAN) / 2, GATE + HIGH / 2, said, ha="center")
    sheet.label(WARPS, 0, "one of them", "holds several programs")
    registers = f"{gpu['registers']:,} registers"
    sheet.label(WARPS + WARP + 2, REGISTERS, registers, "for all its threads")
    middle = (LEFT + SPAN) / 2
    for below, above in ((CACHE, GATE + HIGH), (MEMORY, CACHE + L2)):
        way = (middle, below - 3), (middle, above + 4)
        sheet.arrow(*way, is_followed=True, is_upright=True)
    sheet.label(CACHE, L2, "cache (L2)", "all share it")
    sheet.box(LEFT, CACHE, SPAN - LEFT, L2, rim=sheet.look.rim)
    words = f"what was read lately, {gpu['l2_megabytes']:.0f} MB at most"
    sheet.write(middle, CACHE + L2 / 2, words, ha="center")
    said = f"at most {read_gb_per_s:,.0f} GB/s, for all together"
    sheet.write(middle + 14, (MEMORY + CACHE + L2) / 2, said, PART)
    sheet.label(MEMORY, LARGE, "large memory", "far and slow")
    sheet.box(LEFT, MEMORY, SPAN - LEFT, LARGE, rim=sheet.look.ink)
    words = "K and V of all blocks, in all layers"
    sheet.write(middle, MEMORY + LARGE / 2, words, ha="center")
    signs = [(strong(0), "computes"), (behind_words(soft(0)), "waits for numbers")]
    sheet.legend(LEFT, MEMORY + LARGE + 26, signs)
    said = "a warp: 32 threads"
    quiet = {"ha": "right", "color": sheet.look.quiet}
    sheet.write(SPAN, MEMORY + LARGE + 26, said, **quiet)
    sheet.finish(MEMORY + LARGE + 36)
    return sheet.figure


def _draw_gate(sheet: Sheet, shared_bytes: float) -> None:
    """The floor of the multiprocessor: what comes from below must pass it."""
    name = f"shared ({shared_bytes / 1024:.0f} KiB), L1"
    sheet.label(GATE, HIGH, name, "one unit, near and fast")
    style = {"rim": sheet.look.ink, "linewidth": 2.2}
    sheet.box(LEFT, GATE, SPAN - LEFT, HIGH, **style)


def _draw_programs(
    sheet: Sheet, num_multiprocessors: int, num_programs: int, num_warps: int
) -> float:
    """Side by side, with arrows to them; the matrix units at their right.

    Returns where an exchange leaves the unit below, in pixels from the left.
    """
    right, bottom = SPAN - PAD - UNITS, WARPS + WARP + 2 + REGISTERS
    each = (right - LEFT - PAD) / num_programs
    for program in range(num_programs):
        left = LEFT + PAD + program * each
        number = program * num_multiprocessors  # neighbours lie on others
        _draw_program(sheet, left, each - GAP, number, num_warps)
        if program or num_programs == 1:
            x = left + (each - GAP) * (0.5 if program else 0.85)
            way = (x, GATE - 2), (x, bottom + 4)
            sheet.arrow(*way, is_followed=True, is_upright=True)
    sheet.box(right, WARPS, UNITS, bottom - WARPS, rim=sheet.look.rim)
    for at, said in ((-8, "matrix"), (8, "units")):
        middle = right + UNITS / 2, (WARPS + bottom) / 2 + at
        sheet.write(*middle, said, ha="center")
    return _draw_exchange(sheet, LEFT + PAD, each - GAP, num_warps, bottom)


def _draw_exchange(
    sheet: Sheet, left: float, width: float, num_warps: int, top: float
) -> float:
    """From a warp into the unit and up to the next one; or to another thread."""
    wide = width / num_warps
    first = left + (max(1, num_warps // 2) - 0.5) * wide
    start, end = (first, first + wide) if num_warps > 1 else (first - 12, first + 12)
    low = GATE + HIGH * 0.75
    bends = [(start, low), (end, low)]
    path = Path([(start, top + 3), *bends, (end, top + 3)], [1, 4, 4, 4])
    style = {"linewidth": 2.0, "color": sheet.look.ink, "mutation_scale": 11}
    sheet.axes.add_artist(FancyArrowPatch(path=path, arrowstyle="-|>", **style))
    sheet.write(end + 7, (top + GATE) / 2, "exchange")
    return end


def _draw_squares(sheet: Sheet, count: int) -> None:
    """A square for each multiprocessor; lines lead from one to the frame."""
    columns = -(-count // LINES)
    wide = (SPAN - LEFT) / columns
    chosen = count - (columns + 1) // 2  # near the middle of the last line
    for number in range(count):
        row, column = divmod(number, columns)
        left, top = LEFT + column * wide + 1, 4 + row * (SIDE + 2)
        tone = strong(0) if number == chosen else free()
        sheet.box(left, top, wide - 2, SIDE, tone, sheet.look.rim)
        if number == chosen:
            for start, end in ((left, LEFT), (left + wide - 2, SPAN)):
                sheet.line((start, top + SIDE), (end, FRAME))
    name = counted(count, "multiprocessor")
    sheet.label(4, LINES * (SIDE + 2), name, "of one GPU")


def _draw_program(
    sheet: Sheet, left: float, width: float, program: int, num_warps: int
) -> None:
    """Its name, a box for each warp, and below them what their threads compute with."""
    tone = soft(0) if program else strong(0)
    middle, below = left + width / 2, WARPS + WARP + 2
    sheet.write(middle, WARPS - 13, f"program {program}", PART, ha="center")
    wide = width / num_warps
    words = ["warp"] * num_warps if width_of("warp") < wide - 4 else []
    sheet.cells(left, WARPS, [wide] * num_warps, WARP, [tone] * num_warps, words)
    sheet.box(left, below, width, REGISTERS, rim=sheet.look.rim)
    for said in ("its threads' registers", "registers"):
        if width_of(said) < width - 6:
            return sheet.write(middle, below + REGISTERS / 2, said, ha="center")
