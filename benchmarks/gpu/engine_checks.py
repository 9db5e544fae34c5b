"""Before an engine is timed: on this GPU, in every way to run, its tokens are right.

    PYTHONPATH=tests python -m benchmarks.gpu.engine_checks

In float32, without TF32: so tokens must equal those of HuggingFace, number for number.
In bfloat16 nothing equals anything: there, logits are as far from float32 as are those
of HuggingFace's own attention backends from each other.
"""

import argparse
import gc
import random
import time
from collections.abc import Callable
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from triton import knobs

import minipaged as mp
from benchmarks.gpu.shapes import qwen3_06b
from helpers.answers import huggingface_outputs
from helpers.serving import (
    ALWAYS_THE_LIKELIEST,
    CONFIGS,
    KINDS,
    NEVER,
    PROMPTS,
    Simulated,
    add_all,
    check,
    check_idle,
    config,
    expected,
    make,
)
from helpers.tiny_models import tiny_model

RUNS = ("eager", "graphs", "compiled")
STOPS = GenerationConfig(max_new_tokens=40, pad_token_id=0, eos_token_id=[5, 9, 11, 30])


def engine_of(run: str, **options) -> mp.Engine:
    """Over the tiny model, whose blocks hold NaN until they are written."""
    return make(attention="triton", run=run, **options)


def all_kinds(run: str) -> None:
    """Greedy, sampled, n samples, beams, penalties: together, where blocks run out."""
    for preemption, cache in (("recompute", False), ("swap", True)):
        engine = engine_of(run, num_blocks=24, cache=cache, preemption=preemption)
        add_all(engine)
        check(engine.run())
        assert engine.stats.num_preemptions
        check_idle(engine)
        engine.close()


def greedy_that_stop(run: str) -> None:
    """Some end by an eos, some by their length; all run one step ahead."""
    theirs = huggingface_outputs(tiny_model("qwen3"), PROMPTS, STOPS)
    for num_blocks in (400, 40):
        engine = engine_of(run, num_blocks=num_blocks, max_tokens=64)
        for _ in range(4):
            for prompt in PROMPTS:
                engine.add(prompt, STOPS)
        check(engine.run(), theirs * 4)
        check_idle(engine)
        engine.close()
    lengths = [len(one.sequences[0]) for one in theirs]
    assert min(lengths) < max(lengths) == 40


def arrivals_and_aborts(run: str) -> None:
    """They come and go in the middle; whoever is aborted has said the right thing."""
    draw, theirs = (
        random.Random(3),
        huggingface_outputs(tiny_model("qwen3"), PROMPTS, KINDS[0]),
    )
    engine = engine_of(run, num_blocks=60, cache=True, clock=Simulated())
    streams = []
    for number in range(60):
        own = number % len(PROMPTS)
        arrival = draw.random() * 200
        streams.append((engine.add(PROMPTS[own], KINDS[0], arrival=arrival), own))
    while engine.step():
        if draw.random() < 0.1 and engine.streams:
            engine.abort(draw.choice(list(engine.streams.values())))
    for stream, own in streams:
        right = theirs[own].sequences[0]
        if stream.output.finish_reason == "aborted":
            assert stream.tokens == right[: len(stream.tokens)]
        else:
            assert stream.output.sequences == [right]
    check_idle(engine)
    engine.close()


def interrupted(run: str) -> None:
    """Ctrl-C at random steps: all start again, nobody's text changes."""

    class Breaks(mp.Observer):
        draw = random.Random(5)
        count = 0

        def tell(self, *_):
            if self.count < 25 and self.draw.random() < 0.1:
                self.count += 1
                raise self.draw.choice([KeyboardInterrupt, RuntimeError])

        planned = computed = chosen = published = freed = tell

    breaks = Breaks()
    engine = engine_of(run, num_blocks=40, cache=True, observers=[breaks])
    add_all(engine)
    outputs = list(engine.streams.values())
    while engine.streams:
        try:
            engine.step()
        except (KeyboardInterrupt, RuntimeError):
            assert not engine.scheduler.running
    check([stream.output for stream in outputs])
    assert breaks.count == 25
    check_idle(engine)
    engine.close()


def sampled_as_often(run: str) -> None:
    """Without a seed the GPU draws by itself: as often as the probabilities say."""
    model = tiny_model("qwen3")
    engine = engine_of(run, num_blocks=4000, max_sequences=256, max_tokens=4096)
    sampled = config(1, do_sample=True, temperature=1.0, top_k=0)
    counts = torch.zeros(model.config.vocab_size)
    for _ in range(16):
        for _ in range(256):
            engine.add([7, 8, 9], sampled)
        for out in engine.run():
            counts[out.sequences[0][0]] += 1
    engine.close()
    logits = model(torch.tensor([[7, 8, 9]], device=model.device)).logits[0, -1]
    p = torch.softmax(logits.float(), 0).cpu()
    n = counts.sum()
    often = p * n > 5
    score = ((counts - n * p)[often] ** 2 / (n * p)[often]).sum() / often.sum()
    assert score < 1.6, f"chi-square per degree: {score:.2f}"


def only_what_is_allowed(run: str) -> None:
    """Options are mixed: each row is drawn by its own, whatever its neighbours ask."""
    model = tiny_model("qwen3")
    greedy = huggingface_outputs(model, PROMPTS, config(12))
    engine = engine_of(run, num_blocks=4000, max_sequences=256, max_tokens=4096)
    three = config(1, do_sample=True, temperature=50.0, top_k=3)
    half = config(1, do_sample=True, temperature=50.0, top_k=0, top_p=0.5)
    right, told, few, many = [], [], [], []
    for number in range(160):
        prompt = number % len(PROMPTS)
        own = ALWAYS_THE_LIKELIEST[number % len(ALWAYS_THE_LIKELIEST)]
        told.append(engine.add(PROMPTS[prompt], config(12, do_sample=True, **own)))
        right.append(greedy[prompt].sequences[0])
        few.append(engine.add([7, 8, 9], three))
        many.append(engine.add([7, 8, 9], half))
    engine.run()
    assert [stream.tokens for stream in told] == right
    logits = model(torch.tensor([[7, 8, 9]], device=model.device)).logits[0, -1]
    highest = logits.argsort(descending=True).tolist()
    assert {stream.tokens[0] for stream in few} == {*highest[:3]}
    # At this temperature all are nearly as likely: a half of them is allowed.
    drawn = {stream.tokens[0] for stream in many}
    assert len(drawn) > 20 and drawn <= {*highest[: len(highest) * 3 // 5]}
    check_idle(engine)
    engine.close()


def leaks(run: str, count: int = 4_000) -> None:
    """So many requests of 8 + 8 tokens through one engine: no block, no memory."""
    paged = mp.PagedModel(tiny_model("qwen3"), 2048, 4, "triton")
    engine = mp.Engine(paged, max_tokens=4096, run=run)
    eight = config(8)
    sizes = []
    for _ in range(4):
        for number in range(count // 4):
            engine.add([3 + number % 90, *range(9, 16)], eight)
        engine.run()
        gc.collect()
        torch.cuda.synchronize()
        sizes.append(torch.cuda.memory_allocated())
    check_idle(engine)
    assert len(set(sizes[1:])) == 1, sizes
    before = torch.cuda.memory_reserved()
    engine.close()
    torch.cuda.empty_cache()
    assert run == "eager" or torch.cuda.memory_reserved() < before


def kinds_of_batches() -> dict[str, list[tuple[list[int], GenerationConfig]]]:
    """Requests that come together: prompts, configs; by what is special in them."""
    draw = random.Random(8)

    def prompt(length: int) -> list[int]:
        return [draw.randrange(3, 90) for _ in range(length)]

    def sampled(**options: float) -> GenerationConfig:
        return config(6, do_sample=True, **options)

    common = prompt(150)
    return {
        "alone": [(prompt(20), config(6))],
        "a short one": [(prompt(1), config(3))],
        "many, even": [(prompt(30), config(9)) for _ in range(64)],
        "many, uneven": [(prompt(3 + n), config(2 + n % 9)) for n in range(60)],
        "a long prompt": [(prompt(240), config(4))],
        "many long prompts": [(prompt(230), config(3)) for _ in range(16)],
        "few and long": [(prompt(230), config(12)) for _ in range(3)],
        "long beside short": [(prompt(9), config(30)) for _ in range(40)]
        + [(prompt(240), config(4))],
        "a shared prefix": [(common + prompt(9 + n), config(6)) for n in range(20)],
        "the same again": [(common + prompt(2), config(6)) for _ in range(3)],
        "all of it cached": [(common, config(6)) for _ in range(3)],
        "n samples": [(prompt(33), sampled(num_return_sequences=4))] * 3,
        "beams": [(prompt(31), config(8, num_beams=4))] * 2,
        "samplers": [
            (prompt(12), sampled(temperature=0.7, top_k=20)),
            (prompt(12), sampled(top_p=0.9, top_k=0)),
            (prompt(12), sampled(min_p=0.1)),
            (prompt(12), sampled(typical_p=0.8)),
        ],
        "penalties": [(prompt(12), config(6, repetition_penalty=1.3))] * 2,
    }


def nothing_is_compiled_late(run: str) -> None:
    """Whatever kind of batch comes: its kernels were compiled at the start.

    Not yet for logprobs of prompts: their steps run eagerly, with narrower tables, for
    which kernels may be compiled anew.
    """
    if run == "eager":  # which compiles a kernel when it is launched
        return
    compiled: list[str] = []

    def note(*, fn: Any, already_compiled: bool = False, **_more: Any) -> None:
        if not already_compiled:
            compiled.append(fn.name)

    paged = mp.PagedModel(tiny_model("qwen3"), 900, 16, "triton")
    prefix = mp.PrefixCache(paged.pool)
    options = {"preemption": "swap", "max_tokens": 4096, "run": run}
    engine = mp.Engine(paged, prefix, **options)
    before = knobs.runtime.jit_post_compile_hook
    knobs.runtime.jit_post_compile_hook = note
    try:
        for kind, requests in kinds_of_batches().items():
            for options in ({}, {"seed": 3}, {"logprobs": 2}):
                for prompt, own in requests:
                    engine.add(prompt, own, **options)
                engine.run()
                assert not compiled, f"{kind}, {options}: {compiled}"
    finally:
        knobs.runtime.jit_post_compile_hook = before
    check_idle(engine)
    engine.close()


def auto_blocks(run: str) -> None:
    """As many blocks as there is room for, and the largest steps run beside them."""
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(qwen3_06b(), dtype=torch.bfloat16)
    paged = mp.PagedModel(model.eval(), "auto", attention="triton")
    left, total = torch.cuda.mem_get_info()
    assert 0.05 * total < left < 0.2 * total, f"{left / 1e9:.1f} GB are left"
    engine = mp.Engine(paged, max_tokens=8192, run=run)
    for _ in range(24):
        engine.add([7] * 8192, config(2))
    assert len(engine.run()) == 24
    engine.close()
    print(f"  {paged.pool.num_blocks:,} blocks", end=" ")
    del engine, paged, model
    gc.collect()
    torch.cuda.empty_cache()


def several_layers() -> Qwen3Config:
    """A small model whose heads are as many and as large as those of models in use."""
    return Qwen3Config(
        vocab_size=4096, hidden_size=512, intermediate_size=1024, num_hidden_layers=4,
        num_attention_heads=16, num_key_value_heads=8, head_dim=64,
        max_position_embeddings=4096,
    )  # fmt: skip


def bfloat16(run: str) -> None:
    """A decode step's logits: as near to float32 as HuggingFace's own backends."""
    shape = several_layers()
    torch.manual_seed(0)
    exact = Qwen3ForCausalLM(shape).cuda().eval()
    half = Qwen3ForCausalLM(shape).cuda().eval()
    half.load_state_dict(exact.state_dict())
    half.bfloat16()
    seen = []

    class Sees(mp.Observer):
        def computed(self, batch, logits):
            if len(batch.tokens) == len(logits) == 3:
                seen.append(logits.clone())

    engine = mp.Engine(
        mp.PagedModel(half, 512, 16, "triton"), run=run, observers=[Sees()]
    )
    prompts = [[(7 * i + n) % 4096 for i in range(n)] for n in (30, 333, 1500)]
    streams = [engine.add(prompt, config(2)) for prompt in prompts]
    engine.run()
    texts = [p + s.tokens[:1] for p, s in zip(prompts, streams, strict=True)]
    engine.close()

    def error(of: Callable) -> float:
        gaps = [
            ((of(row, text).float() - exact(text).logits[0, -1]).norm())
            / exact(text).logits[0, -1].norm()
            for row, text in enumerate(
                torch.tensor([own], device="cuda") for own in texts
            )
        ]
        return max(gap.item() for gap in gaps)

    with torch.inference_mode():
        ours, theirs = error(lambda row, _: seen[0][row]), {}
        for name in ("eager", "sdpa"):
            half.set_attn_implementation(name)
            theirs[name] = error(lambda _, text: half(text).logits[0, -1])
    print(f"  bfloat16, relative error of logits: ours {ours:.4f}, HuggingFace's "
          + ", ".join(f"{name} {own:.4f}" for name, own in theirs.items()))  # fmt: skip
    assert ours <= 1.2 * max(theirs.values())


CHECKS = (
    all_kinds,
    greedy_that_stop,
    arrivals_and_aborts,
    interrupted,
    sampled_as_often,
    only_what_is_allowed,
    leaks,
    nothing_is_compiled_late,
    auto_blocks,
    bfloat16,
)


def main() -> None:
    """Run all; the first that fails ends it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", nargs="+", default=RUNS)
    parser.add_argument("--leaks", type=int, help="requests in a run of their own")
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    tiny_model("qwen3").to("cuda")  # the same object for all
    assert NEVER and len(CONFIGS) == len(expected())
    for run in arguments.runs:
        for each in CHECKS:
            start = time.perf_counter()
            each(run)
            seconds = time.perf_counter() - start
            print(f"{run}: {each.__name__} {seconds:.1f} s", flush=True)
    if arguments.leaks:
        start = time.perf_counter()
        leaks(arguments.runs[0], arguments.leaks)
        seconds = time.perf_counter() - start
        print(f"{arguments.leaks:,} requests leak nothing: {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
