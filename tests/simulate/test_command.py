"""`python -m minipaged.simulate`: tables, pictures, traces from files."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from minipaged.simulate.command import NAMES, main
from minipaged.simulate.pictures import latency_chart

SHORT = ["--minutes", "0.2"]


def test_a_table_of_systems_and_rates(capsys):
    runs = main([*SHORT, "--systems", "vllm", "orca-max", "--rates", "2", "10"])
    lines = capsys.readouterr().out.splitlines()
    assert len(runs) == 4 == len(lines) - 2
    assert lines[2].startswith("vLLM") and lines[-1].startswith("Orca (Max)")
    fields = lines[2].split()
    summary = runs[0].report.summary("time_to_first_token")
    assert fields[1] == "2" and float(fields[2]) == pytest.approx(
        summary.mean, abs=1e-3
    )


@pytest.mark.parametrize("system", NAMES)
def test_every_system_serves(system):
    (run,) = main([*SHORT, "--systems", system, "--rates", "5", "--load", "wmt"])
    assert len(run.report.served) == 60


@pytest.mark.parametrize("several", [["--samples", "3"], ["--beams", "3"]])
def test_samples_and_beams(several):
    (run,) = main([*SHORT, "--systems", "vllm", "--rates", "2", *several])
    assert len(run.report.served) == 24


def test_replicas_behind_a_router():
    arguments = [*SHORT, "--systems", "vllm-prefix-cache", "--load", "conversations"]
    arguments += ["--rates", "20", "--router", "prefix-aware"]
    (one,), (four,) = (main([*arguments, "--replicas", count]) for count in "14")
    assert len(one.report.served) == len(four.report.served)
    assert four.report.summary("latency").mean < one.report.summary("latency").mean


def test_a_page_is_drawn(tmp_path):
    page = tmp_path / "page.html"
    runs = main([*SHORT, "--rates", "2", "8", "--html", str(page)])
    text = page.read_text("utf-8")
    assert text.count("<svg ") == 1 + 3
    for svg in text.split("<p>")[1:]:
        ET.fromstring(svg.removesuffix("</p>"))
    chart = latency_chart({"vLLM": runs[:2]})
    (line,) = chart.curves
    latency = runs[1].report.summary("normalized_latency").mean
    assert line.points[1] == (8.0, latency)


def test_a_recorded_trace_goes_faster_and_long_requests_are_left_out(tmp_path, capsys):
    path = tmp_path / "burst.csv"
    rows = [f"{10 * n},ChatGPT,{100 + n},20,0,log" for n in range(4)]
    rows.append("41,GPT-4,4000,20,4020,log")
    head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
    path.write_text("\n".join([head, *rows]))
    arguments = ["--trace", "burstgpt", str(path), "--systems", "vllm"]
    one, two = main([*arguments, "--rates", "1", "2"])
    assert "left out: 1 requests over 2048 positions" in capsys.readouterr().out
    arrivals = [[each.arrival for each in run.report.served] for run in (one, two)]
    assert arrivals == [[0, 10, 20, 30], [0, 5, 10, 15]]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--trace", "unknown", "x"], "azure, burstgpt, mooncake"),
        (["--trace", "azure", "missing.csv"], "missing.csv"),
        (["--costs", "missing.json"], "missing.json"),
        (["--samples", "2", "--beams", "2"], "not allowed with"),
        (["--rates", "0"], "more than 0"),
    ],
)
def test_what_cannot_be_done_is_said(arguments, why, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert why in capsys.readouterr().err


def test_it_needs_no_torch():
    code = (
        "import sys; from minipaged.simulate.command import main;"
        "main(['--minutes', '0.02', '--rates', '50', '--systems', 'vllm']);"
        "print({'torch', 'numpy', 'transformers'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.stdout.splitlines()[-1] == "set()", result.stderr


def test_a_measured_server(tmp_path):
    """A step takes 10 ms and 1 ms a sequence; one request at a time: 11 ms a token."""
    names = "num_tokens num_sequences num_logits keys_read pairs".split()
    rows = [
        {**dict.fromkeys(names, 0), "num_sequences": n, "seconds": 0.01 + 0.001 * n}
        for n in (1, 2, 8)
    ]
    sizes = {"num_slots": 8192, "max_length": 4096, "block_size": 16}
    path = tmp_path / "costs.json"
    path.write_text(json.dumps(sizes | {"fit": rows, "test": []}))
    arguments = ["--costs", str(path), "--systems", "vllm", "--load", "wmt"]
    (run,) = main([*arguments, "--rates", "0.01", "--minutes", "20"])
    assert run.report.summary("time_per_token").mean == pytest.approx(0.011)
