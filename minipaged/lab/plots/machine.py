"""Lab: the parts of a GPU: its memory and caches, its multiprocessors, their parts."""

from collections.abc import Mapping

from minipaged.draw.letters import PART, counted
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone, behind_words, free, soft, strong
from minipaged.lab.plots.render import Figure, render

LEFT, PAD, GAP = 164.0, 14.0, 10.0  # pixels beside the parts, in and between boxes
LINES, SIDE = 2, 12.0  # of small squares, and how high they are
PROGRAMS, EACH = 3, 4  # on the large multiprocessor; warps of each
FRAME, CACHE, MEMORY = 62.0, 270.0, 338.0  # the upper edges of the boxes
WARPS, WARP, REGISTERS = 92.0, 28.0, 22.0  # where programs begin; their parts' height
GATE, HIGH = 184.0, 36.0  # the L1 unit, and how high it is
UNITS = 76.0  # how wide the matrix units are
LARGE, L2 = 44.0, 26.0  # how high the memory is, and its cache


def plot_gpu(gpu: Mapping[str, float], read_gb_per_s: float, title: str) -> Figure:
    """All multiprocessors small, one of them large, the cache and the memory below.

    Of three programs on the large one, the first computes, and the others wait for what
    the memory sends. Each has four warps, and their threads' registers. All that they
    read passes the L1 unit: shared memory and L1.

    gpu: `multiprocessors`, `registers` and `shared_bytes` of each, `l2_megabytes`, as
    `measured_tuning()` has them. read_gb_per_s: its read ceiling.
    """
    sheet = Sheet(title)
    _draw_squares(sheet, int(gpu["multiprocessors"]))
    sheet.box(LEFT, FRAME, SPAN - LEFT, GATE + HIGH - FRAME, rim=sheet.look.ink)
    _draw_programs(sheet)
    said = f"with {PROGRAMS} of the programs"
    sheet.label(WARPS, 0, "one of them", said)
    registers = f"{gpu['registers']:,} registers"
    sheet.label(WARPS + WARP + 2, REGISTERS, registers, "for all its threads")
    middle = (LEFT + SPAN) / 2
    name = f"{gpu['shared_bytes'] / 1024:.0f} KiB shared memory"
    words = "what programs read, and what threads hand each other, passes here"
    _draw_store(sheet, GATE, HIGH, words, sheet.look.ink)
    sheet.label(GATE, HIGH, "L1 unit: near, fast", name)
    for below, above in ((CACHE, GATE + HIGH), (MEMORY, CACHE + L2)):
        way = (middle, below - 3), (middle, above + 4)
        sheet.arrow(*way, is_followed=True, is_upright=True)
    sheet.label(CACHE, L2, "cache (L2)", "all share it")
    words = f"what was read lately, {gpu['l2_megabytes']:.0f} MB at most"
    _draw_store(sheet, CACHE, L2, words, sheet.look.rim)
    said = f"at most {read_gb_per_s:,.0f} GB/s, for all together"
    sheet.write(middle + 14, (MEMORY + CACHE + L2) / 2, said, PART)
    sheet.label(MEMORY, LARGE, "large memory", "far and slow")
    words = "K and V of all blocks, in all layers"
    _draw_store(sheet, MEMORY, LARGE, words, sheet.look.ink)
    signs = [(strong(0), "computes"), (behind_words(soft(0)), "waits for numbers")]
    sheet.legend(LEFT, MEMORY + LARGE + 26, signs)
    said = "a warp: 32 threads"
    quiet = {"ha": "right", "color": sheet.look.quiet}
    sheet.write(SPAN, MEMORY + LARGE + 26, said, **quiet)
    return render(sheet.finish(MEMORY + LARGE + 36))


def _draw_store(sheet: Sheet, y: float, high: float, words: str, rim: str) -> None:
    """A box from edge to edge, and in it what it holds."""
    sheet.box(LEFT, y, SPAN - LEFT, high, rim=rim)
    sheet.write((LEFT + SPAN) / 2, y + high / 2, words, ha="center")


def _draw_programs(sheet: Sheet) -> None:
    """Side by side, with arrows to those that wait; at the right, the matrix units."""
    right, bottom = SPAN - PAD - UNITS, WARPS + WARP + 2 + REGISTERS
    each = (right - LEFT - PAD) / PROGRAMS
    for program in range(PROGRAMS):
        left = LEFT + PAD + program * each
        tone = soft(0) if program else strong(0)
        _draw_program(sheet, left, each - GAP, tone)
        if program:
            x = left + (each - GAP) / 2
            for at, ends in ((x, (GATE - 2, bottom + 4)), (x + 16, (bottom, GATE))):
                way = [(at, end) for end in ends]
                sheet.arrow(*way, is_followed=True, is_upright=True)
    sheet.box(right, WARPS, UNITS, bottom - WARPS, rim=sheet.look.rim)
    for at, said in ((-8, "matrix"), (8, "units")):
        middle = right + UNITS / 2, (WARPS + bottom) / 2 + at
        sheet.write(*middle, said, ha="center")
    way = (right + UNITS / 2, GATE - 2), (right + UNITS / 2, bottom + 4)
    sheet.arrow(*way, is_followed=True, is_upright=True)


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


def _draw_program(sheet: Sheet, left: float, width: float, tone: Tone) -> None:
    """A box for each warp, and below them what their threads compute with."""
    middle, below = left + width / 2, WARPS + WARP + 2
    sheet.write(middle, WARPS - 13, "program", PART, ha="center")
    widths = [width / EACH] * EACH
    sheet.cells(left, WARPS, widths, WARP, [tone] * EACH, ["warp"] * EACH)
    sheet.box(left, below, width, REGISTERS, rim=sheet.look.rim)
    sheet.write(middle, below + REGISTERS / 2, "its threads' registers", ha="center")
