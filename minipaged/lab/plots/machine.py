"""Lab: the parts of a GPU: its memory and cache, its multiprocessors, their parts."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.lab.plots.signs import PART, SPAN, Sheet, counted, width_of
from minipaged.lab.plots.tones import behind_words, free, soft, strong

LEFT, PAD, GAP = 164.0, 14.0, 10.0  # pixels beside the parts, in and between boxes
LINES, SIDE = 2, 12.0  # of small squares, and how high they are
FRAME, CACHE, MEMORY = 62.0, 240.0, 308.0  # the upper edges of the boxes
WARPS, PARTS, HIGH = 38.0, 88.0, 30.0  # below the frame's edge; the height of boxes
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
    the memory sends. Each has so many warps.

    gpu: `multiprocessors`, `registers` and `shared_bytes` of each, `l2_megabytes`, as
    `measured_tuning()` has them. read_gb_per_s: its read ceiling.
    """
    sheet = Sheet(title)
    _draw_squares(sheet, int(gpu["multiprocessors"]))
    bottom = FRAME + PARTS + HIGH + PAD
    sheet.box(LEFT, FRAME, SPAN - LEFT, bottom - FRAME, rim=sheet.look.ink)
    sheet.label(FRAME, WARPS + HIGH + PAD, "one of them", "holds several programs")
    room = SPAN - LEFT - 2 * PAD + GAP
    for program in range(num_programs):
        left = LEFT + PAD + program * room / num_programs
        number = program * int(gpu["multiprocessors"])  # neighbours lie on others
        _draw_program(sheet, left, room / num_programs - GAP, number, num_warps)
    sheet.label(FRAME + PARTS, HIGH, "all share its parts", "near and fast")
    _draw_parts(sheet, gpu, LEFT + PAD, room - GAP)
    middle = (LEFT + SPAN) / 2
    for below, above in ((CACHE, bottom), (MEMORY, CACHE + L2)):
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


def _draw_parts(
    sheet: Sheet, gpu: Mapping[str, float], left: float, width: float
) -> None:
    """One box, as the parts are no program's alone; each as wide as its words want."""
    sheet.box(left, FRAME + PARTS, width, HIGH, rim=sheet.look.rim)
    shared = f"shared memory ({gpu['shared_bytes'] / 1024:.0f} KiB), L1"
    parts = f"registers: {gpu['registers']:,} numbers", shared, "matrix units"
    more = (width - sum(map(width_of, parts))) / len(parts)
    for words in parts:
        each = width_of(words) + more
        middle = left + each / 2, FRAME + PARTS + HIGH / 2
        sheet.write(*middle, words, ha="center")
        left += each
        if words != parts[-1]:
            sheet.line((left, FRAME + PARTS), (left, FRAME + PARTS + HIGH))


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
    """Its name, and a box for each warp."""
    tone = soft(0) if program else strong(0)
    y = FRAME + WARPS
    sheet.write(left + width / 2, y - 14, f"program {program}", PART, ha="center")
    wide = width / num_warps
    words = ["warp"] * num_warps if width_of("warp") < wide - 4 else []
    sheet.cells(left, y, [wide] * num_warps, HIGH, [tone] * num_warps, words)
