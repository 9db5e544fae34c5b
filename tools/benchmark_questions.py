"""The questions of benchmarks/README.md: on a CPU, then on a GPU."""

from statistics import geometric_mean, median

from minipaged.simulate.fit import fitted_server
from minipaged.simulate.validation import beside, read_validations
from tools.benchmark_tables import (
    ROOT,
    Question,
    anchor,
    number,
    path_of,
    picture,
    share,
    stored,
    text_of,
)

HEAD = """\
# Measured

Our figures, beside those of what a user would take instead. Each question has a table \
of its own, made by `python -m tools.benchmark_page` from what the benchmarks have \
stored: a figure that is not stored is not here. Timings are never assertions of tests.

Two machines are the reference: two cores of an AMD EPYC, and one NVIDIA H200. Where a \
question was answered on another one, the line above its table says so. Compare only \
figures of the same table. [Hosts, other GPUs and earlier versions](HISTORY.md) have a \
page of their own.

`make bench` runs what needs no GPU, except the families and the \
replicas, which need Ray (`make test-ray` first), and prints; \
`make bench BENCH_FLAGS=--save` stores; `make bench-one NAME=step` runs one. \
[How to add one](../CONTRIBUTING.md#a-measurement).
"""
KERNELS = (
    "Bars of GB/s for nine batches, from one sequence of 1,024 tokens to 256 ragged "
    "ones. For large caches, this package's paged kernel, cuDNN on contiguous K and V, "
    "FlashInfer and FlashAttention-3 all come close to the line of reading alone, "
    "4,590 GB/s."
)


def page() -> str:
    """The whole text."""
    cpu = [question() for question in ON_A_CPU]
    gpu = [question() for question in ON_A_GPU]
    parts = [HEAD.strip(), contents("On a CPU:", cpu), contents("On a GPU:", gpu)]
    parts += ["## On a CPU", *map(text_of, cpu), "## On a GPU", *map(text_of, gpu)]
    return "\n\n".join([*parts, PAPER]) + "\n"


def contents(where: str, questions: list[Question]) -> str:
    """Links to questions."""
    names = [question.asked for question in questions]
    return "\n".join([where, "", *(f"- [{name}](#{anchor(name)})" for name in names)])


REPLICAS = stored("replicas-cpu")["ratios"]
PAPER = f"""\
## Simulated

[paper-figures](../{path_of("paper-figures")}) holds the paper's figures 12 to 18b, as \
`make figures-paper` has computed them. It is a simulation in jumping time, and its \
machine and date are not stored. \
[Appendix F](../notebooks/F_the_papers_evaluation.ipynb) shows them beside the \
paper's claims.

[replicas-cpu](../{path_of("replicas-cpu")}) holds the two live replicas above beside \
their simulation, by `python -m benchmarks.cpu.replicas_simulated`. By prefix over in \
turns, tokens found: live {number(REPLICAS["hit_rate"]["live"])}, simulated \
{number(REPLICAS["hit_rate"]["simulated"])}; mean time to the first token: live \
{number(REPLICAS["ttft"]["live"])}, simulated {number(REPLICAS["ttft"]["simulated"])}. \
[Appendix H](../notebooks/H_many_gpus.ipynb) tells more."""


def generation() -> Question:
    report = stored("cpu-generate")
    rows = [
        (
            each["case"],
            each["minipaged_tokens_per_second"],
            each["huggingface_tokens_per_second"],
            each["ratio"],
        )
        for each in report["results"]
    ]
    return Question(
        "How many tokens a second does `mp.generate` make, beside HuggingFace?",
        ("cpu-generate",),
        "make bench-one NAME=generate",
        ("the pocket model, float32", "minipaged", "HuggingFace", "ratio"),
        rows,
        "HuggingFace gets the prompts as one padded batch. Where answers have many "
        "lengths, it computes padding, and we do not. A single prompt gains little.",
        f"; {report['threads']} threads",
    )


def batching() -> Question:
    report = stored("cpu-engine")
    speeds = report["throughput"]["tokens_per_second"]
    latency = report["latency"]["at_static_capacity"]
    names = {
        "minipaged": "our engine",
        "continuous": "HuggingFace's continuous batching",
    }
    rows = [
        (
            names.get(
                way, f"HuggingFace `generate`, {way.replace('static', 'batches of')}"
            ),
            speed,
        )
        for way, speed in speeds.items()
    ]
    return Question(
        "How many tokens a second does the engine make, beside static batches?",
        ("cpu-engine",),
        "make bench-one NAME=engine",
        ("64 requests of ShareGPT-like lengths, all there at once", "tokens a second"),
        rows,
        f"The engine brings {number(report['throughput']['ratio_to_best_static'])} "
        "times as many as the best static batch. If requests come at 80 % of what "
        f"static batches can serve, a token takes {number(latency['minipaged_ms'])} "
        f"ms in the mean, and {number(latency['static_ms'])} ms with static batches. "
        "An earlier version, in which a step did more beside the forward.",
        f"; {report['threads']} threads",
    )


def capstone() -> Question:
    report = stored("cpu-capstone")
    gaps = report["gaps_of_unlike_answers"]["tiny_vllm.py"]
    closest = (
        "; where another one leaves it, the logits of the two tokens are at most "
        f"{1e6 * max(gaps):.0f} millionths apart"
        if gaps
        else ""
    )
    names = {
        "tiny_vllm.py": "[tiny_vllm.py](../notebooks/tiny_vllm.py)",
        "minipaged": "minipaged",
        "generate": "HuggingFace `generate`, batches of 16",
    }
    rows = [
        (said, report["tokens_per_second"][way], f"{report['lone_ms'][way]:.2f}")
        for way, said in names.items()
    ]
    return Question(
        "How fast is the capstone's file?",
        ("cpu-capstone",),
        "make bench-one NAME=capstone",
        (
            "64 requests of ShareGPT-like lengths, all there at once",
            "tokens a second",
            "a lone request, ms a token",
        ),
        rows,
        f"The file makes {number(report['ratio_to_minipaged'])} of minipaged's tokens. "
        f"Of its answers, {report['requests'] - len(gaps)} are those that `generate` "
        f"gives to a prompt alone{closest}. It runs one model, and keeps no promises "
        "about changed weights, windows, beams or logprobs.",
        "; 1 thread",
    )


def scarce() -> Question:
    report = stored("cpu-engine")["scarce"]
    rows = [
        (
            way,
            f"{report[way]['equal']} of {report[way]['requests']}",
            report[way]["preemptions"],
            report[way]["recomputed_tokens"],
            report[way]["times_as_long"],
        )
        for way in ("recompute", "swap")
    ]
    return Question(
        "What if there are only a quarter of the blocks?",
        ("cpu-engine",),
        "make bench-one NAME=engine",
        (
            "the same 64 requests",
            "equal",
            "preemptions",
            "computed again",
            "times as long",
        ),
        rows,
        f"In {report['blocks']} of {report['of']} blocks, requests are preempted, and "
        "every answer stays HuggingFace's.",
    )


def server() -> Question:
    report = stored("cpu-server")
    waits = report["time_to_first_token_ms_p50"]
    names = {
        "bare": "`Engine.step`, without HTTP",
        "coroutines": "`async for`, without HTTP",
        "server": "our server, streams over HTTP",
    }
    rows = [
        (said, report["tokens_per_second"][way], waits[way])
        for way, said in names.items()
    ]
    return Question(
        "What does HTTP cost?",
        ("cpu-server",),
        "make bench-one NAME=server",
        (f"{report['clients']} clients", "tokens a second", "first token, ms (median)"),
        rows,
        f"The server makes {number(report['served_over_bare'])} of the bare engine's "
        "tokens; its engine has a process of its own. A request waits longer for its "
        "first token, because it may come in the middle of a step: HTTP itself adds "
        f"{number(report['added_ms_p50']['coroutines'])} ms.",
        f"; {report['machine']['threads']} thread of torch",
    )


def front() -> Question:
    report = stored("cpu-front")
    found = report["median"]
    return Question(
        "How many tokens a second can the server's front send?",
        ("cpu-front",),
        "make bench-one NAME=front",
        (
            f"{report['clients']} clients",
            "tokens a second",
            "events a token",
            "an event, µs of the front's processor time",
        ),
        [
            (
                f"an engine that makes {report['tokens_per_second_at_most']:,}",
                found["tokens_per_second"],
                found["events_per_token"],
                found["us_per_event"],
            )
        ],
        "In the engine's place, a process gives each answer a random token a step, and "
        "computes nothing. If the front is behind, an event has several tokens. The "
        "rounds count from the first request to the last event.",
        f"; medians of {len(report['rounds'])} rounds; load before: "
        f"{report['load_before']}",
    )


def replicas() -> Question:
    report = stored("cpu-replicas")
    names = {"round-robin": "in turns", "prefix": "where the prefix is"}
    rows = []
    for router, said in names.items():
        found = report["routers"][router]
        waits = found["ttft_ms"]
        rows.append(
            (
                said,
                share(found["hit_rate"], ".1%"),
                waits["mean"],
                waits["p50"],
                waits["p99"],
                found["balance_of_requests"],
                found["balance_of_computed_tokens"],
            )
        )
    trace, wrong = report["trace"], [row["wrong"] for row in report["routers"].values()]
    rounds = len(report["routers"]["prefix"]["rounds"])
    return Question(
        "What does it bring that replicas are chosen by prefix?",
        ("cpu-replicas",),
        "make bench-one VENV=.venv-ray NAME=replicas",
        (
            "a request goes",
            "tokens found",
            "first token, ms (mean)",
            "median",
            "slowest 1 %",
            "requests, most over mean",
            "computed tokens, most over mean",
        ),
        rows,
        f"Two live replicas on Ray Serve, {report['requests']} prompts of "
        f"{report['prompt_tokens_mean']} tokens in the mean, from {trace['count']} "
        f"conversations under {trace['systems']} system prompts of "
        f"{trace['system_tokens']} tokens; a pool of {report['num_blocks']} blocks of "
        f"{report['block_size']} each. With the prefix, "
        f"{number(report['hit_rate_ratio'])} times as many tokens are found, and the "
        f"first token comes after {number(report['ttft_mean_ratio'])} of the time. No "
        f"cache could find more than {share(report['repeated'], '.1%')}. With larger "
        f"pools, the simulator says, the difference is smaller. {sum(wrong)} of all "
        "answers differ from `generate`'s.",
        f"; load before: {report['load_before']}; medians of {rounds} rounds",
    )


def watching() -> Question:
    report = stored("cpu-pool-page")
    row = (
        report["clients"],
        report["step_ms"],
        report["watching_us_of_step"],
        report["watching_us_of_message"],
        share(report["share_of_cpu"], ".1%"),
    )
    return Question(
        "What does `/pool` cost while somebody watches it?",
        ("cpu-pool-page",),
        "make bench-one NAME=pool_page",
        ("clients", "a step, ms", "of it watching, µs", "a message, µs", "of the CPU"),
        [row],
        "Ten messages a second are sent. While nobody watches, nothing is kept.",
        f"; other programs ran (load {report['load_before']})",
    )


def prefix() -> Question:
    report = stored("cpu-prefix")
    first, books = report["first_token"], report["bookkeeping"]
    rows = [
        ("with the prefix cache", 1e3 * first["with_cache_seconds"]),
        ("without", 1e3 * first["without_seconds"]),
    ]
    return Question(
        "How much sooner does an answer begin if its prompt is cached?",
        ("cpu-prefix",),
        "make bench-one NAME=prefix",
        (
            f"a prompt of 1,000 tokens, {first['tokens_found']} of them found",
            "first token, ms",
        ),
        rows,
        f"{number(first['times_sooner'])} times sooner. For a prompt that nobody has "
        f"sent before, looking and publishing take {books['percent_of_prefill']} % of "
        "the prefill.",
        f"; {report['threads']} threads",
    )


def beams() -> Question:
    report = stored("cpu-beams")
    speed, grid = report["speed"], report["grid"]
    rows = [
        (who, speed[f"{key}_seconds"], speed[f"{key}_kv_bytes"] / 1e6)
        for who, key in (("minipaged", "minipaged"), ("HuggingFace", "huggingface"))
    ]
    return Question(
        "What do beams that share blocks save?",
        ("cpu-beams",),
        "make bench-one NAME=beams",
        ("4 beams, a prompt of 256, 64 new tokens", "seconds", "K and V, MB"),
        rows,
        f"They take {number(speed['memory_ratio'])} of the memory. In a grid of "
        f"options, {grid['equal']:,} of {grid['prompts']:,} answers are "
        "HuggingFace's, with their scores.",
        f"; {report['threads']} threads",
    )


def streamed() -> Question:
    report = stored("cpu-streamed")
    rows = [
        (
            case,
            *(
                report["times"][threads][case][f"{way}_milliseconds"]
                for threads in ("1 thread", "2 threads")
                for way in ("gathered", "online")
            ),
        )
        for case in report["times"]["1 thread"]
    ]
    peaks = {
        way: report["peak_extra_bytes"][way]["4096"] / 1e6
        for way in ("gathered", "online")
    }
    return Question(
        "Is attention that streams over blocks slower than a copy of them?",
        ("cpu-streamed",),
        "make bench-one NAME=streamed",
        (
            "attention of a layer, ms",
            "gathered, 1 thread",
            "streamed",
            "gathered, 2 threads",
            "streamed",
        ),
        rows,
        "For many sequences that decode, it is as fast; for one, and for prompts, it "
        "is slower. Beside the cache, 32 sequences of 4,096 tokens need "
        f"{number(peaks['online'])} MB, as 256 tokens do; gathered, "
        f"{number(peaks['gathered'])} MB.",
    )


def guesses() -> Question:
    results = stored("cpu-speculation")["results"]
    names = {
        "plain": "without guesses",
        "PromptLookup()": "`PromptLookup()`",
        "PromptLookup(10, 2)": "`PromptLookup(10, 2)`, as HuggingFace guesses",
        "DraftModel": "`DraftModel` with pocket-draft",
        "HuggingFace": "HuggingFace, without guesses",
        "HuggingFace, prompt_lookup_num_tokens=10": "HuggingFace, prompt lookup",
    }
    rows = [
        (
            said,
            *(results[kind][way]["tokens_per_cpu_second"] for kind in results),
            *(results[kind][way]["texts_equal_to_plain"] for kind in results),
        )
        for way, said in names.items()
    ]
    exact = stored("cpu-speculation-exact")
    return Question(
        "What do guesses bring, and do they change a text?",
        ("cpu-speculation", "cpu-speculation-exact"),
        "make bench-one NAME=speculation",
        (
            "tokens of a CPU second",
            "texts that repeat",
            "others",
            "equal, of 20",
            "of 20",
        ),
        rows,
        "Prompt lookup pays where texts repeat, the draft model in both. In one "
        "other text, two logits are nearly equal, and a step of several tokens takes "
        "the other token; HuggingFace's lookup differs in one text, too. Over "
        f"{len(exact['families'])} models, {exact['compared']:,} texts with guesses "
        f"were compared with `generate`: {exact['differ']} differ. "
        f"{exact['cut_at_a_tie']} of them were compared up to a tie of its scores.",
        "; 1 thread",
    )


def families() -> Question:
    counts = stored("cpu-families")["counts"]
    names = {
        "equal": "equal to `generate`",
        "refused": "refused, with the cause",
        "not built": "a tiny model could not be built",
        "WRONG": "accepted, and wrong",
    }
    return Question(
        "Which models give HuggingFace's text?",
        ("cpu-families",),
        "make bench-one NAME=families",
        (f"of {sum(counts.values())} families of causal models", "families"),
        [(said, counts[verdict]) for verdict, said in names.items()],
        "Tiny models with random weights: greedy, sampled, with beams, from a cache, "
        "in chunks. Of some families, only a variant is equal; the file names it.",
    )


def memory() -> Question:
    report = stored("cpu-memory")
    times = report["allocate_and_release_microseconds"]
    return Question(
        "Does the pool slow down as it grows?",
        ("cpu-memory",),
        "make bench-one NAME=memory",
        ("blocks in the pool", "a block handed out and taken back, µs"),
        [(f"{int(blocks):,}", time) for blocks, time in times.items()],
        "No.",
    )


def clicks() -> Question:
    report = stored("widget-clicks")
    rows = [
        (f"{pool['blocks']:,}", pool["median_ms"], pool["slowest_ms"])
        for pool in report["pools"]
    ]
    return Question(
        "How long does a click in the pool's widget take?",
        ("widget-clicks",),
        "make bench-one NAME=widget_clicks",
        ("blocks in the pool", "median, ms", "slowest, ms"),
        rows,
        "Until the page has changed.",
        f"; {report['browser'].split(' built')[0]}, headless",
    )


ON_A_CPU = (
    generation,
    batching,
    capstone,
    scarce,
    server,
    front,
    replicas,
    watching,
    prefix,
    beams,
    streamed,
    guesses,
    families,
    memory,
    clicks,
)
PEERS = {
    "flashinfer": "FlashInfer",
    "vllm_flash_attention": "FlashAttention-3",
    "vllm_triton": "vLLM's Triton kernel",
}
SHAPE = "32 query heads, 8 KV heads, 128"


def decode() -> Question:
    report = stored("kernels-nvidia-h200")
    ceiling = report["ceilings"]["read_gb_per_s"]
    rows = [
        (
            batch,
            row["paged"],
            row["gb_per_s"],
            *(row["peers"][peer] for peer in PEERS),
            row["cudnn_contiguous"] or "",
        )
        for batch, row in report["decode"][SHAPE].items()
    ]
    cell = report["decode"][SHAPE]["64x4k"]
    return Question(
        "How fast does lesson 6's kernel decode, beside others?",
        ("kernels-nvidia-h200",),
        "python -m benchmarks.gpu.kernels",
        ("µs of a layer", "ours", "GB/s", *PEERS.values(), "cuDNN, contiguous"),
        rows,
        "For 64 sequences of 4,096 tokens it reaches "
        f"{share(cell['gb_per_s'] / ceiling)} of what reading alone gives, {ceiling:,} "
        "GB/s. `64x4k`: 64 sequences of 4,096 tokens. "
        f"{SHAPE.replace(', 128', ' of 128 numbers')}, bfloat16, blocks of 16, "
        "shuffled.",
        f"; FlashInfer {report['peers']['flashinfer']}, vLLM {report['peers']['vllm']}",
        picture("kernels", KERNELS),
    )


def decode_over_peers() -> Question:
    report = stored("kernels-nvidia-h200")
    rows = []
    for part, said in (
        ("decode", "9 batches in 4 shapes of heads"),
        ("decode_other_cells", "5 other batches in the same shapes"),
    ):
        cells = [row for batch in report[part].values() for row in batch.values()]
        for peer, name in PEERS.items():
            ratios = [row["paged"] / row["peers"][peer] for row in cells]
            rows.append((said, name, min(ratios), median(ratios), max(ratios)))
        ratios = [
            row["paged"] / row["cudnn_contiguous"]
            for row in cells
            if row["cudnn_contiguous"]
        ]
        rows.append(
            (said, "cuDNN, contiguous", min(ratios), median(ratios), max(ratios))
        )
    return Question(
        "And over many batches: our time divided by theirs?",
        ("kernels-nvidia-h200",),
        "python -m benchmarks.gpu.kernels",
        ("", "beside", "least", "median", "most"),
        rows,
        "Below 1 we are faster. The rule that chooses our kernel's sizes was first "
        "made from the nine batches, not from the five.",
    )


def of_batches(summary: dict) -> tuple[object, ...]:
    """Shares of the batches, the mean and the largest."""
    shares = (share(summary[f"at_most_{most}"]) for most in ("1.00", "1.03", "1.08"))
    return *shares, f"{summary['geometric_mean']:.2f}", f"{summary['largest']:.2f}"


BATCHES = ("at most 1.00", "at most 1.03", "at most 1.08", "geometric mean", "largest")
KERNEL_NAMES = {
    "step": "appendix D's launch, which also writes K and V",
    "reading": "lesson 6's kernel, which only reads",
}


def random_batches() -> Question:
    files = "batches-seed-113-nvidia-h200", "batches-seed-107-nvidia-h200"
    reports = [stored(name) for name in files]
    rows = []
    for report, said in zip(
        reports, ("this version", "the version before"), strict=True
    ):
        found = report["summary"]["step"]
        shares = (share(found[f"at_most_{most}"], ".1%") for most in ("1.00", "1.05"))
        ends = (f"{found[end]:.3f}" for end in ("geometric_mean", "largest"))
        rows.append((said, report["seed"], len(report["batches"]), *shares, *ends))
    slow = [
        f"{name.split(': ')[1]} ({ratio:.3f})"
        for name, ratio in reports[0]["summary"]["step"]["worst"].items()
        if ratio > 1
    ]
    found = reports[0]["summary"]["step"]
    reached = found["at_most_1.00"] >= 0.95 and found["largest"] <= 1.05
    return Question(
        "And in random batches: our time divided by the best peer's?",
        files,
        "python -m benchmarks.gpu.batches --shapes sixteen --seed 113",
        (
            "appendix D's launch, which also writes K and V",
            "seed",
            "batches in 16 shapes of heads",
            "at most 1.00",
            "at most 1.05",
            "geometric mean",
            "largest",
        ),
        rows,
        "The aim is 95 % of them at most 1.00, and none above 1.05: this version "
        f"{'reaches' if reached else 'misses'} it. "
        f"This version is slower than a peer in {'; '.join(slow)}. Neither rule had "
        "seen its batches. Each row has batches of its own, so the rows are no "
        "comparison of the two versions. The best peer is the faster one of FlashInfer "
        f"{reports[0]['peers']['flashinfer'].removesuffix('.post1')} and "
        "FlashAttention-3. In a graph, layer follows layer; in a model, other kernels "
        "lie between. All are told the lengths before: peers plan with them, and ours "
        "chooses sizes by the shortest and the longest. An engine's graphs are "
        "captured for any lengths, so they do not have the sizes for even ones.",
    )


def eight_bits_again() -> Question:
    drawn = stored("eight-bits-batches")["batches"]
    batches, aim = drawn["batches"], drawn["aim"]
    rows = [
        (name, row["mb"], row["bf16"], row["fp8"], f"{row['fp8_of_bf16']:.3f}")
        for name, row in batches.items()
    ]
    ratios = [row["fp8_of_bf16"] for row in batches.values()]
    reached = sum(ratio <= aim for ratio in ratios)
    return Question(
        "And in random batches of 100 to 300 MB?",
        ("eight-bits-batches",),
        f"python -m benchmarks.gpu.eight_bits batches prompts --seed {drawn['seed']}",
        (
            "heads, batch",
            "MB in 16 bits",
            "16 bits, µs",
            "8 bits, µs",
            "8 over 16 bits",
        ),
        rows,
        f"The aim, at most {aim} above 100 MB, is reached in {reached} of "
        f"{len(ratios)}. The geometric mean is {geometric_mean(ratios):.3f}, the "
        f"largest {max(ratios):.3f}. The rule of sizes had seen none of these batches.",
    )


def eight_bits_of_prompts() -> Question:
    found = stored("eight-bits-batches")["prompts"]
    rows = [
        (name, row["bf16"], row["fp8"], f"{row['fp8_of_bf16']:.2f}")
        for name, row in found["prompts"].items()
    ]
    ratios = [row["fp8_of_bf16"] for row in found["prompts"].values()]
    reached = sum(ratio <= found["aim"] for ratio in ratios)
    return Question(
        "And what does attention of prompts cost in 8 bits?",
        ("eight-bits-batches",),
        "python -m benchmarks.gpu.eight_bits prompts",
        ("prompts", "16 bits, µs", "8 bits, µs", "8 over 16 bits"),
        rows,
        f"The aim, at most {found['aim']}, is reached in {reached} of {len(rows)}. The "
        "kernel for Hopper computes both. In 8 bits, four more of its warps convert "
        "tiles of K and V, while others multiply; with heads of 256 numbers, two "
        "do, because four would leave too few registers at launch.",
    )


def paging() -> Question:
    report = stored("tuning-nvidia-h200")
    rows = []
    for batch, found in report["paging"].items():
        alone = found["contiguous"]["us"]
        sixteen = next(x for x in found["by_block_size"] if x["block_size"] == 16)
        all_sizes = [
            row[order] / alone
            for row in found["by_block_size"]
            for order in ("in_order", "shuffled")
        ]
        rows.append(
            (
                batch,
                alone,
                sixteen["in_order"],
                sixteen["shuffled"],
                f"{max(all_sizes):.3f}",
            )
        )
    return Question(
        "What does a block table cost?",
        ("tuning-nvidia-h200",),
        "python -m benchmarks.gpu.tuning",
        (
            "µs of a layer",
            "no table",
            "blocks of 16, in order",
            "shuffled",
            "most, of all block sizes, over no table",
        ),
        rows,
        "The same decode loop in all, with one tile under way.",
    )


def rule() -> Question:
    report = stored("tuning-nvidia-h200")
    rows = []
    for shape, cells in report["cells"].items():
        ratios = [
            found[0][-1] / min(row[-1] for row in found) for found in cells.values()
        ]
        rows.append(
            (shape, len(cells), f"{geometric_mean(ratios):.3f}", f"{max(ratios):.3f}")
        )
    return Question(
        "How good are the sizes that a rule chooses?",
        ("tuning-nvidia-h200",),
        "python -m benchmarks.gpu.tuning",
        ("heads", "batches", "time over the best sizes tried, mean", "largest"),
        rows,
        "Appendix C makes the rule. For each batch, up to 94 sizes were tried.",
    )


def prompts() -> Question:
    report = stored("prompts-seed-4-nvidia-h200")
    summary, batches = report["summary"], report["batches"].values()
    over = [row["us"]["lesson_6"] / row["us"]["ours"] for row in batches]
    peers = sum("flash_attention_3" in row["us"] for row in batches)
    row = (
        peers,
        *(share(summary[f"at_most_{most}"]) for most in ("1.00", "1.10", "1.30")),
        summary["geometric_mean"],
        summary["largest"],
    )
    return Question(
        "How fast are prompts computed, beside FlashAttention-3?",
        ("prompts-seed-4-nvidia-h200",),
        "python -m benchmarks.gpu.prompts --count 26 --seed 4",
        (
            "batches",
            "at most 1.00",
            "at most 1.10",
            "at most 1.30",
            "geometric mean",
            "largest",
        ),
        [row],
        "Our time divided by FlashAttention-3's, in random batches of prompts, chunks "
        "of long contexts, windows, sinks, and prompts beside sequences that decode. "
        f"Lesson 6's kernel takes {number(geometric_mean(over))} times as long as ours "
        "for Hopper (geometric mean). In "
        f"{len(report['equal_to_float64'])} batches, whole numbers equal float64.",
    )


def rungs() -> Question:
    report = stored("prompt-rungs-nvidia-h200")
    names = {
        "rung 1": "rung 1",
        "rung 2": "rung 2",
        "rung 3": "rung 3",
        "rung 4": "rung 4",
        "ours": "minipaged's, over blocks",
        "lesson_6": "lesson 6's, over blocks",
        "flash_attention_3": "FlashAttention-3, over blocks",
        "cudnn": "cuDNN",
    }
    rows = [
        (said, *(found["tflop_per_s"][kernel] for found in report["prompts"].values()))
        for kernel, said in names.items()
    ]
    lengths = [f"{int(length):,} tokens" for length in report["prompts"]]
    return Question(
        "What does each rung of appendix C's kernel for prompts bring?",
        ("prompt-rungs-nvidia-h200",),
        "python -m benchmarks.gpu.prompt_rungs",
        ("TFLOP/s", *lengths),
        rows,
        "One prompt, 32 query and 8 KV heads of 128. The rungs and cuDNN read K and "
        "V in one piece.",
    )


def engine() -> Question:
    report = stored("engine-beside-vllm-3")
    names = {
        "compiled": "our engine, compiled",
        "vllm": f"vLLM {report['vllm']['version']}, its defaults",
    }
    rows = []
    for way, said in names.items():
        found = report[way]
        rounds = ", ".join(f"{each['tokens_per_s']:,}" for each in found["rounds"])
        long = found.get("lone_long", {})
        waits = (long.get("first_token_ms", ""), long.get("next_token_ms", ""))
        rows.append((said, rounds, *waits, found["start_s"]))
    ratio = report["compiled"]["tokens_per_s"] / report["vllm"]["tokens_per_s"]
    return Question(
        "How many tokens a second does the engine make, beside vLLM?",
        ("engine-beside-vllm-3",),
        "python -m benchmarks.gpu.engine --runs compiled",
        (
            "256 requests",
            "tokens a second, by round",
            "alone, 6,000 tokens: first, ms",
            "each next, ms",
            "ready after, s",
        ),
        rows,
        f"By the medians, the engine makes {ratio:.2f} times as many tokens. A model "
        "of Qwen3-0.6B's shape with random weights, bfloat16; prompts and "
        "answers of 100 to 1,024 tokens, temperature 0.6. vLLM found its compiled code "
        "in a cache, the engine compiled. Hosts differ in their CPUs, and this one is "
        "slow: compare only figures of one host. The [other hosts](HISTORY.md) are "
        "listed apart.",
    )


def engines_in_turns() -> Question:
    report = stored("engines-in-turns")
    vllm = f"vLLM {report['vllm_version']}"
    ways = {
        "compiled": "our engine, 16 bits",
        "vllm": f"{vllm}, 16 bits",
        "compiled_fp8": "our engine, 8 bits",
        "vllm_fp8": f"{vllm}, 8 bits",
    }
    rows = [
        (
            said,
            f"{report[way]['tokens_per_s']:,}",
            ", ".join(f"{each['tokens_per_s']:,}" for each in report[way]["rounds"]),
            report[way]["lone_long"]["first_token_ms"],
            report[way]["start_s"],
        )
        for way, said in ways.items()
    ]

    def times(ours: str, theirs: str) -> str:
        own, peer = (report[way]["tokens_per_s"] for way in (ours, theirs))
        return number(own / peer)

    firsts = {way: report[way]["lone_long"]["first_token_ms"] for way in ways}
    return Question(
        "And the engine with K and V in 8 bits, beside vLLM?",
        ("engines-in-turns",),
        "python -m benchmarks.gpu.in_turns --out engines-in-turns.json",
        (
            "256 requests",
            "tokens a second, median",
            "by round",
            "a lone prompt of 6,000 tokens: first token, ms",
            "ready after, s",
        ),
        rows,
        "The requests and the model are those of the table above. Four engines share "
        "a GPU, each in a process of its own, and answer in turns. All four started at "
        "the same time. By the medians, our engine in 8 bits makes "
        f"{times('compiled_fp8', 'vllm')} times as many tokens as vLLM in 16 bits, and "
        f"{times('compiled_fp8', 'vllm_fp8')} times as many as vLLM in 8 bits; in 16 "
        f"bits both, ours makes {times('compiled', 'vllm')} times vLLM's. A lone "
        f"prompt takes {number(firsts['compiled'] / firsts['vllm'])} of vLLM's time in "
        f"16 bits, and {number(firsts['compiled_fp8'] / firsts['vllm_fp8'])} in 8; our "
        f"8 bits take {number(firsts['compiled_fp8'] / firsts['compiled'])} of the "
        "time of our 16.",
    )


def servers() -> Question:
    files = "servers-nvidia-h200-2", "servers-nvidia-h200-1"
    report = stored(files[0])
    rows = [*_served(report, ""), *_served(stored(files[1]), ", earlier")]
    last = {name: report[name]["256 clients"][-1] for name in ("ours", "vllm")}
    return Question(
        "How fast is the server, beside vLLM's?",
        files,
        "python -m benchmarks.gpu.servers",
        (
            f"{report['requests']} requests",
            "",
            "tokens a second, by round",
            "first token, ms (median), by round",
            "slowest 1 %, by round",
            "each next, ms",
        ),
        rows,
        "The requests and the model are those of the engine's table above, as streams "
        "over HTTP; one asyncio client asks both servers in turns, on one GPU. With "
        "256 clients, all requests come at once; fewer clients ask again. Both have a "
        "front and an engine in processes of their own: in the last round of 256 "
        f"clients, ours keep {_cores(last['ours'])} cores busy, vLLM's "
        f"{_cores(last['vllm'])}. In some rounds, our first tokens came later than "
        "vLLM's. Earlier, none was computed until the front had read most requests. "
        "Later, the first round was slow, probably because the engine waited for the "
        "GPU whenever it met an answer's length for the first time. Both are changed "
        "since, the second one without a measurement on a GPU. *Earlier*: another "
        "host, an earlier version.",
    )


def _served(report: dict, when: str) -> list[tuple]:
    names = {
        "ours": "our server, compiled",
        "vllm": f"vLLM {report['versions']['vllm']}, its defaults",
    }
    rows = []
    for clients in [name for name in report["ours"] if name.endswith("clients")]:
        for way, said in names.items():
            rounds = report[way][clients]
            waits = zip(*[each["first_token_ms"] for each in rounds], strict=True)
            rows.append(
                (
                    clients + when,
                    said,
                    ", ".join(f"{each['tokens_per_s']:,}" for each in rounds),
                    *(", ".join(f"{one:,.0f}" for one in each) for each in waits),
                    median(each["next_token_ms"] for each in rounds),
                )
            )
    return rows


def _cores(found: dict) -> str:
    """How many of them a server's processes keep busy, all together."""
    return number(sum(found["cpu_seconds"]["server"]) / found["seconds"])


def first() -> Question:
    hosts = stored("first-batches")["hosts"]
    host, other, earlier, *_ = hosts
    kinds = [
        {
            kind: row
            for kind, row in each.items()
            if isinstance(row, dict) and "first_over_later_rate" in row
        }
        for each in hosts
    ]
    named = {kind: None for each in kinds for kind in each}  # each once, in order
    rates = [
        {kind: row["first_over_later_rate"] for kind, row in each.items()}
        for each in kinds
    ]
    rows = [
        (
            kind,
            rates[0].get(kind, ""),
            kinds[0].get(kind, {}).get("of_the_cpu", ""),
            *(each.get(kind, "") for each in rates[1:]),
        )
        for kind in named
    ]
    disturbed = host["disturbed"]
    calm = {kind: rate for kind, rate in rates[0].items() if kind not in disturbed}
    least = min(calm, key=calm.__getitem__)
    later = [row["seconds"][0][1:] for kind, row in kinds[0].items() if kind in calm]
    spread = max(max(each) / min(each) for each in later) - 1
    bursts = [step for start in other["arrivals"] for step in start["step_ms"]]
    middle, longest = [median(step[n] for step in bursts) for n in (0, 1)]
    ratios = [slowest / usual for usual, slowest in bursts]
    before = median(start["longest_over_median_step"] for start in earlier["arrivals"])
    return Question(
        "Is the first batch of a kind slower than later ones?",
        ("first-batches",),
        "python -m benchmarks.gpu.first_batches --starts 3",
        (
            "first over later rate, compiled",
            host["column"],
            "its CPU alone",
            *(each["column"] for each in hosts[1:]),
        ),
        rows,
        "At the start, kernels are compiled and requests of every kind are answered "
        f"once. That took {number(other['start_s_in_another_run'])} s in a run of its "
        "own, of nearly this version. The earlier version answered none, and its "
        "batches were timed without `gc.freeze()`.\n\n"
        f"*{host['column'].capitalize()}* was disturbed: another program's compilers "
        f"ran beside {', '.join(disturbed[:-1])} and {disturbed[-1]}, so these rates "
        "say little about the engine. *Its CPU alone* shows how fast the CPU was "
        f"meanwhile. Of the other kinds, {least} has the lowest rate, "
        f"{calm[least]:.3f}; even later batches of these kinds differ by up to "
        f"{share(spread)}. The run ended before beams and bursts. While *"
        f"{other['column']}* was measured, checks ran on the same machine, so its "
        "figures are disturbed, too.\n\n"
        f"In that run, {len(bursts)} bursts were timed: 512 requests come at once "
        "while 128 decode. By the medians, the longest of 60 steps takes "
        f"{number(longest)} ms, and the median {number(middle)} ms; the longest is "
        f"{min(ratios):.2f} to {max(ratios):.2f} times the median. The aim is 2.0 at "
        "most. By "
        f"{earlier['column']}, on its host, it was {number(before)} times the median.",
    )


def eight_bits() -> Question:
    report = stored("eight-bits-nvidia-h200")
    rows = [
        (
            batch,
            found["mb"],
            found["bf16"],
            found["fp8"],
            found["fp8_v"],
            found["fp8_of_bf16"],
        )
        for batch, found in report["decode"].items()
    ]
    errors = [x for x in report["check"].values() if isinstance(x, float)]
    return Question(
        "What do K and V in 8 bits bring?",
        ("eight-bits-nvidia-h200",),
        "python -m benchmarks.gpu.eight_bits check decode",
        (
            "µs of a layer",
            "MB in 16 bits",
            "16 bits",
            "8 bits",
            "V alone",
            "8 over 16 bits",
        ),
        rows,
        "A pool holds twice as many tokens. Beside float64 on the same bytes, the "
        f"largest error is {max(errors):.3g}.",
    )


def deterministic() -> Question:
    report = stored("deterministic-nvidia-h200")
    found = report["deterministic"]
    alike = {name for name in found if name.startswith("in batches of ")}
    sizes = ", ".join(name.split()[-1] for name in found if name in alike)
    worst = min((found[name] for name in alike), key=lambda row: row["equal"])
    companies = {f"in batches of {sizes}": worst}
    companies |= {name: row for name, row in found.items() if name not in alike}
    rows = [(name, f"{row['equal']} of {row['of']}") for name, row in companies.items()]
    return Question(
        "Does `deterministic=True` keep a text the same in any company?",
        ("deterministic-nvidia-h200",),
        "python -m benchmarks.gpu.deterministic",
        ("256 requests, bfloat16", "texts equal to those computed alone"),
        rows,
        "A model of Qwen3-0.6B's shape whose texts depend on last bits. All requests "
        f"at once take {report['price, graphs']['ratio']} times the default's time.",
    )


def drawing() -> Question:
    report = stored("drawing-nvidia-h200")
    rows = [
        (row["asked_for"], row["ours_replayed"], row["ours"], row["huggingface"])
        for row in report["microseconds"]
        if row["logits"] == "random" and row["rows"] == 256
    ]
    return Question(
        "How long does a draw take?",
        ("drawing-nvidia-h200",),
        "python -m benchmarks.gpu.drawing",
        (
            f"256 rows of {report['vocabulary']:,} logits",
            "ours, µs",
            "HuggingFace's, µs",
        ),
        rows,
        "HuggingFace's processors, softmax and multinomial, beside our kernel.",
    )


def guesses_on_a_gpu() -> Question:
    report, earlier = stored("gpu-speculation"), stored("gpu-speculation-before")
    names = (
        "draft model, 1, 2 guesses",
        "free, 1, 5 guesses",
        "free, 64, 2 guesses",
    )
    one, free, full = (earlier[name] for name in names)
    draft, guessed = report["draft model, 64, 2 guesses"], report[names[2]]
    plain = report["plain, 64"]
    both = draft, guessed
    least, most = sorted(each["wall_ms"] / plain["wall_ms"] for each in both)
    lost = [1 - _with_guesses(each, plain) for each in both]
    return Question(
        "What do guesses bring on a GPU?",
        ("gpu-speculation", "gpu-speculation-before"),
        "python -m benchmarks.gpu.speculation",
        (
            "users and guesses",
            "tokens a second",
            "times plain",
            "steps with guesses",
            "such a step, ms",
            "of it GPU, ms",
        ),
        [
            (
                kind,
                found["tokens_per_s"],
                found.get("times_plain", ""),
                share(found.get("part_with_guesses", 0)) if "guesses" in kind else "",
                found["wall_ms"],
                found.get("gpu_ms", ""),
            )
            for kind, found in report.items()
            if isinstance(found, dict) and "tokens_per_s" in found
        ],
        f"Guesses are right with probability {report['right']} by construction. "
        "*Free* ones cost nothing to make, but are made from the text, so a step is "
        "read before the next is planned. The draft model has "
        f"{report['draft_layers']} of 28 layers, and its steps run one ahead. A clock "
        "decides whether guessing pays for all users together. To one user, guesses "
        "bring more than plain decoding. With 64 users, the aim is 0.95 of plain: "
        f"{_reached('behind the draft model', draft)}, and "
        f"{_reached('with free guesses', guessed)}. A step with guesses "
        f"takes {least:.1f} to {most:.1f} times as long as a plain one, so the clock "
        "seldom allows it. Those that it allows lose "
        f"{share(lost[0], '.1%')} behind the draft model, and {share(lost[1], '.1%')} "
        "with free guesses; where more is lost has not been measured. All are "
        "measured in turns, a round of each, and medians of the rounds are compared. "
        "With 64 users, rounds differ: the draft model's have "
        f"{min(draft['rounds']):,.0f} to {max(draft['rounds']):,.0f} tokens a second. "
        "In an earlier run, "
        "with more work for the CPU in a step and each kind measured for itself, "
        f"the draft model brought one user {number(one['times_plain'])} times plain, "
        f"five free guesses {number(free['times_plain'])} times, and two free guesses "
        f"64 users {number(full['times_plain'])} times.",
    )


def _reached(how: str, found: dict, aim: float = 0.95) -> str:
    """Whether this many times plain were reached."""
    times = found["times_plain"]
    return f"{how} it is {'reached' if times >= aim else 'missed'} ({times:.3f})"


def _with_guesses(found: dict, plain: dict) -> float:
    """Tokens over time beside plain ones, if only steps with guesses were different."""
    part = found["part_with_guesses"]
    tokens = 1 + part * (found["tokens_of_a_step"] - 1)
    return tokens / (1 + part * (found["wall_ms"] / plain["wall_ms"] - 1))


def simulated() -> Question:
    costs = fitted_server(ROOT / path_of("step-costs-nvidia-h200")).costs
    names = [one["name"] for one in stored("served-nvidia-h200")["validations"]]
    validations = read_validations(ROOT / path_of("served-nvidia-h200"))
    rows = []
    for name, validation in zip(names, validations, strict=True):
        found = beside(validation.report, validation.simulated(costs))
        for row in found:
            mean, p99 = row.off
            what = row.name.replace("_", " ")
            rows.append(
                (
                    name,
                    what,
                    1e3 * row.measured[0],
                    share(mean, "+.1%"),
                    share(p99, "+.1%"),
                )
            )
    return Question(
        "How far is a simulated engine from the real one?",
        ("served-nvidia-h200", "step-costs-nvidia-h200"),
        "python -m benchmarks.gpu.step_costs",
        ("load", "", "measured mean, ms", "simulated: mean", "P99"),
        rows,
        "A model of Llama-3.1-8B's shape, compiled. The costs were fitted to other "
        "steps. Steps with a shared prefix and few new prompt tokens cost more than "
        "the fit says.",
    )


def parity() -> Question:
    report = stored("gpu-parity")
    rows = [
        (
            name,
            "3 samples" if "do_sample" in case["options"] else "greedy",
            f"{case['equal']} of {case['prompts']}",
        )
        for name in ("pocket", "random weights, Qwen3-0.6B")
        for case in report[name]["cases"]
    ]
    return Question(
        "Are texts HuggingFace's on a GPU, too?",
        ("gpu-parity",),
        "python -m benchmarks.gpu.parity",
        ("float32, TF32 off", "", "prompts equal"),
        rows,
        "Taken with an earlier version, with gathered attention.",
    )


def sums() -> Question:
    rows = stored("gpu-ranks")["sums"]["rows"]
    ways = "one shot", "NCCL", "one shot of torch"
    few = next(row for row in rows if row["kb"] == 8)
    many = next(row for row in rows if row["kb"] == 2048)
    return Question(
        "How long does a sum over two GPUs take?",
        ("gpu-ranks",),
        "python -m benchmarks.gpu.ranks --parts sums --out gpu-ranks.json",
        ("KB, bfloat16", "our kernel, µs", "NCCL", "a copy, and torch's kernel"),
        [(row["kb"], *(row[way] for way in ways)) for row in rows],
        "Two H200s with NVLink, without multicast; a sum in a CUDA graph of 64. A step "
        "of a model of Llama-3.1-8B's shape has two sums in each of its 32 layers: of "
        f"8 KB for a lone user, which together take {number(64e-3 * few['one shot'])} "
        f"ms, and by NCCL {number(64e-3 * few['NCCL'])} ms; of 2,048 KB for 256 users, "
        f"{number(64e-3 * many['one shot'])} and {number(64e-3 * many['NCCL'])} ms. "
        "Larger tensors than the last go to NCCL.",
    )


def two_gpus() -> Question:
    report = stored("gpu-ranks")
    peers = {"minipaged": ("one", "two"), "vLLM": ("vllm_one", "vllm")}
    rows = []
    for name, ways in peers.items():
        if not all("tokens_per_s" in report.get(way, {}) for way in ways):
            continue
        one, two = (report[way] for way in ways)
        asked = {
            "tokens a second": [way["tokens_per_s"] for way in (one, two)],
            "a lone user's next token, ms": [
                way["lone"]["next_token_ms"] for way in (one, two)
            ],
            "her first token, ms": [
                way["lone"]["first_token_ms"] for way in (one, two)
            ],
        }
        rows += [
            (f"{name}: {what}", *pair, pair[1] / pair[0])
            for what, pair in asked.items()
        ]
    one, two = report["one"], report["two"]
    steps = [
        next(line for line in way["time_line"] if line["num_sequences"] == 256)
        for way in (one, two)
    ]
    in_sums = steps[1]["kernels_ms"]["_sum_kernel"]
    is_same = "All ranks had the same tokens. " * two["same_on_all_ranks"]
    return Question(
        "What does a second GPU bring, if two share a model?",
        ("gpu-ranks",),
        "python -m benchmarks.gpu.ranks --parts one two --time-lines "
        "--out gpu-ranks.json",
        ("Llama-3.1-8B's shape, bfloat16", "one H200", "two H200s", "ratio"),
        rows,
        "256 requests are there at once; prompts and answers have 100 to 1,024 tokens, "
        "drawn at temperature 0.6. The lone user's prompt has "
        f"{number(two['lone']['prompt'])} tokens. Two GPUs are two ranks: each has "
        "half of the heads and weights, and in every step they exchange the sums "
        f"[of the next table](#{anchor(sums().asked)}). If 256 users decode, a step "
        f"takes {number(steps[0]['wall_ms'])} ms on one GPU, and "
        f"{number(steps[1]['wall_ms'])} ms on two; sums over the ranks take "
        f"{number(in_sums)} ms of these. {is_same}With a pool of the "
        "same size, one GPU alone needs at most "
        f"{number(one['peak_gb'])} GB, and each of two {number(two['peak_gb'])} GB. "
        "The bars that were set before: 1.5 times the tokens a second, and 0.75 of the "
        "lone user's time.",
    )


ON_A_GPU = (
    decode,
    decode_over_peers,
    random_batches,
    rule,
    paging,
    prompts,
    rungs,
    engine,
    engines_in_turns,
    servers,
    two_gpus,
    sums,
    first,
    eight_bits,
    eight_bits_again,
    eight_bits_of_prompts,
    deterministic,
    drawing,
    guesses_on_a_gpu,
    simulated,
    parity,
)
