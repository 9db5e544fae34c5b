"""The pages about benchmarks say what is stored, and nothing else."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tools import benchmark_page, benchmark_questions, benchmark_tables

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """All that is stored, in a folder where it may be changed."""
    for folder in benchmark_tables.FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / folder)
    monkeypatch.setattr(benchmark_tables, "ROOT", tmp_path)
    monkeypatch.setattr(benchmark_questions, "ROOT", tmp_path)
    return tmp_path


def change(path, *keys, value):
    """One value of a report, or without it if the value is None."""
    report = json.loads(path.read_text("utf-8"))
    *way, last = keys
    inner = report
    for key in way:
        inner = inner[key]
    assert last in inner
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    path.write_text(json.dumps(report), "utf-8")


def test_the_pages_are_what_the_tool_makes():
    for path, text in benchmark_page.pages().items():
        assert path.read_text("utf-8") == text, "run python -m tools.benchmark_page"


def test_every_report_is_on_a_page():
    text = "".join(benchmark_page.pages().values())
    for folder in benchmark_tables.FOLDERS:
        for path in (ROOT / folder).glob("*.json"):
            assert f"(../{folder}/{path.name})" in text, path


def test_every_table_has_a_machine_and_a_date_above_it():
    for text in benchmark_page.pages().values():
        for part in text.split("\n### ")[1:]:
            _, above, table, *_ = part.split("\n\n")
            assert re.search(r" cores; \d+ \w+ \d{4}; torch \d", above), above
            assert table.startswith("| ")


def test_a_figure_that_is_stored_anew_is_told_anew(copied):
    path = copied / "figures/data/cpu-beams.json"
    change(path, "speed", "huggingface_seconds", value=7.654)
    readme, _ = benchmark_page.pages().values()
    assert "| HuggingFace | 7.65 | 2.61 |" in readme


def test_a_machine_that_is_not_stored_is_not_invented(copied):
    path = copied / "figures/data/cpu-beams.json"
    change(path, "machine", value=None)
    readme, _ = benchmark_page.pages().values()
    part = readme.split("### What do beams")[1]
    assert part.split("\n\n")[1].startswith("*The machine and the date are not stored")


def test_what_reaches_the_aim_in_8_bits_is_counted_anew(copied):
    path = copied / "figures/data/eight-bits-batches.json"
    change(path, "batches", "aim", value=0.0)
    readme, _ = benchmark_page.pages().values()
    assert "The aim, at most 0.0 above 100 MB, is reached in 0 of " in readme


@pytest.mark.parametrize(("times", "said"), [(0.949, "missed"), (0.95, "reached")])
def test_whether_64_users_reach_the_aim_with_guesses_is_read(copied, times, said):
    path = copied / "minipaged/lab/measure/data/gpu-speculation.json"
    change(path, "free, 64, 2 guesses", "times_plain", value=times)
    readme, _ = benchmark_page.pages().values()
    assert f"with free guesses it is {said} ({times:.3f})" in readme


def test_bursts_are_those_of_the_host_that_has_them(copied):
    path = copied / "figures/data/first-batches.json"
    burst = {"step_ms": [[4.0, 5.0], [4.0, 12.0], [4.0, 6.0]]}
    change(path, "hosts", 1, "arrivals", value=[burst])
    readme, _ = benchmark_page.pages().values()
    assert "3 bursts were timed" in readme
    assert "the longest is 1.25 to 3.00 times the median" in readme


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.1909, "0.191"),
        (2.449, "2.45"),
        (12.06, "12.1"),
        (18882.5, "18,883"),
        (0, "0"),
    ],
)
def test_numbers(value, said):
    assert benchmark_tables.number(value) == said
