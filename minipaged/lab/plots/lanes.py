"""Lab: who waits, joins and ends: a lane for each prompt of a run."""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from string import ascii_uppercase

from minipaged.draw.bands import Drawn
from minipaged.draw.lanes import Lane
from minipaged.draw.letters import counted, width_of
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.sheet import Sheet
from minipaged.draw.tones import FOUND, free, others, soft, strong
from minipaged.lab.measure.watch import Moment
from minipaged.lab.plots.render import Figure, render
from minipaged.lab.plots.steps import add_steps
from minipaged.memory.block_pool import BlockPool
from minipaged.scheduling.plan import Work
from minipaged.scheduling.request import Request

HIGH = 88.0  # pixels: how high the counts of blocks are drawn
DASHES = {"linewidth": 2.0, "linestyle": "--"}
Heights = Sequence[tuple[int, str]]  # of each step: how many blocks, and whose


def plot_lanes(moments: Sequence[Moment], title: str, pool: BlockPool) -> Figure:
    """One lane for each prompt, from step to step: it waits, prefills, decodes, ends.

    moments: of a run of `generate`, from `watch`, over the blocks of `pool`. The
    prompts are A, B, C, ... in the order in which they start. Beside a lane, its
    tokens, and the most blocks that its prompt may come to hold. Below, how many blocks
    the sequences hold, and how many are promised, and to whom, under a line at the
    pool's size.
    """
    run, size = Picture(title, widest=len(moments) * HIGH), pool.block_size
    works: dict[Request, list[tuple[int, Work]]] = {}
    for at, moment in enumerate(moments):
        for work in moment.works:
            works.setdefault(work.request, []).append((at, work))
    named = dict(zip(works, ascii_uppercase, strict=False))
    add_steps(run, len(moments))
    for request, own in works.items():
        tokens = own[0][1].sequence.num_prompt_tokens
        remark = f"{counted(tokens, 'token')}, {_at_most(request, size)} promised"
        style = {"is_bold": True, "aside": f"ends, step {own[-1][0] + 1}"}
        run.lane(named[request], remark, _cells(named[request], own), **style)
    held = [moment.num_blocks for moment in moments]
    promised = [
        (
            sum(_at_most(request, size) for request in _running(moment)),
            "+".join(sorted(named[request] for request in _running(moment))),
        )
        for moment in moments
    ]
    most = max(pool.num_blocks, *(count for count, _ in promised))
    run.space(8)
    cells = [Cell("", others(), high=count / most) for count in held]
    blocks = run.lane("blocks", f"{max(held)} held at most", cells, height=HIGH)
    blocks.level(0.0)
    blocks.level(pool.num_blocks / most, f"pool: {pool.num_blocks}")

    def draw(sheet: Sheet, x: float, y: float, width: float) -> None:
        _draw_promised(sheet, blocks, promised, HIGH / most)

    run.add(Drawn(6.0, draw))
    signs = [(free(), "waits"), (strong("A"), "prefill"), (soft("A"), "decode")]
    run.legend(*signs, (others(), "blocks held"), (FOUND, "promised"))
    return render(run.scene())


def _cells(name: str, own: Sequence[tuple[int, Work]]) -> Iterator[Cell]:
    """A prompt waits until its first work, and ends with its last one."""
    if first := own[0][0]:
        yield Cell("waits", free(), first)
    for is_prefill, run in groupby(own, key=lambda step: _is_prefill(step[1])):
        steps = {at for at, _ in run}
        yield Cell("", strong(name) if is_prefill else soft(name), len(steps))


def _is_prefill(work: Work) -> bool:
    return work.start < work.sequence.num_prefill_tokens


def _running(moment: Moment) -> list[Request]:
    """Each request of this step, once."""
    return list(dict.fromkeys(work.request for work in moment.works))


def _at_most(request: Request, block_size: int) -> int:
    """As `Request.blocks_at_most`, for a request that may have ended since."""
    shared = len(request.prompt) // block_size
    whole = -(-request.max_computed // block_size)
    return shared + request.num_parallel * (whole - shared)


def _draw_promised(sheet: Sheet, lane: Lane, promised: Heights, unit: float) -> None:
    """How many are promised, as an outline, and on it to whom."""
    ground, at = lane.y + HIGH, 0
    corners = [(lane.left, ground)]
    for (count, names), run in groupby(promised):
        stop = at + len(list(run))
        x, right, level = lane.place(at), lane.place(stop), ground - unit * count
        if corners[-1] == (x, level):  # as many, to somebody else
            sheet.line((x, level - 5), (x, level + 5), color=sheet.look.ink)
        corners += [(x, level), (right, level)]
        said = f"{names}: {count}"
        said = said if right - x > width_of(said, bold=True) + 8 else str(count)
        if right - x > width_of(said, bold=True) + 8:
            middle = (x + right) / 2, level - 11
            sheet.write(*middle, said, ha="center", weight="bold")
        at = stop
    corners.append((corners[-1][0], ground))
    for ends in pairwise(corners):
        sheet.line(*ends, color=sheet.look.ink, **DASHES)
