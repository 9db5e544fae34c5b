"""Lab: what was measured on GPUs and is shipped, for readers who have none.

For a device that nobody has measured, each raises FileNotFoundError, with those that
there are.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"  # where benchmarks/gpu writes
SIZES = ("tile", "num_warps", "num_stages", "num_splits")
LADDER = ("generate", "eager", "graphs", "compiled")  # of an engine, upwards
OTHERS = ("generate_batch", "vllm", "nano_vllm")  # that serve as an engine does
PARTS = ("without_merging", "with_two_launches")  # left out of the last
Tuning = Mapping[str, Any]  # as `measured_tuning` describes
COMPILED = ("registers", "spilled_bytes", "shared_bytes", "programs")


def measured_kernels(device: str = "nvidia-h200") -> dict[str, Any]:
    """The report that benchmarks/gpu/kernels.py wrote on this device.

    It names the machine, says how it was measured, and holds microseconds by shape and
    cell. `step` is appendix D's launch: it writes K and V, too.
    """
    return _report("kernels", device)


def measured_batches(device: str = "nvidia-h200", seed: int = 0) -> dict[str, Any]:
    """The report that benchmarks/gpu/batches.py wrote on this device.

    60 decode batches drawn from this seed; stored are those of seeds 0 and 1 on the
    H200 and on the H100, and on the H200 in sixteen shapes those of seed 107, with the
    rule before, and of seed 113. batches: by name, `us` by kernel, and the `best_peer`.
    summary: of `step` (the default launch, which writes K and V, too) and of `reading`
    (lesson 6's kernel), the time over the best peer's: shares of the batches with
    `at_most_1.00` and so on, `geometric_mean`, `largest`. Seed 71, of two earlier
    rules, is for the benchmarks' pages: see its `how`.
    """
    return _report(batches_of(seed), device)


def batches_of(seed: int) -> str:
    """What the reports of batches of this seed are called."""
    return f"batches-seed-{seed}" if seed else "batches"


def measured_prompts(device: str = "nvidia-h200") -> dict[str, Any]:
    """The report that benchmarks/gpu/prompts.py wrote on this device.

    Batches with prompts, drawn from seed 0. batches: by name, `us` by kernel, `ours`
    over FlashAttention-3 (`over_peer`), and `tflop_per_s` of ours. summary: shares of
    the batches with `at_most_1.00` and so on, `geometric_mean`, `largest`, `worst`.
    """
    return _report("prompts", device)


def measured_prompt_rungs(device: str = "nvidia-h200") -> dict[str, Any]:
    """The report that benchmarks/gpu/prompt_rungs.py wrote on this device.

    prompts: by the number of tokens, `us` and `tflop_per_s` of `rung 1` to `rung 4`, of
    what rung 4 changes alone (`heavy pieces first`, `persistent`), of `ours`,
    `lesson_6` (its kernel for prompts), `cudnn` and `flash_attention_3`.
    equal_to_float64: shares of whole numbers.
    """
    return _report("prompt-rungs", device)


def measured_eight_bits(device: str = "nvidia-h200") -> dict[str, Any]:
    """The report that benchmarks/gpu/eight_bits.py wrote on this device.

    check: relative errors. decode: by batch, microseconds of a layer's launch with K
    and V in bfloat16 (`bf16`), both in 8 bits (`fp8`), V alone (`fp8_v`), and ratios.
    """
    return _report("eight-bits", device)


def measured_profile(device: str = "nvidia-h200") -> dict[str, Any]:
    """What the GPU's own counters say of lesson 6's first rungs.

    The report of benchmarks/gpu/profiled.py. rungs: by name, `us`, `instructions` (of
    all warps), and how busy `computing`, `shared_memory` (with L1, the L1 unit) and
    `large_memory` are, in percent of the most that they can do. On the H100 also the
    L1 unit's cycles, which `l1_cycles` divides by `tiles`, and a fourth rung.
    """
    return _report("profile", device)


def measured_alone(device: str = "nvidia-h200") -> dict[str, Any]:
    """The report that benchmarks/gpu/alone.py wrote on this device.

    latency_ns: of one load after the other, in a chain through so many MiB; the first
    lie in the L2. early_merge: by batch, microseconds of lesson 6's last rung with its
    merge launched `late` and `early`.
    """
    return _report("alone", device)


def measured_engine(device: str = "nvidia-h200") -> dict[str, Any]:
    """What benchmarks/gpu/engine.py printed on this device, a run after the other.

    corrected: what of it is not as printed, and why.

    runs: each was on one host, maybe another one than the others; so compare only what
    stands in the same run. It names the `machine`, and has some of these rows:

    - eager, graphs, compiled: the ways to run the engine. `tokens_per_s`, the median of
      `rounds`. `time_line`, steps of `num_sequences` that all decode, as a profiler saw
      them: of `gpu_span_ms` a step no kernel ran for `idle_ms`. `lone`: a user who is
      there alone waits `first_token_ms`, then `next_token_ms` for each next token
    - without_merging, with_two_launches: compiled, and a part is left out
    - generate: HuggingFace's, the first 64 requests in one static batch
    - generate_batch: HuggingFace's continuous batching, with this `attention`
    - vllm, nano_vllm: vLLM or nano-vllm of this `version`, in a process of its own
    - options: compiled, the same requests with `asked_for`
    - chats, shared, long: other workloads, compiled; `seconds` of long are those of a
      first run, in which kernels were still being compiled
    - lone, as a row of its own: such a user with compiled, by how her prompt's kernels
      are started: `launched` one by one, as the version before did, or `replayed` from
      a graph

    hosts: of these runs those in which rungs of the ladder, others, or parts that are
    left out, can be compared, from the lowest rung upwards. A run is left out if
    another one has all of its rungs and more; of several with the same, the last stays.
    """
    report = _report("engine", device)
    rungs = (*LADDER[:-1], *OTHERS, LADDER[-1], *PARTS)
    hosts = {frozenset(rungs).intersection(run): run for run in report["runs"]}
    widest = [own for own in hosts if not any(own < more for more in hosts)]
    several = [own for own in widest if len(own) > 1]
    several.sort(key=lambda own: min(map(rungs.index, own)))
    report["hosts"] = [hosts[own] for own in several]
    return report


def measured_hosts() -> tuple[dict[int, Any], dict[int, Any]]:
    """The engine's runs, by the number that appendix D gives to their host.

    Returns the runs, and those of a second process on hosts 8 and 10; what a run has is
    said by `measured_engine`. Hosts 11 to 13, H200, have reports of their own.
    """
    h200, h100 = measured_engine(), measured_engine("nvidia-h100-80gb-hbm3")
    hosts, second = dict(enumerate(h200["hosts"], 1)), {}
    *_, hosts[7], hosts[5], hosts[6] = h200["runs"]
    hosts[8], second[8], hosts[9], hosts[10], second[10] = h100["runs"]
    for number, name in enumerate(("", "-2", "-3"), 11):
        path = DATA / f"engine-beside-vllm{name}.json"
        hosts[number] = json.loads(path.read_text("utf-8"))
    return hosts, second


def measured_deterministic(device: str = "nvidia-h200") -> dict[str, Any]:
    """The report that benchmarks/gpu/deterministic.py wrote on this device.

    deterministic: by company, how many texts were `equal`, `of` how many. price,
    graphs: `seconds` of each round, and the `ratio` of their medians.
    """
    return _report("deterministic", device)


def measured_ranks() -> dict[str, Any]:
    """The report that benchmarks/gpu/ranks.py wrote: "one" GPU, "two", and "sums"."""
    return json.loads((DATA / "gpu-ranks.json").read_text("utf-8"))


def measured_speculation() -> dict[str, dict[str, Any]]:
    """Rows of the report that benchmarks/gpu/speculation.py wrote on an H200.

    By name, such as "plain, 1", for one user without guesses, or "free, 1, 7 guesses".
    Of a step, with guesses if they are named: `wall_ms`, and for how long of it the GPU
    computes, `gpu_ms`. Of a whole run: tokens a second in each of the `rounds`. With
    guesses: `tokens_of_a_step`; and of a run, in which a clock decides about guesses,
    `part_with_guesses` of the steps, and `times_plain`.
    """
    report = json.loads((DATA / "gpu-speculation.json").read_text("utf-8"))
    return {
        name: row
        for name, row in report.items()
        if isinstance(row, dict) and "tokens_per_s" in row
    }


def measured_draws(device: str = "nvidia-h200") -> list[dict[str, Any]]:
    """`microseconds` of the report that benchmarks/gpu/drawing.py wrote on this device.

    A row for each kind of `logits`, number of `rows`, and what is `asked_for`: `ours`,
    the same replayed from a graph, and `huggingface`.
    """
    return _report("drawing", device)["microseconds"]


def measured_tuning(device: str = "nvidia-h200") -> dict[str, Any]:
    """The report that benchmarks/gpu/tuning.py wrote on this device.

    One layer of 32 query heads and 8 KV heads of 128 numbers, in bfloat16 and blocks of
    16. A *row* stands for one way to launch a kernel: `tile`, `num_warps`,
    `num_stages`, `num_splits`; `us`, the microseconds; of the compiled kernel
    `registers` and `spilled_bytes` of a thread, `shared_bytes` of a program, and
    `programs`, those that fit on a multiprocessor at a time. If it does not fit, `us`
    is None and `why` says why.

    - machine, how, and gpu: `multiprocessors`; `registers`, `shared_bytes` and
      `threads` of each; `shared_bytes_of_a_program` at most; `l2_megabytes`
    - ceilings: read_gb_per_s, copy_gb_per_s, matmul_tflop_per_s
    - checks: `errors`, the largest beside float64 and relative to it, by kernel
    - batches: by name, `num_seqs`, `shortest`, `longest`, `tokens`, `kv_megabytes`
    - ladder: by batch and rung, a row
    - sweep: by batch, a list of rows: tiles x warps x stages x splits; the first row is
      what `decode_sizes` chooses
    - splits: by batch, a list of rows: three sizes in many splits
    - chosen: by batch of the sweep, that first row
    - cells: by shape and batch, a list of rows, of which the first is what
      `decode_sizes` chooses; without what is known of the compiled kernel
    - paging: by batch, the same kernel with two warps, tiles of 64 and two stages: one
      tile is under way, with a table and without. `contiguous`, a row whose
      addresses are computed; `contiguous_again`, microseconds; `by_block_size`, a list
      of `block_size`, `in_order` and `shuffled`, microseconds; `by_num_stages`, with
      blocks of 16, a list of `num_stages`, `contiguous`, `in_order` and `shuffled`, and
      of what a program takes of the shared memory, `contiguous_shared_bytes` and
      `paged_shared_bytes`, for there more tiles are under way without a table
    - coalescing: a list of `apart` and `useful_gb_per_s`: numbers that neighbouring
      threads read lie so far apart
    """
    report = _report("tuning", device)
    compiled = {tuple(row[:4]): row[4:] for row in report.pop("compiled")}
    for part in ("sweep", "splits"):
        for batch, rows in report[part].items():
            report[part][batch] = [_row(row, compiled) for row in rows]
    report["chosen"] = {batch: rows[0] for batch, rows in report["sweep"].items()}
    for cells in report["cells"].values():
        for cell, rows in cells.items():
            cells[cell] = [_named(row) for row in rows]
    return report


def paper_figures() -> dict[str, Any]:
    """What `make figures-paper` has simulated of the paper's figures 12 to 18b.

    By the names of `simulate.paper.PARTS`. Of a curve: for each system its `points`,
    and `sustained`, the rate at which its latency passes `LIMIT`. "Azure" is what
    `simulate.paper.recorded` has found, with its `curves`.
    """
    stored = json.loads((DATA / "paper-figures.json").read_text("utf-8"))
    return {name: part["found"] for name, part in stored["parts"].items()}


def measured_replicas() -> dict[str, Any]:
    """What benchmarks/cpu/replicas_simulated.py stored: two live replicas on a CPU.

    routers: of `round-robin` and `prefix`, each `live` and `simulated`: `hit_rate`,
    `ttft_ms` and `balance` (requests of the most asked replica over the mean). ratios:
    prefix over round-robin, of `hit_rate` and of the mean `ttft`, and how far the
    simulated one is `off`.
    """
    return _report("replicas", "cpu")


def _row(numbers: list, compiled: dict[tuple, list]) -> dict[str, Any]:
    """A row by name, from its sizes and time, and from what its kernel takes."""
    row = _named(numbers)
    *key, num_splits = (row[name] for name in SIZES)
    facts = compiled[*key, num_splits > 1]
    row |= dict(zip((*COMPILED, "why"), facts, strict=True))
    return {name: value for name, value in row.items() if name != "why" or value}


def _named(numbers: list) -> dict[str, Any]:
    return dict(zip((*SIZES, "us"), numbers, strict=True))


def _report(kind: str, device: str) -> dict[str, Any]:
    path = DATA / f"{kind}-{device}.json"
    if not path.exists():
        names = sorted(p.stem.removeprefix(f"{kind}-") for p in DATA.glob(f"{kind}-*"))
        raise FileNotFoundError(f"nobody measured {device!r}; choose from {names}")
    return json.loads(path.read_text("utf-8"))
