"""Appendix D's drawings: what a step waits for, its padding, and who is busy when."""

from statistics import median

import pytest
import torch

from helpers.drawn import texts
from helpers.readable import readable_in_all_themes
from minipaged.draw.tones import KEPT, Tone, free, soft, strong
from minipaged.lab.measure.measured import (
    measured_deterministic,
    measured_draws,
    measured_engine,
    measured_hosts,
)
from minipaged.lab.measure.step_parts import step_parts
from minipaged.lab.plots.cuts import plot_cuts
from minipaged.lab.plots.drawn import plot_drawn
from minipaged.lab.plots.fixed_places import plot_fixed_places
from minipaged.lab.plots.host_and_gpu import plot_host_and_gpu
from minipaged.lab.plots.merged import plot_merged
from minipaged.lab.plots.speeds import plot_engine_speeds
from minipaged.lab.plots.step_parts import plot_step_parts
from minipaged.lab.plots.tape import plot_tape
from minipaged.lab.tour.tape import Tape
from minipaged.model.inputs import RaggedBatch

STEP = {
    "gpu_span_ms": 20.0,
    "idle_ms": 8.0,
    "kernels_ms": {
        "step_kernel": 5.0,
        "_plan_kernel": 1.0,
        "nvjet_sm90_tst": 3.0,
        "void cublasLt::splitKreduce_kernel<32>": 1.0,
        "add": 1.5,
    },
}
BUSY = [
    ("CPU", 0, 3, "step 1"),
    ("GPU", 3, 10, "step 1"),
    ("CPU", 10, 13, "step 2"),
    ("GPU", 13, 20, "step 2"),
]
AHEAD = [
    ("CPU", 0, 3, "step 1"),
    ("GPU", 3, 10, "step 1"),
    ("CPU", 3, 6, "step 2"),
    ("GPU", 10, 17, "step 2"),
]


def host(**speeds_of_rounds):
    """A run of the engine's benchmark: by rung, tokens a second of each round."""
    machine = {"device": "NVIDIA H200", "torch": "2.11.0", "date": "2026-11-22"}
    rows = {
        rung: {
            "tokens_per_s": median(rounds),
            "rounds": [{"tokens_per_s": speed} for speed in rounds],
            "requests": 64,
        }
        for rung, rounds in speeds_of_rounds.items()
    }
    return {"machine": machine, **rows}


HOSTS = [
    host(eager=[50], generate=[20]),
    host(compiled=[300, 500, 400], without_merging=[100]),
]


def taped():
    """Two calls: 10 * x, and its sum; another tensor has taken the name of x."""
    x, other = torch.tensor([3.0, 4.0]), torch.tensor([5.0, 6.0])
    with Tape() as tape:
        (10 * x).sum()
    return plot_tape(tape, {"x": x, "other": other}, "title")


def padded(starts, num_tokens):
    """A batch in places for so many tokens; its numbers are of no use."""
    rows = len(starts) - 1
    return RaggedBatch(
        tokens=torch.arange(100, 100 + num_tokens),
        positions=torch.arange(num_tokens),
        slots=torch.arange(num_tokens) - 1,
        block_tables=torch.zeros(rows, 1, dtype=torch.int64),
        context_lengths=torch.arange(rows),
        query_starts=torch.tensor(starts),
        logits_at=torch.arange(rows),
        max_query_length=num_tokens,
        min_context_length=1,
        max_context_length=9,
    )


def plan_of(*pieces):
    """As `write_plan` writes: a row for each (sequence, first position, end)."""
    rows = [[seq, max(seq, 0), start, stop, 0, 0, 0, 0] for seq, start, stop in pieces]
    return torch.tensor(rows, dtype=torch.int32)


CUT = plan_of((1, 0, 64), (1, 64, 128), (0, 0, 16), (-1, 0, 0))
DRAWINGS = {
    "a tape": taped,
    "speeds": lambda: plot_engine_speeds(dict(enumerate(HOSTS, 1)), "title"),
    "speeds that were measured": lambda: plot_engine_speeds(
        dict(enumerate(measured_engine()["hosts"], 1)), "title"
    ),
    "parts": lambda: plot_step_parts({"a step": STEP}, "title"),
    "parts that were measured": lambda: plot_step_parts(
        {
            way: measured_engine()["hosts"][1][way]["time_line"][-1]
            for way in ("eager", "graphs", "compiled")
        },
        "title",
    ),
    "host and GPU": lambda: plot_host_and_gpu(
        {"In turns": BUSY, "Ahead": AHEAD}, "title"
    ),
    "a decode step": lambda: plot_fixed_places(padded(range(9), 8), 5, "title"),
    "a prompt": lambda: plot_fixed_places(padded([0, 1, 6, 16], 16), 2, "title"),
    "cuts": lambda: plot_cuts(CUT, "title"),
    "a draw": lambda: plot_drawn([0.5, 0.25, 0.125, 0.125], 0.5, "title"),
    "merged": lambda: plot_merged(
        {"Q": torch.zeros(6, 2), "K": torch.zeros(2, 2)}, "title"
    ),
}
test_it_can_be_read = readable_in_all_themes(DRAWINGS)


def test_the_parts_are_the_step():
    """By kernels' names; what is not listed is of other kernels."""
    assert step_parts(STEP) == {
        "attention": 6.0,
        "multiplications": 4.0,
        "other kernels": 2.0,
        "no kernel runs": 8.0,
    }
    for run in measured_engine()["runs"]:
        for row in run.values():
            for step in row.get("time_line", ()):
                parts = step_parts(step)
                assert sum(parts.values()) == pytest.approx(step["gpu_span_ms"])
                assert min(parts.values()) > 0


def test_a_lane_is_as_long_as_the_step():
    (row,) = DRAWINGS["parts"]().scene.rows
    assert row.widths == [6.0, 4.0, 2.0, 8.0] and row.values == ["20.0 ms", "40%"]
    assert row.tones == [strong(0), strong(1), strong(2), free()]


def test_arrows_lead_from_what_is_read_to_what_is_written():
    scene = taped().scene
    assert [row.words for row in scene.rows] == [
        ["5", "6"], ["3", "4"], ["30", "40"], ["70"],
    ]  # fmt: skip
    assert [link[:4:2] for link in scene.links] == [("x", "mul"), ("mul", "sum")]
    assert scene.rows[0].tones == [free(), free()]


def test_the_gpu_waits_between_two_steps():
    figure = DRAWINGS["host and GPU"]()
    _, turns, _, ahead = figure.scene.rows
    assert [word for word in turns.words if word] == ["step 1", "waits", "step 2"]
    assert [word for word in ahead.words if word] == ["step 1", "step 2"]
    assert turns.tones == [Tone("none"), strong(0), free(), strong(1)]
    said = texts(figure)
    assert "the GPU waits for 18% of its time" in said
    assert "the GPU waits for 0% of its time" in said


def test_padding_is_what_belongs_to_no_sequence():
    """A row of padding with one token each, or with all tokens that are left over."""
    tokens, _, slots, contexts, tables = DRAWINGS["a decode step"]().scene.rows
    assert tokens.tones == contexts.tones == [*map(strong, range(5)), *[KEPT] * 3]
    assert slots.words[0] == "−1" and tables.words == ["", *["0"] * 7]
    tokens, *_, contexts, _ = DRAWINGS["a prompt"]().scene.rows
    assert tokens.tones == [strong(0), *[strong(1)] * 5, *[KEPT] * 10]
    assert contexts.tones == [strong(0), strong(1), KEPT]
    assert "6 of 16" in texts(DRAWINGS["a prompt"]())


def test_a_number_draws_the_token_in_whose_part_it_lies():
    """A part begins with its first number, and ends before its last."""
    (row,) = DRAWINGS["a draw"]().scene.rows
    assert row.widths == [0.5, 0.25, 0.125, 0.125]
    assert row.tones == [soft(0), strong(1), soft(2), soft(3)]


def test_merged_weights_are_read_with_one_arrow():
    scene = DRAWINGS["merged"]().scene
    _, apart, _, _, merged, _ = scene.rows
    assert [word for word in apart.words if word] == merged.words == ["Q", "K"]
    assert merged.widths == [3.0, 1.0]
    assert len(scene.links) == 3  # two, and then one


def test_a_piece_is_as_long_as_what_its_program_reads():
    figure = DRAWINGS["cuts"]()
    short, long = figure.scene.rows
    assert short.words == ["program 2"] and long.words == ["program 0", "program 1"]
    assert long.widths == pytest.approx([4 * short.widths[0]] * 2)
    assert short.tones == [strong(0)] and long.tones == [strong(1)] * 2
    said = texts(figure)
    assert "64–127" in said and "1 of 4 programs have no piece" in said


def test_what_appendix_d_says_of_steps_that_were_measured():
    """Replayed, kernels take as long; compiled, the others take less than a quarter."""
    host = measured_engine()["hosts"][1]
    ways = ("eager", "graphs", "compiled")
    eager, graphs, compiled = (step_parts(host[way]["time_line"][-1]) for way in ways)
    assert graphs["multiplications"] == pytest.approx(eager["multiplications"], 0.03)
    assert graphs["no kernel runs"] < 0.03 * eager["no kernel runs"]
    assert compiled["attention"] == pytest.approx(graphs["attention"], 0.03)
    assert compiled["other kernels"] < 0.25 * graphs["other kernels"]
    few, many = host["eager"]["time_line"]
    assert many["gpu_span_ms"] < 1.02 * few["gpu_span_ms"]


def test_what_appendix_d_says_of_rounds_that_were_measured():
    """A kernel that is compiled while users wait costs a fifth of the first round."""
    runs = measured_engine("nvidia-h100-80gb-hbm3")["runs"]
    for number, least, most in ((0, 0.75, 0.85), (3, 0.97, 1.03)):
        rounds = [r["tokens_per_s"] for r in runs[number]["compiled"]["rounds"]]
        assert least < rounds[0] / median(rounds[1:]) < most


def test_what_appendix_d_says_of_a_gpus_texts():
    """In any company, all are equal; it takes longer."""
    report = measured_deterministic()
    for company in report["deterministic"].values():
        assert company["equal"] == company["of"] == 256
    seconds = {way: median(s) for way, s in report["price, graphs"]["seconds"].items()}
    ratio = seconds["deterministic"] / seconds["default"]
    assert (
        report["price, graphs"]["ratio"] == pytest.approx(ratio, abs=0.01) and ratio > 1
    )


def test_what_appendix_d_says_of_draws():
    """Greedy brings no time; options bring much."""
    times = {
        (row["rows"], row["asked_for"]): row["ours_replayed"] / row["huggingface"]
        for row in measured_draws()
        if row["logits"] == "random"
    }
    assert times[1, "greedy"] > 1 and times[256, "greedy"] == pytest.approx(1, abs=0.02)
    for rows in (1, 256):
        assert times[rows, "top-k 20, top-p 0.95"] < times[1, "greedy"] / 4


def test_what_appendix_d_says_of_the_ladder():
    """Rounds but the first on host 4; and beside vLLM, all runs that have both."""
    h200, h100 = measured_engine(), measured_engine("nvidia-h100-80gb-hbm3")
    late = {
        way: [each["tokens_per_s"] for each in h200["hosts"][3][way]["rounds"][1:]]
        for way in ("compiled", "without_merging", "with_two_launches")
    }
    assert max(late["without_merging"]) < min(late["compiled"])
    apart = median(late["compiled"]) - median(late["with_two_launches"])
    assert 0 < apart < max(late["compiled"]) - min(late["compiled"])
    for report, least, most in ((h200, 1.065, 1.085), (h100, 0.96, 1.02)):
        for run in report["runs"]:
            if "vllm" in run and len(run["compiled"]["rounds"]) > 1:
                times = run["compiled"]["tokens_per_s"] / run["vllm"]["tokens_per_s"]
                assert least < times < most
    hosts, _ = measured_hosts()
    ratios = [
        hosts[n]["compiled"]["tokens_per_s"] / hosts[n]["vllm"]["tokens_per_s"]
        for n in (3, 5, 11, 12, 13)
    ]
    assert [round(end(ratios), 2) for end in (min, max)] == [1.03, 1.15]
    lone = h200["runs"][-1]["lone"]
    half = lone["launched"]["first_token_ms"] / 2
    assert lone["replayed"]["first_token_ms"] < half


# --- tokens a second, host by host ----------------------------------------------------


def test_speeds_are_compared_on_the_same_host_only():
    rows = DRAWINGS["speeds"]().scene.rows
    assert [row.values for row in rows] == [
        ["20", ""], ["50", "× 2.50"], ["400", ""], ["100", "× 0.25"],
    ]  # fmt: skip
    assert [row.widths for row in rows] == [[20], [50], [400], [100]]  # medians


def test_what_no_host_left_out_is_not_explained():
    with_parts, without = (
        plot_engine_speeds({1: HOSTS[1]}, "t"),
        plot_engine_speeds({1: HOSTS[0]}, "t"),
    )
    assert "a part is left out" in texts(with_parts)
    assert "a part is left out" not in texts(without)


def test_each_round_has_a_sign_where_it_lies():
    """Of what ran once, the bar says it."""
    signs = [row.signs for row in DRAWINGS["speeds"]().scene.rows]
    assert signs == [[], [], [(300, ""), (500, ""), (400, "")], []]
