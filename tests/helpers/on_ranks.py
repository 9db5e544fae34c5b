"""What tests have all ranks do: each of them runs the same lines."""

import asyncio
import time
from contextlib import ExitStack, nullcontext
from functools import cache, partialmethod
from random import Random
from unittest import mock

import pytest
import torch
import torch.distributed as dist

import minipaged as mp
from helpers.rank_processes import SECONDS
from helpers.replaying import ReplayingRunner, capture_without_a_gpu, replayable
from helpers.serving import CONFIGS, PROMPTS, config
from minipaged.model import parallel
from minipaged.model.exchange import gather_from_ranks
from minipaged.model.graphs import GraphRunner
from minipaged.model.ranks_memory import ranks_memory

WARM = config(17, do_sample=True, temperature=0.7, top_k=0)
BEGUN = "it generates"
SEEDS = list(range(len(PROMPTS)))


@cache
def load(folder):
    """The model of this folder, shared out among the ranks."""
    model = mp.load(folder, tp="auto")[0]
    if model.config.model_type == "gemma2":  # older releases skip its soft cap
        model.set_attn_implementation("eager")
    return model


def wrap(folder, num_blocks=96, **options):
    """A pool whose blocks hold NaN until they are written."""
    paged = mp.PagedModel(load(folder), num_blocks, 4, **options)
    for tensor in (*paged.cache.keys, *paged.cache.values):
        tensor.fill_(torch.nan)
    return paged


def generate(folder, configs=CONFIGS, count=None, wrapped=None, **options):
    """The answers to the prompts, and this rank's heads of K in its first layer."""
    paged = wrap(folder, **(wrapped or {}))
    outs = mp.generate(paged, PROMPTS[:count], configs, seed=SEEDS[:count], **options)
    return outs, paged.cache.keys[0].shape[2]


def run_engine(folder, num_blocks=96, cache=False, **options):
    """An engine's Outputs for all prompts; and what this rank's scheduler has done."""
    paged = wrap(folder, num_blocks)
    prefix = mp.PrefixCache(paged.pool) if cache else None
    options = {"max_tokens": 192, "max_sequences": 16} | options
    configs = [WARM] * len(PROMPTS) if "speculation" in options else CONFIGS
    with mp.Engine(paged, prefix, **options) as engine:
        for _ in range(1 + cache):  # the second time, prefixes are found
            streams = [
                engine.add(prompt, own, seed=seed)
                for seed, (prompt, own) in enumerate(zip(PROMPTS, configs, strict=True))
            ]
            outs = engine.run()
        assert all(stream.finished for stream in streams)
        return outs, engine.stats.num_steps, engine.stats.num_preemptions


def run_ahead(folder, kind=ReplayingRunner, forgets=False):
    """Outputs of an engine one step ahead, with graphs that need no GPU.

    kind: of runner; a compiler only traces its layers. forgets: rank 0 keeps the tokens
    that it has not read to itself. Comes with the number of this rank's replays.
    """
    compile_ = torch.nn.Module.compile
    traces = partialmethod(compile_, backend="eager", fullgraph=True)
    made = "minipaged.engine.one_of_ranks.make_runner"
    with ExitStack() as stack:
        for patch in (
            mock.patch(made, lambda paged, _run, *most: kind(paged, *most)),
            mock.patch.object(torch.nn.Module, "compile", traces),
            mock.patch.object(GraphRunner, "_capture_all", capture_without_a_gpu),
            mock.patch("minipaged.model.parallel.broadcast", _send_zeros)
            if forgets
            else nullcontext(),
        ):
            stack.enter_context(patch)
        paged = wrap(folder, attention=replayable)
        engine = stack.enter_context(mp.Engine(paged, max_tokens=48, max_sequences=16))
        for seed, (prompt, own) in enumerate(zip(PROMPTS, CONFIGS, strict=True)):
            engine.add(prompt, own, seed=seed)
        outs = engine.run()
        for prompt in PROMPTS[:5]:  # these run ahead
            engine.add(prompt, config(9))
        outs += engine.run()
        runner = getattr(engine._runner, "_runner", engine._runner)
        if runner.name == "compiled":  # its logits are gathered into one place
            assert runner._last_layer.place is runner._logits
        graphs = runner._graphs.values()
        return outs, sum(each.graph.count for each in graphs)


def _send_zeros(tokens):
    with torch.inference_mode():
        tokens.mul_(dist.get_rank() == 0)


def stream(folder):
    """Tokens as they come, and an abort in the middle."""
    with mp.Engine(wrap(folder), max_tokens=32) as engine:
        first, second, third = (engine.add(p, CONFIGS[0]) for p in PROMPTS[:3])
        with second:
            some = [next(iter(second))]
        tokens = list(first)
        more = engine.step()
        return tokens, some, second.output, third.tokens, more, third.result()


def serve(folder):
    """A thread answers on each rank, idle or not."""
    with mp.Engine(wrap(folder), max_tokens=32) as engine:

        async def wait_for(prompt):
            return await engine.add(prompt, CONFIGS[0])

        with pytest.raises(RuntimeError, match="before coroutines wait"):
            asyncio.run(wait_for(PROMPTS[0]))
        engine.serve()
        answers = [engine.add(p, CONFIGS[0]).result() for p in PROMPTS[:2]]
        answers += [asyncio.run(wait_for(PROMPTS[2]))]
        engine.stop()
        engine.add(PROMPTS[3], CONFIGS[0])
        return [*answers, *engine.run()]


def refused(folder):
    """What is refused on all ranks, and that they go on."""
    paged = wrap(folder, 8)
    errors = []
    for bad in ([[]], [[10**6]]):
        try:
            mp.generate(paged, bad)
        except ValueError as error:
            errors.append(str(error))
    for option in ({"deterministic": True}, {"kv_dtype": "fp8"}):
        with pytest.raises(mp.UnsupportedModel, match="on several ranks"):
            wrap(folder, 8, **option)
    outs = mp.generate(paged, [PROMPTS[0], PROMPTS[1] * 3], CONFIGS[0])
    return errors, outs


def draw_without_seed(folder, each_for_itself):
    """Random tokens; the dice of each rank have another state."""
    paged = wrap(folder)
    if each_for_itself:
        paged.ranks = None
    torch.manual_seed(dist.get_rank())
    random = config(9, do_sample=True, min_new_tokens=9)
    return [out.sequences for out in mp.generate(paged, PROMPTS, random)]


def with_heads_exchanged(folder):
    """Each rank has its queries, but keys and values of the other rank's heads."""
    model = mp.load(folder, tp="auto")[0]
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if ".k_proj" in name or ".v_proj" in name:
                mine = weight.to_local()
                all_of_them = [torch.empty_like(mine) for _ in range(2)]
                dist.all_gather(all_of_them, mine)
                mine.copy_(all_of_them[1 - dist.get_rank()])
    paged = mp.PagedModel(model, 96, 4)
    return mp.generate(paged, PROMPTS[:4], config(9))


def pocket(generation_config, draft):
    """The shipped model, whose embeddings are tied; rank 0 may guess by a draft."""
    model, tokenizer = mp.load("pocket", tp="auto")
    paged = mp.PagedModel(model, 64)
    small = mp.PagedModel(mp.load("pocket-draft")[0], 64)
    speculation = mp.DraftModel(small) if draft else None
    prompts = tokenizer(["The capital of France is", "Once upon a time"]).input_ids
    return mp.generate(paged, prompts, generation_config, speculation=speculation)


def write_to_a_shard(folder, by_data):
    """Rank 1 changes a number of its share: what all ranks are told."""
    paged = mp.PagedModel(mp.load(folder, tp="auto")[0], 96, 4)
    before = mp.generate(paged, PROMPTS[:1], config(3))
    weight = paged.model.model.layers[1].mlp.up_proj.weight.to_local()
    if dist.get_rank() == 1:
        with torch.no_grad():
            (weight.data if by_data else weight)[0, 0] += 1
    try:
        mp.generate(paged, PROMPTS[:1], config(3))
    except ValueError as error:
        return before, str(error)


def lack_files(folder):
    """The second time, rank 1 does not find the folder."""
    load(folder)
    mp.load(folder + "?" * dist.get_rank(), tp="auto")


def run_other_lines(folder):
    """Rank 0 generates while the others make an engine's step."""
    paged = wrap(folder)
    if dist.get_rank():
        mp.Engine(paged).step()
    mp.generate(paged, PROMPTS)


def go_on_and_on(folder, timeout=60, fails=False, hangs=False):
    """Until it fails; rank 1 may fail in a forward, or hang where it is asked."""
    paged = wrap(folder)
    paged.ranks.lifeline.timeout = timeout
    if fails and dist.get_rank() == 1:
        paged.attention = _fails
    if hangs and dist.get_rank() == 1:
        paged.refuse_changes = lambda: time.sleep(SECONDS)
    print(BEGUN, flush=True)
    while True:
        mp.generate(paged, PROMPTS, config(40))


def _fails(*arguments):
    raise ZeroDivisionError("a fault of one rank")


def load_and_load(folder):
    """Until it fails."""
    load(folder)
    print(BEGUN, flush=True)
    while True:
        mp.load(folder, tp="auto")


def load_with_patience(folder, seconds):
    """As if ranks had to come within so many seconds."""
    parallel.PATIENCE = seconds
    load(folder)


def answer_on_gpus(name, run):
    """An engine's answers; and do the GPUs share memory?"""
    torch.backends.cuda.matmul.allow_tf32 = False
    paged = mp.PagedModel(load(name), 256, attention="triton")
    with mp.Engine(paged, run=run, max_sequences=16, max_tokens=64) as engine:
        for seed, (prompt, own) in enumerate(zip(PROMPTS, CONFIGS, strict=True)):
            engine.add(prompt, own, seed=seed)
        outs = engine.run()
        for prompt in PROMPTS:
            engine.add(prompt, config(9))
        outs += engine.run()
    return outs, ranks_memory(paged.device) is not None


def gather(num_rows, num_placed):
    """Do both ranks' numbers lie side by side? And is the given place where they lie?

    num_placed: rows of that place; None: there is no place.
    """
    ranks = parallel.connect()
    numbers = torch.arange(2 * num_rows * 3.0).reshape(2, 1, num_rows, 3)
    place = None if num_placed is None else torch.full((num_placed, 6), torch.nan)
    found = gather_from_ranks(numbers[ranks.rank], place)
    is_placed = place is not None and found.data_ptr() == place.data_ptr()
    return torch.equal(found, torch.cat([*numbers], dim=-1)), is_placed


def sum_on_gpus(number=300, seed=0):
    """Sums that differ from NCCL's, and how many there were.

    Values are small whole numbers, so they are exact in every type. Half of the sums
    are in a graph, which is replayed among the others.
    """
    parallel.connect()
    device = torch.device("cuda", torch.cuda.current_device())
    memory = ranks_memory(device)
    dice, draw = Random(seed), torch.Generator(device).manual_seed(dist.get_rank())
    most = memory.most_bytes
    types = torch.bfloat16, torch.float16, torch.float32

    def numbers(size, dtype):
        x = torch.randint(-8, 9, (size,), device=device, generator=draw)
        return x.to(dtype)

    captured = [numbers(dice.randrange(1, 9000), types[n % 3]) for n in range(21)]
    graph = torch.cuda.CUDAGraph()
    memory.sum(captured[0])
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        results = [memory.sum(x) for x in captured]
    differ, count = [], 0
    for at in range(number):
        dtype = types[at % 3]
        size = 1 + int(most / dtype.itemsize * dice.random() ** 6)
        x = numbers(min(size, most // dtype.itemsize), dtype)
        pairs = [(x, memory.sum(x))]
        if at % 3 == 0:
            for each in captured:
                each.copy_(numbers(len(each), each.dtype))
            graph.replay()
            pairs += zip(captured, [x.clone() for x in results], strict=True)
        for given, ours in pairs:
            right = given.clone()
            dist.all_reduce(right)
            count += 1
            if not torch.equal(ours, right):
                differ.append((str(given.dtype), len(given)))
    return differ, count


def serve_on_gpus_on_and_on(folder, run):
    """Until it fails."""
    paged = mp.PagedModel(load(folder), 256, attention="triton")
    with mp.Engine(paged, run=run, max_sequences=16, max_tokens=64) as engine:
        print(BEGUN, flush=True)
        while True:
            for prompt in PROMPTS:
                engine.add(prompt, config(40))
            engine.run()
