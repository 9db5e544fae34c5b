"""tools/check_hand_over.py finds what is not in vLLM's files."""

import subprocess
import sys
from pathlib import Path

import pytest

from minipaged.lab.tour.hand_over import PLACES, VERSION, hand_over

ROOT = Path(__file__).parents[2]
FILES = ["engine/arg_utils.py", "entrypoints/launchers/cli_args.py"]
FILES += ["v1/metrics/loggers.py", "v1/spec_decode/metrics.py"]


def write(vllm, version=VERSION, without=""):
    """Files that hold all that the table names, without lines with these words."""
    texts = {file: "" for file in [*FILES, *(place.file for place in PLACES)]}
    for place in PLACES:
        texts[place.file] += f"class {place.name}:\n"
        texts[FILES[0]] += f'    "{place.flag}"\n' * bool(place.flag)
        texts[FILES[2]] += f'    "vllm:{place.metric}"\n' * bool(place.metric)
    texts["_version.py"] = f"__version__ = version = '{version}'\n"
    for file, text in texts.items():
        path = vllm / "vllm" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = text.splitlines(keepends=True)
        path.write_text("".join(li for li in lines if not without or without not in li))


def checked(folder):
    return subprocess.run(
        [sys.executable, str(ROOT / "tools" / "check_hand_over.py"), str(folder)],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip


def test_all_is_there(tmp_path):
    write(tmp_path)
    result = checked(tmp_path)
    assert result.returncode == 0, result.stderr
    assert f"vLLM {VERSION}: {len(PLACES)} mechanisms" in result.stdout


@pytest.mark.parametrize(
    ("without", "words"),
    [
        ("--api-key", "flag --api-key"),
        ("num_preemptions", "metric num_preemptions"),
        ("_preempt_request", "_preempt_request in v1/core/sched/scheduler.py"),
    ],
)
def test_what_is_missing_is_named(tmp_path, without, words):
    write(tmp_path, without=without)
    result = checked(tmp_path)
    assert result.returncode == 1 and result.stderr == f"not there: {words}\n"


def test_another_version_is_refused(tmp_path):
    write(tmp_path, version="0.27.0")
    assert f"the table is of {VERSION}" in checked(tmp_path).stderr


def test_the_table_has_all_places_and_our_modules_exist():
    text = hand_over()
    assert text.count("\n") == len(PLACES) + 1
    for place in PLACES:
        assert (ROOT / "minipaged" / place.ours).exists()
        assert place.mechanism in text
