"""Common misspellings: in notebooks, guides, and the docstrings of all code."""

import json
import subprocess
import sys
from pathlib import Path

from helpers import notebook_files as files
from helpers.guides import GUIDES
from helpers.sample_notebook import code, prose
from tools import museum

ROOT = files.ROOT
FOLDERS = ("minipaged", "tools", "benchmarks", "tests")
SLIP = "bec" + "uase"  # in two parts, for this file is checked too


def misspelt(*paths: Path) -> list[str]:
    """What codespell finds; pyproject.toml says which words are right after all."""
    config = ["--toml", str(ROOT / "pyproject.toml")]
    result = subprocess.run(
        [sys.executable, "-m", "codespell_lib", *config, *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not result.stderr, result.stderr
    return result.stdout.splitlines()


def as_text(notebook: Path, folder: Path) -> Path:
    """The sources of a notebook's cells as a text file: its outputs are left out."""
    cells = files.load(notebook)["cells"]
    text = folder / f"{notebook.stem}.txt"
    text.write_text("\n\n".join(files.source(cell) for cell in cells), "utf-8")
    return text


def without_quotes(page: Path, folder: Path) -> Path:
    """The museum's own words: what notebooks have printed is often cut."""
    text = folder / page.name
    text.write_text(museum.MARK.sub("", page.read_text("utf-8")), "utf-8")
    return text


def test_code_and_guides_are_spelt_right(tmp_path):
    code = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert len(code) > 40
    guides = {*GUIDES} - {museum.PAGE} | {without_quotes(museum.PAGE, tmp_path)}
    assert misspelt(*code, *guides) == []


def test_notebooks_are_spelt_right(tmp_path):
    assert misspelt(*(as_text(path, tmp_path) for path in files.NOTEBOOKS)) == []


def test_a_slip_is_found_in_prose_comments_strings_and_docstrings(tmp_path):
    texts = [f"# 1 · {SLIP}", f"x = 1  # {SLIP}", f"print('{SLIP}')"]
    for index, cell in enumerate([prose(texts[0]), *map(code, texts[1:])]):
        notebook = tmp_path / f"{index}.ipynb"
        notebook.write_text(json.dumps({"cells": [cell]}), "utf-8")
        assert SLIP in misspelt(as_text(notebook, tmp_path))[0]
    module = tmp_path / "module.py"
    module.write_text(f'"""Why? {SLIP.title()}."""\n')
    assert len(misspelt(module)) == 1
