"""Lab: who waits, joins and ends: a lane for each prompt of a run."""

from collections.abc import Sequence
from itertools import groupby
from string import ascii_uppercase

from matplotlib.figure import Figure

from minipaged.draw.letters import counted
from minipaged.draw.palette import theme
from minipaged.draw.picture import Picture
from minipaged.draw.tones import free, others, soft, strong
from minipaged.lab.measure.watch import Moment
from minipaged.lab.plots.render import render
from minipaged.memory.block_pool import BlockPool
from minipaged.scheduling.plan import Work
from minipaged.scheduling.request import Request

HIGH = 60.0  # pixels of as many blocks as the pool has


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
    are promised, and to whom, in frames as high as the pool is large.
    """
    lanes: dict[Request, list[tuple[int, Work]]] = {}
    for at, moment in enumerate(moments):
        for work in moment.works:
            lanes.setdefault(work.request, []).append((at, work))
    named = dict(zip(lanes, names, strict=False))

    picture = Picture(title)
    for request, name in named.items():
        (first, work), (last, _) = lanes[request][0], lanes[request][-1]
        prompt = counted(work.sequence.num_prompt_tokens, "token")
        remark = f"{prompt}, {_at_most(request, pool.block_size)} promised"
        style = {"aside": f"ends, step {last + 1}", "is_bold": True}
        lane = picture.lane(name, remark, **style)
        lane.bar(0, first, free(), "waits")
        works = groupby(lanes[request], key=lambda step: _is_prefill(step[1]))
        for is_prefill, run in works:
            steps = [at for at, _ in run]
            tone = strong(name) if is_prefill else soft(name)
            lane.bar(steps[0], steps[0] + len(steps), tone)
    held = [moment.num_blocks for moment in moments]
    promised = [_promised(moment, pool.block_size) for moment in moments]
    whose = [
        "+".join(sorted(named[each] for each in _running(one) if each in named))
        for one in moments
    ]
    top = max(pool.num_blocks, *promised)
    for label, remark, counts, tone, words in (
        ("promised", f"pool: {pool.num_blocks}", promised, free(), whose),
        ("blocks held", f"{max(held)} at most", held, others(), [""] * len(held)),
    ):
        start, style = 0, {"height": HIGH, "rim": theme().rim}
        lane = picture.lane(label, remark, **style)
        for (count, names), run in groupby(zip(counts, words, strict=True)):
            stop = start + len(list(run))
            said = f"{names}: {count}" if names and count > 0.3 * top else ""
            lane.bar(start, stop, tone, said, high=count / top)
            start = stop
    picture.axis("step")
    signs = (free(), "waits"), (strong("A"), "prefill"), (soft("A"), "decode")
    picture.legend(*signs, (others(), "blocks held"))
    return render(picture.scene())


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
