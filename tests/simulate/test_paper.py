"""The paper's figures, on short traces; curves, and what is said of them."""

import pytest

from minipaged.simulate import claims, paper
from minipaged.simulate.rates import Point, curve, sustained_rate
from minipaged.simulate.report import Moment, Report, Served
from tools import paper_figures


def report(latency):
    """One request of one token that took so long."""
    served = Served(0.0, latency, latency, 1, 1, 0, 0)
    return Report([served], [Moment(latency, latency, 1, 0, 1, 1, 0)])


@pytest.mark.parametrize("start", [0.5, 3.0, 40.0])
def test_a_curve_closes_in_on_the_limit(start):
    """Latency 0.01 / (1 - rate / 7) reaches 0.2 at a rate of 6.65."""
    points = curve(lambda rate: report(0.01 / max(1e-6, 1 - rate / 7)), 0.2, start)
    assert points == sorted(points) and len(points) >= 6
    assert sustained_rate(points, 0.2) == pytest.approx(6.65, rel=0.05)


def test_a_limit_that_is_never_passed():
    points = curve(lambda rate: report(0.01), 0.2)
    assert len(points) == 11 and sustained_rate(points, 0.2) is None


def test_between_two_points_the_line_is_straight_on_logarithmic_scales():
    points = [Point(1.0, 0.1, 1, 0), Point(4.0, 0.4, 1, 0)]
    assert sustained_rate(points, 0.2) == pytest.approx(2.0)


def test_figure_12_in_short(monkeypatch):
    """vLLM sustains most, FasterTransformer least; with a low limit, that is fast."""
    monkeypatch.setattr(paper, "LIMIT", 0.04)
    found = paper.figure_12(0.4, "OPT-13B, ShareGPT")
    rates = [each["sustained"] for each in found.values()]
    assert rates == sorted(rates, reverse=True)
    assert list(found) == list(paper.SYSTEMS)


def test_figure_15_in_short():
    """More samples, and more beams, save more; beams save most."""
    shares = [
        paper.several("Alpaca", width, kind).saved(3, 8.0)
        for kind in ("samples", "beams")
        for width in (2, 6)
    ]
    assert shares == sorted(shares) and shares[2] > 1.5 * shares[1]


def test_traces_of_short_answers_are_shorter():
    """So that as many answers follow each other."""
    long, short = (
        paper.BASIC[f"OPT-13B, {name}"].trace(2, 10.0)
        for name in ("ShareGPT", "Alpaca")
    )
    assert len(long) == 1200 and len(short) == round(1200 * 58.45 / 337.99)


def test_prefixes_are_shared_in_figure_16():
    found = paper.Load(paper.LLAMA_13B, "WMT", 16.0, prefix=341)
    cached, plain = (
        found.run((paper.SYSTEMS | paper.VARIANTS)[name], 2, 16.0)
        for name in ("vLLM, prefix cache", "vLLM")
    )
    assert cached.share_cached > 0.8 and plain.share_cached == 0
    assert cached.computed_tokens < plain.computed_tokens / 2


def test_a_recorded_trace_is_served_at_many_rates(tmp_path, monkeypatch):
    """600 tokens, three times a second; every fourth request is too long for OPT."""
    monkeypatch.setattr(paper, "LIMIT", 0.04)
    path = tmp_path / "azure.csv"
    rows = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for second in range(50):
        moment = f"2023-11-16 18:17:{second:02}"
        rows += [f"{moment}.{third}000000,500,100" for third in (0, 3, 6)]
        rows += [f"{moment}.9000000,1949,100"]
    path.write_text("\n".join(rows))
    found = paper.recorded(1, path)
    assert (found["requests"], found["served"]) == (200, 150)
    assert (found["mean_prompt"], found["mean_output"]) == (500, 100)
    rates = [each["sustained"] for each in found["curves"].values()]
    assert rates[0] > 1.2 * rates[-1] and found["curves"]["vLLM"]["points"]


def test_large_blocks_are_slow_in_figure_18(monkeypatch):
    """Where answers are short, most of a large block is never used."""
    monkeypatch.setattr(paper, "BLOCK_SIZES", (16, 256))
    found = paper.figure_18(1, "Alpaca")
    small, large = (found[size] for size in ("16", "256"))
    assert small["rate"] == large["rate"] == 112
    assert 3 * small["normalized_latency"] < large["normalized_latency"]
    assert large["mean_running"] < small["mean_running"]


def test_every_claim_has_its_figures():
    """With made-up results for all parts, each claim finds its numbers."""
    curves = {name: {"sustained": 2.0} for name in (*paper.SYSTEMS, *paper.VARIANTS)}
    results = {}
    for name in paper.PARTS:
        widths = {"2": 0.1, "4": 0.2, "6": 0.5}
        results[name] = curves
        if "figure 13" in name:
            rates = ("2", "4", "8", "30", "60", "120")
            results[name] = {
                f"{rate} a second": dict.fromkeys(curves, 3.0) for rate in rates
            }
        elif "figure 14" in name:
            results[name] = dict.fromkeys(widths, curves)
        elif "figure 15" in name:
            results[name] = {"Alpaca": widths, "ShareGPT": widths}
    found = {one.what: one for one in claims.verdicts(results)}
    assert len(found) == len(claims.CLAIMS)
    ratio = found["rate over Orca (Oracle), ShareGPT, by size"]
    assert ratio.ours == [1.0, 1.0, 1.0] and ratio.word == "outside" and ratio.note
    saved = found["memory saved (%), beams, Alpaca"]
    assert saved.ours == pytest.approx([10, 20, 50]) and saved.note
    assert saved.word == "1 inside, 2 outside"
    few = found["rate over FasterTransformer, ShareGPT, by size"]
    assert few.word == "inside" and not few.note
    lines = claims.table(results).splitlines()
    for word in ("inside", "1 inside, 2 outside", "near", "outside"):
        count = sum(one.word == word for one in found.values())
        assert sum(line.endswith("  " + word) for line in lines) == count > 0
    assert sum("up to 22" in line for line in lines) == 2
    assert [*claims.verdicts({})] == []


def test_a_rate_that_was_never_passed_is_no_number():
    found = {name: {"sustained": 2.0} for name in paper.SYSTEMS}
    found["vLLM"] = {"sustained": None}
    results = {"figure 17": found}
    (verdict,) = claims.verdicts(results)
    assert verdict.ours == [None] and verdict.word == "unknown"
    assert claims.table(results).splitlines()[1].split()[-2:] == ["?", "unknown"]


def test_the_script_stores_parts_as_they_come(tmp_path, capsys, monkeypatch):
    parts = {
        "figure 15, samples": (lambda minutes, kind: {"x": minutes / 3}, "samples"),
        "figure 17": (lambda minutes, name: {"y": 1.0}, "chat"),
    }
    monkeypatch.setattr(paper_figures, "PARTS", parts)
    out = tmp_path / "paper.json"
    for only in ("15", "17"):
        argv = ["--minutes", "1", "--only", only, "--out", str(out)]
        paper_figures.main(argv)
    stored = paper_figures.json.loads(out.read_text())
    assert [*stored["parts"]] == [*parts]
    part = stored["parts"]["figure 15, samples"]
    assert part["found"] == {"x": 0.3333} and part["minutes"] == 1
    monkeypatch.setattr(paper_figures, "recorded", lambda minutes, path: {"z": path})
    paper_figures.main(["--azure", "a.csv", "--only", "--out", str(out)])
    stored = paper_figures.json.loads(out.read_text())
    assert [*stored["parts"]] == [*parts, "Azure"]
    assert stored["parts"]["Azure"]["found"] == {"z": "a.csv"}
    assert "paper" in capsys.readouterr().out
