"""READMEs, CONTRIBUTING and CHANGELOG: what they link to and name is there."""

import re
import subprocess

import pytest

from helpers import guides
from helpers import notebook_files as files
from helpers import notebook_links as links
from helpers.guides import GUIDES, ROOT

each_guide = pytest.mark.parametrize(
    "path", GUIDES, ids=lambda path: str(path.relative_to(ROOT))
)


def test_these_are_the_guides():
    names = {str(path.relative_to(ROOT)) for path in GUIDES}
    folders = ("", "benchmarks/", "findings/", "notebooks/")
    wanted = {"CHANGELOG.md", "CONTRIBUTING.md", *(f"{f}README.md" for f in folders)}
    assert names >= wanted


@each_guide
def test_no_link_is_broken(path):
    text = path.read_text("utf-8")
    assert links.broken_links(text, path.parent, links.github_anchors(text)) == []
    assert links.strange_badges(text) == []


@each_guide
def test_files_modules_and_targets_that_are_named_are_there(path):
    assert guides.missing(path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("`minipaged/absent/probe.py` tests/absent.py", "minipaged/absent/probe.py"),
        ("```\nmake test TESTS=tests/absent\n```", "tests/absent"),
        ("`benchmarks/gpu/NAME.json`", "benchmarks/gpu/NAME.json"),
        ("`python -m benchmarks.cpu.absent`", "benchmarks.cpu.absent"),
        ("`make PYTHON=python3.12 absent`", "make absent"),
        ("`MODEL=one make absent`", "make absent"),
        ("```\nplease make sure\ncd x && make absent\n```", "make absent"),
    ],
)
def test_what_is_named_in_vain_is_found(text, found):
    assert guides.missing(text) == [found]


def test_the_code_of_the_readme_and_of_the_packages_page_runs(capsys):
    """One after the other: the second goes on where the first has ended."""
    pages = (ROOT / "README.md", ROOT / "minipaged" / "README.md")
    text = "".join(path.read_text("utf-8") for path in pages)
    exec("".join(re.findall(r"^```python\n(.*?)^```", text, re.M | re.DOTALL)), {})
    capital, story, streamed = capsys.readouterr().out.splitlines()
    assert "Paris" in capital and streamed == story.removesuffix(" length")


def stored(name: str) -> str:
    """A notebook's sources and what its cells have printed."""
    cells = files.load(ROOT / "notebooks" / name)["cells"]
    printed = (files.output_text(cell) for cell in cells if "outputs" in cell)
    return "\n".join([*map(files.source, cells), *printed])


def not_of(lesson: str, guide: str) -> list[str]:
    """The blocks of a guide's look inside a lesson that the lesson does not have."""
    look = guide.split("## A look inside a lesson")[1].split("\n## ")[0]
    blocks = re.findall(r"^```(?:py|text)\n(.*?)^```", look, re.M | re.DOTALL)
    assert len(blocks) == 3
    return [block for block in blocks if block not in lesson + "\n"]


def test_the_look_inside_a_lesson_is_what_the_lesson_has():
    guide = (ROOT / "README.md").read_text("utf-8")
    lesson = stored("02_block_pool.ipynb")
    assert not_of(lesson, guide) == []
    harm, proof = not_of(lesson, guide.replace("Madrid", "Rome").replace("6 of 6", "5"))
    assert "Rome" in harm and "5 prompts equal" in proof


def test_the_readme_lists_the_folders_of_the_package():
    listed = re.findall(r"^  (\w+)/  ", (ROOT / "README.md").read_text("utf-8"), re.M)
    packages = {path.parent.name for path in ROOT.glob("minipaged/*/__init__.py")}
    assert listed and set(listed) == packages


def test_the_changelog_is_of_the_known_form():
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    for version in versions[1:]:
        assert re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", version)
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= kinds


def make(*arguments: str) -> subprocess.CompletedProcess:
    """Whatever environment there is will do: none is built."""
    return subprocess.run(
        ["make", "--no-print-directory", "-o", ".venv/.ready", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )


def test_make_knows_each_benchmark_and_runs_all_but_the_longest_and_those_of_ray():
    modules = ROOT.glob("benchmarks/cpu/*.py")
    names = {path.stem for path in modules if "__main__" in path.read_text("utf-8")}
    refused = make("bench-one", "NAME=nothing")
    assert refused.returncode and "families" in names
    (said,) = refused.stdout.splitlines()
    assert set(said.partition("NAME may be: ")[2].split()) == names
    one = make("-n", "bench-one", "NAME=step", "BENCH_FLAGS=--save").stdout
    assert one.endswith("python -m benchmarks.cpu.step --save\n")
    run = re.findall(r"benchmarks\.cpu\.(\w+)", make("-n", "bench").stdout)
    assert {*run, "families", "replicas", "replicas_simulated"} == names


FINDINGS = sorted((ROOT / "findings").glob("*.sh"))
HEAD = """\
#!/usr/bin/env bash
# [^:]*\\d+\\.\\d+[^:]*: .+
# Behaviour: (?:.|\\n#)+
# One would guess: (?:.|\\n#)+
# For users: (?:.|\\n#)+
# Seen on \\d{4}-\\d\\d-\\d\\d:(?:\\n#   .+)+
set -euo pipefail
folder=\\$\\(mktemp -d\\)
trap 'rm -rf "\\$folder"' EXIT
"""


def faults_of_finding(text: str) -> list[str]:
    """In what it is not of the form that findings/README.md asks for."""
    installed = re.findall(r"pip\" install --quiet (.+)", text)
    packages = " ".join(installed).split()
    facts = {
        "its head": re.match(HEAD, text),
        "pinned packages": packages and all("==" in name for name in packages),
        "none of ours": "minipaged" not in text,
        "an assertion": re.search(r"^ *assert ", text, re.MULTILINE),
    }
    return [name for name, holds in facts.items() if not holds]


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: path.stem)
def test_a_finding_has_its_form(path):
    assert faults_of_finding(path.read_text("utf-8")) == []
    assert path.stat().st_mode & 0o111, "it cannot be run"


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("# For users: ", "# So: ", "its head"),
        ("trap", "# trap", "its head"),
        ("torch==2.13.0", "torch", "pinned packages"),
        ("import torch", "import torch, minipaged", "none of ours"),
        ("assert ", "print, ", "an assertion"),
    ],
)
def test_a_finding_of_another_form_is_found(old, new, fault):
    text = (ROOT / "findings" / "triton_float8.sh").read_text("utf-8")
    assert old in text
    assert faults_of_finding(text.replace(old, new)) == [fault]
