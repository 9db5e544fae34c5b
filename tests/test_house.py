"""The house itself: imports, layers, the order of lessons, one set of dependencies."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from torch import nn

import minipaged as mp
from helpers.counting import count_calls
from helpers.guides import MAKEFILE, TARGETS
from minipaged import lab

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "minipaged"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")


def run(*arguments, **options):
    return subprocess.run(
        arguments, capture_output=True, text=True, cwd=ROOT, check=False, **options
    )


def lint_imports(*arguments):
    return run(sys.executable, str(ROOT / "tools" / "lint_imports.py"), *arguments)


def test_the_layers_hold():
    result = lint_imports()
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Contracts: 3 kept, 0 broken" in result.stdout


def test_the_layers_would_notice(tmp_path):
    """The linter is not just silent: with two floors exchanged, it finds an import."""
    config = (ROOT / "pyproject.toml").read_text()
    upside_down = config.replace(
        '    "minipaged.model",\n    "minipaged.attention",\n'
        '    "minipaged.simulate",\n    "minipaged.scheduling",\n'
        '    "minipaged.memory",',
        '    "minipaged.memory",\n    "minipaged.model",\n'
        '    "minipaged.attention",\n    "minipaged.simulate",\n'
        '    "minipaged.scheduling",',
    )
    assert upside_down != config
    (tmp_path / "pyproject.toml").write_text(upside_down)
    result = lint_imports("--config", str(tmp_path / "pyproject.toml"), "--no-cache")
    assert result.returncode != 0
    assert "minipaged.model.paged_model -> minipaged.memory.block_pool" in result.stdout


def lesson_of(path: Path) -> int | None:
    """The lesson that a module's first line names, A being 7; None for the lab."""
    first_line = path.read_text().splitlines()[0]
    match = re.match(r'"""(?:Lesson (\d)|Appendix ([A-Z]))[:;]|"""Lab:', first_line)
    assert match, f"{path.name}: the first line names neither a lesson nor the lab"
    if match[2]:
        return 7 + ord(match[2]) - ord("A")
    return int(match[1]) if match[1] else None


def imported_modules(path: Path) -> set[Path]:
    """Those that it imports at its top, not where it hands over to a later lesson."""
    tree = ast.parse(path.read_text())
    names = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    paths = {ROOT / (name.replace(".", "/") + ".py") for name in names if name}
    return {path for path in paths if path in MODULES}


def test_a_lesson_hands_over_by_an_ordinary_local_import():
    """Lesson 2's attention by name, and its step, lead to lessons 4 to 6."""
    found = {}
    for path in MODULES:
        own = lesson_of(path)
        for node in ast.walk(ast.parse(path.read_text())):
            if own and isinstance(node, ast.ImportFrom) and node.col_offset:
                target = ROOT / (node.module.replace(".", "/") + ".py")
                if target in MODULES and (lesson_of(target) or 9) > own:
                    found.setdefault(path.stem, set()).add(target.stem)
    assert found["backend"] >= {"streamed", "attention"}
    assert "prefix_cache" in found["scheduler"]  # for its type only
    assert found["arguments"] >= {"beam"} and found["next_works"] >= {"restart"}


@pytest.mark.parametrize("word", ["import_module", "__import__", "mock", "monkeypatch"])
def test_nothing_is_imported_by_a_string_and_nobody_watches_by_patching(word):
    for path in MODULES:
        names = {
            getattr(node, "id", None) or getattr(node, "attr", None) or ""
            for node in ast.walk(ast.parse(path.read_text()))
        }
        modules = re.findall(r"^\s*(?:from|import) ([\w.]+)", path.read_text(), re.M)
        assert word not in {*names, *".".join(modules).split(".")}, path.name


def foreign_privates(text: str) -> set[str]:
    """Private names that a module asks of anything but `self`, `cls` and `super()`."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            if owner not in ("self", "cls", "super()"):
                found.add(node.attr)
    return {name for name in found if re.match("_[^_]", name)}


BENEATH_THE_LAB = [path for path in MODULES if "lab" not in path.parts]


def own_privates() -> set[str]:
    """Those that we define ourselves: functions, classes, and attributes of `self`."""
    found = set()
    for path in BENEATH_THE_LAB:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
                found.add(node.attr)
    theirs = dir(nn.Module())  # some names are torch's, too
    return {name for name in found if re.match("_[^_]", name)} - {*theirs}


def test_nobody_uses_what_is_another_s_own():
    """Of torch, HuggingFace and Triton, some privates are needed."""
    own = own_privates()
    assert {"_free", "_attend", "_launch"} <= own
    for path in BENEATH_THE_LAB:
        assert not foreign_privates(path.read_text()) & own, path.name
    assert foreign_privates("pool._free, self._a, super()._b") == {"_free"}
    assert foreign_privates("from memory import _new") == {"_new"}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_a_module_imports_nothing_of_a_later_lesson(path):
    lesson = lesson_of(path)
    for imported in imported_modules(path):
        theirs = lesson_of(imported)
        assert lesson is None or (theirs is not None and theirs <= lesson), (
            imported.name
        )


def test_the_tables_need_neither_torch_nor_numpy():
    code = (
        "import minipaged as mp, sys;"
        "pool = mp.BlockPool(8, 4); mp.BlockTable(pool).append(9);"
        "print({'torch', 'numpy', 'transformers'} & set(sys.modules))"
    )
    assert run(sys.executable, "-c", code).stdout.strip() == "set()"


@pytest.mark.parametrize("face", [mp, lab], ids=["minipaged", "lab"])
def test_every_public_name_resolves_and_has_a_docstring(face):
    """The stub is what is imported, and what readers and type checkers see."""
    stub = ast.parse(Path(face.__file__).with_suffix(".pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    names = {alias.asname for node in imports for alias in node.names}
    assert names == set(face.__all__) <= set(dir(face)) and len(names) > 15
    for name in names:
        assert getattr(face, name).__doc__, name
    with pytest.raises(AttributeError, match="Nonsense"):
        _ = face.Nonsense


def test_public_definitions_have_docstrings():
    missing = []
    for path in MODULES:
        tree = ast.parse(path.read_text())
        definitions = [tree, *(n for n in tree.body if isinstance(n, ast.ClassDef))]
        for parent in definitions:
            for node in parent.body:
                if not isinstance(node, ast.FunctionDef | ast.ClassDef):
                    continue
                if any(ast.unparse(d).endswith("setter") for d in node.decorator_list):
                    continue
                if not node.name.startswith("_") and not ast.get_docstring(node):
                    missing.append(f"{path.name}: {node.name}")
    assert not missing


def requirements(*extras: str) -> set[str]:
    project = PYPROJECT["project"]
    groups = [project["dependencies"]]
    groups += [project["optional-dependencies"][extra] for extra in extras]
    return {line for group in groups for line in group}


def test_conda_installs_what_pip_installs():
    text = (ROOT / "environment.yml").read_text()
    listed = re.findall(r"^      - (.+)$", text, flags=re.MULTILINE)
    assert listed[-1] == "-e ."
    assert set(listed[:-1]) == requirements("lab", "serve", "test")
    low, high = re.search(r"- python(>=[\d.]+),(<[\d.]+)", text).groups()
    assert PYPROJECT["project"]["requires-python"] == f"{low},{high}"


def test_the_tested_set_pins_every_dependency():
    text = (ROOT / "constraints.txt").read_text()
    pinned = {
        line.split("==")[0].lower().replace("_", "-")
        for line in text.splitlines()
        if "==" in line
    }
    for requirement in requirements("lab", "serve", "test"):
        name = re.match(r"[\w-]+", requirement)[0].lower().replace("_", "-")
        assert name in pinned, name
    for name in ("torch", "transformers"):
        if f"\n{name}=={metadata.version(name).partition('+')[0]}\n" not in text:
            pytest.skip("another set of versions is installed")
    for name in needed_by("minipaged", {"lab", "serve", "test"}):
        assert name in pinned, f"{name} is installed with us, but not pinned"


def test_the_tools_of_the_site_are_pinned():
    lines = (ROOT / "constraints.txt").read_text().lower().splitlines()
    pinned = {line.split("==")[0].replace("_", "-") for line in lines}
    tools = map(Requirement, PYPROJECT["dependency-groups"]["book"])
    assert {tool.name.lower().replace("_", "-") for tool in tools} <= pinned


def test_the_oldest_set_is_what_is_promised():
    """All of it, but for the tools that only check the source."""
    lines = (ROOT / "constraints-oldest.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    for requirement in map(Requirement, requirements("lab", "serve", "test")):
        name = requirement.name.replace("_", "-")
        if name not in {"codespell", "ruff", "setuptools"}:
            promised = str(requirement.specifier).removeprefix(">=")
            assert Version(promised) == Version(pinned[name]), name


def test_of_the_newest_set_only_torch_is_pinned(tmp_path):
    newest = tmp_path / "newest.txt"
    run("make", f"NEWEST={newest}", str(newest))
    (line,) = newest.read_text().splitlines()
    assert line.startswith("torch==")
    assert line in (ROOT / "constraints.txt").read_text().splitlines()


def needed_by(package: str, extras: set[str]) -> set[str]:
    """The names of everything that an install of the package brings with it."""
    found, queue = set(), [(package, extras)]
    while queue:
        name, wanted = queue.pop()
        try:
            lines = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        for requirement in map(Requirement, lines):
            marker, own = requirement.marker, requirement.name.lower().replace("_", "-")
            if marker and not any(marker.evaluate({"extra": e}) for e in {*wanted, ""}):
                continue
            if own not in found:
                found.add(own)
                queue.append((own, requirement.extras))
    # torch's CUDA libraries follow from torch's own pin, where they are wanted at all.
    return {name for name in found if not name.startswith(("nvidia-", "cuda-"))}


def test_ci_calls_the_readmes_test_commands_and_nothing_else():
    """But with one Python it tries the page, and once a week the newest releases."""
    expected = ["make browser", "make test"]
    readme = (ROOT / "README.md").read_text()
    assert all(f"\n{command}\n" in readme for command in expected)
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    plumbing = ("#", "set", "cd", "export CI=true")
    commands = [line for line in script if line and not line.startswith(plumbing)]
    assert commands == expected
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    page, weekly = "make test-playground", "make test-newest"
    assert re.findall(r"- run: (.+)", workflow) == [*expected, page, weekly]
    assert f"{page}\n        if: matrix.python == '3.13'" in workflow
    assert f"{weekly}\n        if: github.event_name == 'schedule'" in workflow


def test_the_built_wheel_carries_the_pocket_model(tmp_path, built_wheel):
    """Installed alone into an empty folder, it loads its model and generates."""
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "-q", "install", "--no-deps", "--target"]
    run(*install, str(site), str(built_wheel))
    code = (
        "import minipaged as mp; print(mp.__file__);"
        "mp.load('pocket-draft', device='cpu');"
        "model, tokenizer = mp.load('pocket', device='cpu');"
        "ids = tokenizer('The capital of France is').input_ids;"
        "out = mp.generate(mp.PagedModel(model, num_blocks=8), [ids]);"
        "print(tokenizer.decode(out[0].sequences[0]))"
    )
    environment = {**os.environ, "PYTHONPATH": str(site), "HF_HUB_OFFLINE": "1"}
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        check=False,
    )
    assert result.stdout.startswith(str(site)), result.stdout + result.stderr
    assert "Paris" in result.stdout


def test_the_tables_of_lessons_come_from_the_notebooks():
    result = run(sys.executable, str(ROOT / "tools" / "lesson_tables.py"), "--check")
    assert result.returncode == 0, result.stderr


def test_pictures_on_the_front_page_are_told_in_words_and_drawn_for_dark_pages():
    text = (ROOT / "README.md").read_text("utf-8")
    pictures = re.findall(r'<img src="figures/(\w+)-light.png" alt="[^"]+">', text)
    assert len(pictures) == text.count("<img ") > 0
    for name in pictures:
        assert f'dark)" srcset="figures/{name}-dark.png">' in text


def test_help_lists_every_target():
    lists = re.findall(r"^\.PHONY: (.+)$", MAKEFILE, flags=re.MULTILINE)
    assert set(" ".join(lists).split()) == TARGETS


def test_the_pools_work_does_not_grow_with_its_size():
    def calls(num_blocks):
        pool = mp.BlockPool(num_blocks, block_size=16)

        def hand_out_and_take_back():
            for _ in range(50):
                pool.release(pool.allocate())

        return count_calls(hand_out_and_take_back)

    assert calls(100) == calls(100_000) < 2000
