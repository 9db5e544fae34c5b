"""`python -m minipaged.simulate`: tables, pictures, traces from files."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from minipaged.simulate.command import NAMES, main
from minipaged.simulate.pictures import Queue, latency_chart, queues_of, thinned
from minipaged.simulate.report import Moment

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
    arguments += ["--rates", "4", "--router", "prefix"]
    (one,), (four,) = (main([*arguments, "--replicas", count]) for count in "14")
    assert len(one.report.served) == len(four.report.served)
    assert four.report.summary("latency").mean < one.report.summary("latency").mean


@pytest.mark.parametrize("load", ["applications", "texts"])
def test_routers_side_by_side_while_replicas_die(load, capsys):
    arguments = ["--minutes", "0.1", "--systems", "vllm-prefix-cache", "--load", load]
    arguments += ["--rates", "8", "--replicas", "6", "--deaths", "3", "--away", "2"]
    runs = main([*arguments, "--router", "round-robin", "prefix"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].split()[4] == "prefix" and lines[-2].split()[4] == "round-robin"
    turns, prefix = (run.cluster for run in runs)
    assert len(turns.answers) == len(prefix.answers) > 40
    assert lines[-1].split()[-1] == f"{prefix.num_resent}" and prefix.num_resent > 0
    assert prefix.hit_rate > turns.hit_rate
    assert f"{prefix.hit_rate:.0%}" in lines[-1].split()


def test_a_page_of_routers(tmp_path):
    """Queues of each, and the loads of the replicas of both."""
    page = tmp_path / "page.html"
    arguments = [*SHORT, "--systems", "vllm", "--rates", "3", "--replicas", "3"]
    main([*arguments, "--router", "round-robin", "prefix", "--html", str(page)])
    text = page.read_text("utf-8")
    assert text.count("<svg ") == 2 + 1
    for router in ("round-robin", "prefix"):
        assert f"vLLM, {router}: who runs" in text
    assert "the more even is the load" in text


def test_a_page_is_drawn(tmp_path):
    page = tmp_path / "page.html"
    runs = main([*SHORT, "--rates", "2", "8", "--html", str(page)])
    text = page.read_text("utf-8")
    assert text.count("<svg ") == 1 + 3
    for svg in text.split("<p>")[1:]:
        ET.fromstring(svg.removesuffix("</p>"))
    chart = latency_chart({"vLLM": runs[:2]}, "requests a second")
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
    assert "1 of 5 requests left out: 1 over 2,048 positions" in capsys.readouterr().out
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
        (["--rates", "nan"], "more than 0"),
        (["--rates", "inf"], "more than 0"),
        (["--minutes", "inf"], "more than 0"),
        (["--samples", "0"], "whole number from 1"),
        (["--beams", "-1"], "whole number from 1"),
        (["--replicas", "two"], "whole number from 1"),
        (["--prefix", "-5"], "whole number from 0"),
        (["--prefix", "9", "--load", "conversations"], "leave it out"),
        (["--prefix", "9", "--trace", "azure", "x"], "leave it out"),
        (["--load", "wmt", "--trace", "azure", "x"], "not allowed with"),
        (["--server", "opt-66b", "--costs", "x"], "not allowed with"),
        (["--html", "no-such-folder/page.html"], "a folder that exists"),
        (["--html", "."], "a folder that exists"),
        (["--prefix", "3000"], "over 2,048 positions; no request remains"),
        (["--server", "opt-66b", "--samples", "6"], "too large for Orca (Max), even"),
        (["--samples", "3000", "--systems", "vllm"], "too large for vLLM, even alone"),
        (["--samples", "300", "--systems", "orca-oracle"], "for Orca (Oracle), even"),
    ],
)
def test_what_cannot_be_done_is_said(arguments, why, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    errors = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
    assert len(errors) == 1 and why in errors[0]


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
SIZES = '"num_slots": 4096, "max_length": 2048, "block_size": 16, "test": []'
BAD_STEP = '"fit": [{"num_moons": 1, "seconds": 1.0}]'
NO_TIME = '"fit": [{"num_tokens": 1, "seconds": 0}]'


@pytest.mark.parametrize(
    ("text", "arguments", "why"),
    [
        (AZURE, ["--trace", "azure"], "no request with a prompt and an answer"),
        (AZURE.lower(), ["--trace", "azure"], "no request with a prompt"),
        (AZURE + "2023-11-16 18:17:03.97,374", ["--trace", "azure"], "line 2"),
        (AZURE + "2023-11-16 18:17:03.97,374,1", ["--trace", "burstgpt"], "line 2"),
        ('{"timestamp": 0}', ["--trace", "mooncake"], "line 1"),
        ('{"timestamp": 0, "inp', ["--trace", "mooncake"], "line 1"),
        ("[]", ["--costs"], "not as benchmarks.gpu.step_costs writes it"),
        ("{", ["--costs"], "not as benchmarks.gpu.step_costs writes it"),
        (f"{{{SIZES}}}", ["--costs"], "not as benchmarks.gpu.step_costs writes it"),
        (f"{{{SIZES}, {BAD_STEP}}}", ["--costs"], "num_moons"),
        (f"{{{SIZES}, {NO_TIME}}}", ["--costs"], "more than 0 seconds"),
        (f'{{{SIZES}, "fit": []}}', ["--costs"], "no steps to fit"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path, capsys, text, arguments, why):
    path = tmp_path / "given"
    path.write_text(text)
    test_what_cannot_be_done_is_said([*arguments, str(path)], why, capsys)


def test_what_one_system_cannot_hold_is_left_out_for_all(capsys):
    """Six samples of a long answer fill more than the 9,700 slots of OPT-66B."""
    arguments = ["--server", "opt-66b", "--samples", "6", "--rates", "1"]
    runs = main([*arguments, "--systems", "orca-oracle", "vllm", "--minutes", "1"])
    assert "too large for Orca (Oracle), even alone" in capsys.readouterr().out
    arrivals = [sorted(one.arrival for one in run.report.served) for run in runs]
    assert arrivals[0] == arrivals[1] and 30 < len(arrivals[0]) < 60


def test_rates_of_conversations_count_conversations(capsys):
    (run,) = main(
        [*SHORT, "--systems", "vllm", "--rates", "1", "--load", "conversations"]
    )
    served = run.report.served
    last = max(one.arrival for one in served) / 60
    words = f"ask {len(served)} questions in {last:.1f} minutes"
    assert words in capsys.readouterr().out
    assert sum(one.arrival < 12 for one in served) < 24 < len(served)


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


def measured(tmp_path):
    names = "num_tokens num_sequences num_logits keys_read pairs".split()
    rows = [
        {**dict.fromkeys(names, 0), "num_sequences": n, "seconds": 0.01 + 0.001 * n}
        for n in (1, 2, 8)
    ]
    sizes = {"num_slots": 8192, "max_length": 4096, "block_size": 16}
    path = tmp_path / "costs.json"
    path.write_text(json.dumps(sizes | {"fit": rows, "test": []}))
    return path


def test_what_was_not_measured_is_no_free_swap(tmp_path, capsys):
    path = str(measured(tmp_path))
    arguments = ["--costs", path, "--systems", "vllm", "vllm-swap"]
    test_what_cannot_be_done_is_said(arguments, "what it costs to move", capsys)
    arguments = [*SHORT, "--costs", path, "--systems", "vllm", "--rates", "1"]
    for more, is_said in (["--samples", "2"], True), ([], False):
        main([*arguments, *more])
        assert ("copied blocks take no time" in capsys.readouterr().out) == is_said


def test_queues_of_replicas_are_added():
    """Steps of 2 and 3 seconds; the first replica does nothing from 2 to 6."""
    timeline = [
        Moment(2.0, 2.0, running=1, waiting=4, used_blocks=0, num_tokens=0,
               preemptions=0, replica=0),
        Moment(3.0, 3.0, 2, 0, 0, 0, 0, replica=1),
        Moment(4.0, 1.0, 5, 1, 0, 0, 0, replica=1),
        Moment(6.0, 2.0, 5, 1, 0, 0, 0, replica=1),
        Moment(8.0, 2.0, 7, 0, 0, 0, 0, replica=0),
    ]  # fmt: skip
    found = {queue.moment: queue[1:] for queue in queues_of(timeline)}
    assert found == {0: (3, 4), 2: (2, 0), 3: (5, 1), 6: (7, 0), 8: (0, 0)}


def test_a_long_queue_is_drawn_at_moments_that_are_evenly_apart():
    """A request runs for the last second of every four."""
    queues = [
        Queue(4 * at + 3 * running, running, 0)
        for at in range(1000)
        for running in (0, 1)
    ]
    found = thinned(queues, 300)
    assert len(found) == 300
    assert found[0] == queues[0] and found[-1].moment == queues[-1].moment
    assert 0.2 < sum(queue.running for queue in found) / 300 < 0.3
    assert thinned(queues[:200], 300) == queues[:200]


def test_a_measured_server(tmp_path):
    """A step takes 10 ms and 1 ms a sequence; one request at a time: 11 ms a token."""
    path = measured(tmp_path)
    arguments = ["--costs", str(path), "--systems", "vllm", "--load", "wmt"]
    (run,) = main([*arguments, "--rates", "0.01", "--minutes", "20"])
    assert run.report.summary("time_per_token").mean == pytest.approx(0.011)
