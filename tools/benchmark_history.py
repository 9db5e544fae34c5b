"""benchmarks/HISTORY.md: hosts, other GPUs, earlier versions."""

from minipaged.lab.measure.measured import measured_hosts
from tools.benchmark_questions import BATCHES, KERNEL_NAMES, of_batches
from tools.benchmark_tables import (
    Question,
    number,
    path_of,
    picture,
    share,
    stored,
    table,
    text_of,
)

HEAD = """\
# Hosts, other GPUs, earlier versions

[The benchmarks' page](README.md) answers each question on one machine, with the \
newest figures that are stored. This page keeps the others. Both are made by \
`python -m tools.benchmark_page`.
"""
ENGINE = (
    "Bars of output tokens a second on an H200, in four groups, one for each host. "
    "Host 1: HuggingFace generate in a batch of 64, 422; the engine eager, 3,489. "
    "Host 2: the engine eager, 3,410; with CUDA graphs 15,097; compiled 23,238. Host "
    "3: HuggingFace generate_batch 13,778; vLLM 23,521; the engine compiled 25,289. "
    "Host 4: compiled 22,828; without merged linear layers 21,158; K and V in a "
    "launch of their own 23,287."
)
WAYS = {
    "generate": "HuggingFace `generate`, a batch of 64",
    "generate_batch": "HuggingFace's continuous batching",
    "eager": "engine, eager",
    "graphs": "engine, CUDA graphs",
    "compiled": "engine, compiled",
    "options": "the same, top-k 20 and top-p 0.95",
    "without_merging": "compiled, linear layers not merged",
    "with_two_launches": "compiled, K and V in a launch of their own",
    "vllm": "vLLM",
}


def page() -> str:
    """The whole text."""
    parts = [HEAD.strip(), hosts(), picture("engine", ENGINE), LADDER]
    return "\n\n".join([*parts, *(text_of(question()) for question in OTHERS)]) + "\n"


LADDER = """\
Compare only bars of the same host: the engine waits for its CPU, and hosts differ in \
that. Host 2 ran an early form of the version that replays prompts from graphs, and \
hosts 1, 3 and 4 ran the version before. In that of hosts 5 to 7, a step takes the CPU \
longer than now. On hosts 8 and 9, we believe, one kernel was compiled while users \
waited.

## Other measurements"""


def hosts() -> str:
    """The engine's runs, host by host."""
    found, second = measured_hosts()
    runs = [(str(host), run) for host, run in sorted(found.items())]
    runs += [(f"{host}, again", run) for host, run in sorted(second.items())]
    rows, lone = [], []
    for host, run in runs:
        device, day = run["machine"]["device"], run["machine"]["date"]
        for way, said in WAYS.items():
            if way not in run:
                continue
            row = run[way]
            if "version" in row:
                said = f"{said} {row['version']}"
            speeds = [each["tokens_per_s"] for each in row.get("rounds", ())]
            spread = f"{min(speeds):,} to {max(speeds):,}" if len(speeds) > 1 else ""
            start = number(row["start_s"]) if row.get("start_s", 0) > 1 else ""
            rows.append(
                (
                    host,
                    device,
                    day,
                    said,
                    number(float(row["tokens_per_s"])),
                    spread,
                    start,
                )
            )
            if "first_token_ms" in row.get("lone", {}):
                waits = row["lone"]["first_token_ms"], row["lone"]["next_token_ms"]
                lone.append((host, device, said, *waits))
        for way, waits in run.get("lone", {}).items():
            said = f"engine, compiled, the prompt's kernels {way}"
            lone.append(
                (host, device, said, waits["first_token_ms"], waits["next_token_ms"])
            )
    head = ("host", "GPU", "date", "", "tokens a second", "rounds", "ready after, s")
    alone = ("host", "GPU", "", "first token, ms", "each next, ms")
    return "\n\n".join(
        [
            "## The engine, host by host",
            "256 requests at once, prompts and answers of 100 to 1,024 tokens, "
            "temperature 0.6, random weights of Qwen3-0.6B's shape, bfloat16. "
            "Medians of rounds. Stored in "
            f"[engine-nvidia-h200](../{path_of('engine-nvidia-h200')}) and "
            f"[engine-nvidia-h100](../{path_of('engine-nvidia-h100-80gb-hbm3')}); "
            "again by `python -m benchmarks.gpu.engine --peers`. Hosts have the "
            "numbers of appendix D; 11 to 13 have reports of their own: "
            f"[11](../{path_of('engine-beside-vllm')}), "
            f"[12](../{path_of('engine-beside-vllm-2')}), "
            f"[13](../{path_of('engine-beside-vllm-3')}).",
            table(head, rows),
            "A user who is alone, with a prompt of 1,000 tokens:",
            table(alone, lone),
        ]
    )


def before() -> Question:
    files = "engine-beside-vllm", "engine-beside-vllm-2"
    names = {
        "compiled": "our engine, compiled",
        "fp8": "the same, K and V in 8 bits",
        "vllm": "vLLM 0.26.0",
    }
    rows = []
    for host, file in enumerate(files, 11):
        report = stored(file)
        for way, said in names.items():
            if way in report:
                speeds = [each["tokens_per_s"] for each in report[way]["rounds"]]
                rounds = ", ".join(f"{speed:,}" for speed in speeds)
                median = number(report[way]["tokens_per_s"])
                rows.append((f"{said}, host {host}", median, rounds))
    return Question(
        "The engine beside vLLM, on two more hosts",
        files,
        "python -m benchmarks.gpu.engine",
        ("the same 256 requests", "tokens a second", "rounds"),
        rows,
        "Host 11 has a slow CPU. An earlier version, which launched prompts of more "
        "than 2,048 tokens one kernel after the other.",
    )


def batches_of(device: str, asked: str, remark: str) -> Question:
    files = (f"batches-{device}", f"batches-seed-1-{device}")
    rows = [
        (said, stored(file)["seed"], *of_batches(stored(file)["summary"][kernel]))
        for kernel, said in KERNEL_NAMES.items()
        for file in files
    ]
    return Question(
        asked,
        files,
        "python -m benchmarks.gpu.batches --seed 0",
        ("60 batches in 6 shapes of heads", "seed", *BATCHES),
        rows,
        remark,
    )


def batches_before() -> Question:
    return batches_of(
        "nvidia-h200",
        "Random batches in six shapes, an earlier version",
        "Our time divided by the best peer's: the fastest of FlashInfer 0.6.14, "
        "FlashAttention-3 and vLLM's Triton kernel. Some of these batches guided how "
        "pieces are cut, so they are no strangers.",
    )


def batches_put_together() -> Question:
    report = stored("batches-seed-71-nvidia-h200")
    names = {
        "step": "a rule that takes from the other two what was quicker",
        "unseen": "a rule that had not seen these batches",
        "before": "the version before it",
    }
    rows = []
    for kernel, said in names.items():
        found = report["summary"][kernel]
        shares = (share(found[f"at_most_{most}"], ".1%") for most in ("1.00", "1.05"))
        ends = (f"{found[end]:.3f}" for end in ("geometric_mean", "largest"))
        rows.append((said, *shares, *ends))
    return Question(
        "Random batches in sixteen shapes, earlier versions",
        ("batches-seed-71-nvidia-h200",),
        "python -m benchmarks.gpu.batches --shapes sixteen --seed 71",
        (
            f"{len(report['batches'])} batches",
            "at most 1.00",
            "at most 1.05",
            "geometric mean",
            "largest",
        ),
        rows,
        "Our time divided by the best peer's, the faster one of FlashInfer 0.7.2 and "
        "FlashAttention-3. The first rule was never run as a whole: its figures are "
        "put together from those of the other two.",
    )


def batches() -> Question:
    return batches_of(
        "nvidia-h100-80gb-hbm3",
        "Random batches on an H100",
        "Our time divided by the best peer's. An earlier version.",
    )


def prompts() -> Question:
    files = ("prompts-nvidia-h200", "prompts-seed-3-nvidia-h200")
    rows = []
    for file in files:
        report = stored(file)
        summary = report["summary"]
        shares = (
            share(summary[f"at_most_{most}"]) for most in ("1.00", "1.10", "1.30")
        )
        mean, largest = summary["geometric_mean"], summary["largest"]
        rows.append((report["seed"], len(report["batches"]), *shares, mean, largest))
    return Question(
        "Prompts beside FlashAttention-3, earlier versions",
        files,
        "python -m benchmarks.gpu.prompts --count 51",
        (
            "seed",
            "batches",
            "at most 1.00",
            "at most 1.10",
            "at most 1.30",
            "mean",
            "largest",
        ),
        rows,
        "The first version did not cut long contexts of few new tokens; the second did "
        "not cut all of them.",
    )


def one_launch() -> Question:
    files = ("gpu-one-launch", "gpu-one-launch-h100")
    rows = []
    for file in files:
        report = stored(file)
        for batch, row in report["16/8/128"].items():
            if "100..2048" in batch:
                one, several, read = row["one_launch"], row["several"], row["read"]
                times = (one, several, read, one / read)
                rows.append((report["machine"]["device"], batch, *times))
    calls = [stored(file)["host_us"] for file in files]
    said = " and ".join(number(call["one_launch"]) for call in calls)
    several = " and ".join(number(call["several"]) for call in calls)
    return Question(
        "Appendix D's launch beside several, and beside reading alone",
        files,
        "python -m benchmarks.gpu.one_launch --out figures/data/gpu-one-launch.json",
        (
            "",
            "µs of a layer",
            "one launch",
            "several",
            "reading alone",
            "one over reading",
        ),
        rows,
        "16 query and 8 KV heads of 128. "
        f"An eager call costs the CPU {said} µs, several launches {several} µs (beside "
        "the H200, with an earlier version; beside the H100).",
    )


def sizes() -> Question:
    report = stored("decode-sizes")
    rows = [
        (
            kind,
            len(found["batches"]),
            found["now_over_before"],
            found["now_over_flash_attention_3"],
            found["largest_over_flash_attention_3"],
        )
        for kind, found in report.items()
        if kind.startswith("seed")
    ]
    return Question(
        "The sizes of that launch, since they depend on what there is to read",
        ("decode-sizes",),
        "python -m benchmarks.gpu.batches --seed 21",
        ("batches of", "", "time over before", "over FlashAttention-3", "largest"),
        rows,
        "The rule was made from these batches, so none is a stranger to it. The script "
        "that measured them is not kept; the command measures such batches with the "
        "present sizes.",
    )


def limits() -> Question:
    files = ("profile-nvidia-h200", "profile-nvidia-h100-80gb-hbm3")
    rows = [
        (
            stored(file)["machine"]["device"],
            rung,
            row["us"],
            row["computing"],
            row["shared_memory"],
            row["large_memory"],
        )
        for file in files
        for rung, row in stored(file)["rungs"].items()
    ]
    return Question(
        "How busy lesson 6's first rungs keep the parts of a GPU",
        files,
        "python -m benchmarks.gpu.profiled",
        ("", "rung", "µs", "computing, %", "shared memory, %", "large memory, %"),
        rows,
        "Percent of the most that each part can do; shared memory and L1 are one unit.",
    )


def latencies() -> Question:
    files = ("alone-nvidia-h200", "alone-nvidia-h100-80gb-hbm3")
    rows = []
    for file in files:
        report = stored(file)
        near, *_, far = report["latency_ns"].values()
        merge = report["early_merge"]["1x8k"]
        rows.append(
            (report["machine"]["device"], near, far, merge["early"], merge["late"])
        )
    return Question(
        "Latencies, and a merge that is launched early",
        files,
        "python -m benchmarks.gpu.alone",
        (
            "",
            "a load from the L2, ns",
            "from the large memory",
            "merge early, µs",
            "late",
        ),
        rows,
        "Each load waits for the one before it. The merge: lesson 6's last rung, one "
        "sequence of 8,192 tokens.",
    )


def l2_fetch() -> Question:
    rows = [
        (row["hint"] or "none", row["bytes"], *row["useful_gb_per_s"].values())
        for row in stored("l2-fetch")["rows"]
    ]
    return Question(
        "How many bytes the L2 fetches at a time, by CUDA's hint",
        ("l2-fetch",),
        "python -m benchmarks.gpu.l2_fetch",
        ("hint", "bytes in force", "4 bytes apart, GB/s", "16", "32", "64", "128"),
        rows,
        "Useful bytes only: 4 of each number that is read. So 64 bytes are a setting, "
        "and no property of the memory.",
    )


def ladder_on_an_h100() -> Question:
    report = stored("tuning-nvidia-h100-80gb-hbm3")
    batches = report["ladder"]
    rungs = next(iter(batches.values()))
    rows = [
        (rung, *(found[rung]["us"] for found in batches.values())) for rung in rungs
    ]
    return Question(
        "Lesson 6's ladder on an H100",
        ("tuning-nvidia-h100-80gb-hbm3",),
        "python -m benchmarks.gpu.tuning",
        ("µs of a layer", *batches),
        rows,
        f"Reading alone: {report['ceilings']['read_gb_per_s']:,} GB/s.",
    )


def steps() -> Question:
    times = stored("cpu-step")["milliseconds"]
    rows = [
        (case, time, times["new"][f"{case} plain"], times["new"][f"{case} fast"])
        for case, time in times["old"].items()
    ]
    return Question(
        "A step without its forward, before and after `scheduling/`",
        ("cpu-step",),
        "python -m benchmarks.cpu.step --old CHECKOUT",
        ("sequences x tokens", "before, ms", "after, plain", "inputs kept in arrays"),
        rows,
        "One thread. `cached`: with a prefix cache. `prompts`: all tokens of 16 "
        "prompts.",
    )


def sixteen_cores() -> Question:
    report = stored("cpu-engine-16-cores")
    speeds = report["throughput"]["tokens_per_second"]
    latency = report["latency"]["at_static_capacity"]
    return Question(
        "The engine beside static batches, on 16 cores",
        ("cpu-engine-16-cores",),
        "python -m benchmarks.cpu.engine",
        ("64 requests of ShareGPT-like lengths", "tokens a second"),
        [
            (way.replace("static", "static batches of"), speed)
            for way, speed in speeds.items()
        ],
        f"At 80 % of what static batches can serve: {number(latency['minipaged_ms'])} "
        f"ms a token, static {number(latency['static_ms'])}. An earlier version.",
        f"; {report['threads']} threads of the CPU alone",
    )


def guesses_read_first() -> Question:
    report = stored("gpu-speculation-read-first")
    return Question(
        "Guesses on a GPU, each step read before the next",
        ("gpu-speculation-read-first",),
        "python -m benchmarks.gpu.speculation",
        (
            "users and guesses",
            "tokens a second",
            "times plain",
            "a step, ms",
            "of it GPU, ms",
        ),
        [
            (
                kind,
                found["tokens_per_s"],
                found.get("times_plain", ""),
                found["wall_ms"],
                found["gpu_ms"],
            )
            for kind, found in report.items()
            if isinstance(found, dict) and "tokens_per_s" in found
        ],
        "An earlier version. All but *plain, 1* were measured after a profiler had "
        "run, which may make later launches slower.",
    )


OTHERS = (
    before,
    batches_before,
    batches_put_together,
    batches,
    prompts,
    one_launch,
    sizes,
    limits,
    latencies,
    l2_fetch,
    guesses_read_first,
    ladder_on_an_h100,
    steps,
    sixteen_cores,
)
