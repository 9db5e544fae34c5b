"""Lab: who waits, joins and ends: a lane for each prompt of a run."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from string import ascii_uppercase

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, width_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import free, others, soft, strong
from minipaged.lab.measure.watch import Moment
from minipaged.lab.plots.render import render
from minipaged.memory.block_pool import BlockPool
from minipaged.scheduling.plan import Work
from minipaged.scheduling.request import Request

LEFT, RIGHT, TOP = 166.0, 100.0, 30.0  # pixels beside the lanes, and above
TOKENS, PROMISED = 68.0, LEFT - 12  # pixels: where these columns end
LANE, HEIGHT = 34.0, 22.0  # pixels from lane to lane, and of a lane
DASHES = {"linewidth": 2.0, "linestyle": "--"}
HIGH = 88.0  # pixels: how high the counts of blocks are drawn


def plot_lanes(
    moments: Sequence[Moment],
    title: str,
    pool: BlockPool,
    names: Sequence[str] = ascii_uppercase,
) -> Figure:
    """One lane for each prompt, from step to step: it waits, prefills, decodes, ends.

    moments: of a run of `generate`, from `watch`, over the blocks of `pool`. names: of
    the prompts, in the order in which they start. Beside a lane, the most blocks that
    its prompt may come to hold. Below, how many blocks the sequences hold, and how many
    are promised, and to whom, under a line at the pool's size.
    """
    sheet = Sheet(title)
    step = (SPAN - LEFT - RIGHT) / len(moments)
    lanes: dict[object, list[tuple[int, Work]]] = {}
    for at, moment in enumerate(moments):
        for work in moment.works:
            lanes.setdefault(work.request, []).append((at, work))
    _draw_axis(sheet, len(moments), step)
    for row, (name, lane) in enumerate(zip(names, lanes.values(), strict=False)):
        _draw_lane(sheet, name, lane, TOP + row * LANE, step)
        at_most = _at_most(lane[0][1].request, pool.block_size)
        place = PROMISED, TOP + row * LANE + HEIGHT / 2
        sheet.write(*place, str(at_most), ha="right", color=sheet.look.quiet)
    y = TOP + len(lanes) * LANE + 22
    low = y + HIGH + 34
    named = dict(zip(lanes, names, strict=False))
    _draw_blocks(sheet, moments, pool, y, step, named)
    signs = [(free(), "waits"), (strong("A"), "prefill"), (soft("A"), "decode")]
    sheet.legend(0, low, [*signs, (others(), "blocks held")])
    x = SPAN - RIGHT - width_of("promised")
    sheet.line((x - 30, low), (x - 6, low), color=sheet.look.ink, **DASHES)
    sheet.write(x, low, "promised", color=sheet.look.quiet)
    return render(sheet.finish(low + 10))


def _draw_axis(sheet: Sheet, num_steps: int, step: float) -> None:
    """The numbers of the steps, from 1, and the heads of the columns beside."""
    quiet = {"color": sheet.look.quiet, "ha": "center"}
    sheet.write(SPAN - RIGHT + 12, 12, "step", color=sheet.look.quiet)
    for x, head in ((TOKENS, "tokens"), (PROMISED, "promised")):
        sheet.write(x, 12, head, ha="right", color=sheet.look.quiet)
    every = next(n for n in (1, 5, 10, 20, 50, 100, 1000) if num_steps <= 12 * n)
    for number in sorted({1, *range(every, num_steps + 1, every)}):
        if number == 1 or (number - 1) * step > 24:
            sheet.write(LEFT + (number - 0.5) * step, 12, str(number), **quiet)


def _draw_lane(
    sheet: Sheet,
    name: str,
    lane: Sequence[tuple[int, Work]],
    y: float,
    step: float,
) -> None:
    """A prompt waits until its first work, and ends with its last one."""
    (first, work), (last, _) = lane[0], lane[-1]
    prompt = str(work.sequence.num_prompt_tokens)
    sheet.write(0, y + HEIGHT / 2, name, PART, weight="bold")
    sheet.write(TOKENS, y + HEIGHT / 2, prompt, ha="right", color=sheet.look.quiet)
    x = LEFT + first * step
    if first:
        sheet.wait(LEFT, y, x - LEFT, HEIGHT)
    for is_prefill, run in groupby(lane, key=lambda step: _is_prefill(step[1])):
        steps = [at for at, _ in run]
        tone = strong(name) if is_prefill else soft(name)
        sheet.box(LEFT + steps[0] * step, y, len(steps) * step, HEIGHT, tone)
    end = LEFT + (last + 1) * step
    sheet.write(end + 6, y + HEIGHT / 2, f"ends, step {last + 1}")


def _is_prefill(work: Work) -> bool:
    return work.start < work.sequence.num_prefill_tokens


def _promised(moment: Moment, block_size: int) -> int:
    """The most blocks that those who run may come to hold, all together."""
    return sum(_at_most(request, block_size) for request in _running(moment))


def _running(moment: Moment) -> list[Request]:
    """Each request of this step, once."""
    return list({id(work.request): work.request for work in moment.works}.values())


def _at_most(request: Request, block_size: int) -> int:
    """As `Request.blocks_at_most`, for a request that may have ended since."""
    shared = len(request.prompt) // block_size
    whole = -(-request.max_computed // block_size)
    return shared + request.num_parallel * (whole - shared)


def _draw_blocks(
    sheet: Sheet,
    moments: Sequence[Moment],
    pool: BlockPool,
    y: float,
    step: float,
    named: Mapping[object, str],
) -> None:
    """How many blocks are held and promised in each step, and how many there are."""
    held = [moment.num_blocks for moment in moments]
    promised = [_promised(moment, pool.block_size) for moment in moments]
    ground, top = y + HIGH + 14, max(pool.num_blocks, *promised)
    quiet = {"ha": "right", "color": sheet.look.quiet}
    sheet.write(LEFT - 12, ground - 26, "blocks held:", **quiet)
    sheet.write(LEFT - 12, ground - 8, f"{max(held)} at most", ha="right")
    first = ground - HIGH * promised[0] / top
    if first < ground - 44:  # high enough above the words below
        sheet.write(LEFT - 12, first, "promised:", **quiet)
    sheet.line((LEFT, ground), (SPAN - RIGHT, ground))
    line = ground - HIGH * pool.num_blocks / top
    sheet.line((LEFT, line), (SPAN - RIGHT, line))
    sheet.write(SPAN - RIGHT + 6, line, f"pool: {pool.num_blocks}")
    x = LEFT
    for count, run in groupby(held):
        width, high = len(list(run)) * step, HIGH * count / top
        sheet.box(x, ground - high, width, high, others())
        x += width
    x, corners = LEFT, [(LEFT, ground)]
    whose = [
        "+".join(sorted(named[each] for each in _running(one) if each in named))
        for one in moments
    ]
    for (count, names), run in groupby(zip(promised, whose, strict=True)):
        width, level = len(list(run)) * step, ground - HIGH * count / top
        if corners[-1] == (x, level):  # as many, to somebody else
            sheet.line((x, level - 5), (x, level + 5), color=sheet.look.ink)
        corners += [(x, level), (x + width, level)]
        for said in (f"{names}: {count}", str(count)):
            if width > width_of(said, bold=True) + 8:
                place = x + width / 2, level - 11
                sheet.write(*place, said, ha="center", weight="bold")
                break
        x += width
    sheet.line(*corners, (x, ground), color=sheet.look.ink, **DASHES)
