"""What a notebook must keep to as a file: each rule lists a notebook's faults."""

import ast
import functools
import json
import re

from helpers import notebook_files as files
from helpers import notebook_links as links

MACHINE = re.compile(r"(?<![\w.])/(home|root|Users|work|tmp)/|\b[A-Z]:\\\\")
REPR = re.compile(r"^[\[(]?<|^Text\(")  # what matplotlib's functions return


def run_in_order(notebook: dict) -> list[str]:
    counts = [cell["execution_count"] for cell in files.code_cells(notebook)]
    in_order = counts == list(range(1, len(counts) + 1))
    return [] if in_order else [f"execution counts: {counts}"]


def no_errors(notebook: dict) -> list[str]:
    outputs = [o for cell in files.code_cells(notebook) for o in cell["outputs"]]
    bad = [o for o in outputs if "error" in o["output_type"] or is_stderr(o)]
    return [str(output)[:80] for output in bad]


def is_stderr(output: dict) -> bool:
    return output.get("name") == "stderr"


def is_named(notebook: dict) -> list[str]:
    """A lesson by its number, an appendix by a letter: `# 6 · A Triton kernel`."""
    title = files.source(notebook["cells"][0]).splitlines()[0]
    named = re.match(r"# ([0-9]|[A-Z]) · ", title)
    return [] if named else [f"neither lesson nor appendix: {title}"]


def deeper_is_folded(notebook: dict) -> list[str]:
    """What is for a second reading is one heading, folded as JupyterLab stores it."""
    cells = [
        cell for cell in notebook["cells"] if files.source(cell).startswith("## Deeper")
    ]
    folded = [cell["metadata"].get("jp-MarkdownHeadingCollapsed") for cell in cells]
    faults = [] if folded in ([], [True]) else ["`## Deeper` is open"]
    # What stands in the heading's own cell is not folded.
    return faults + [
        "more than an introduction stands in its cell"
        for cell in cells
        if "\n#" in files.source(cell)
    ]


def nothing_of_the_machine(notebook: dict) -> list[str]:
    text = json.dumps(notebook)
    faults = [match[0] for match in MACHINE.finditer(text)]
    if "widgets" in notebook["metadata"]:
        faults.append("widget state is stored")
    return faults + (["1.5 MB or more"] if len(text) >= 1_500_000 else [])


def bootstraps_itself(notebook: dict) -> list[str]:
    text = files.bootstrap(notebook)
    if re.findall(r'git\+(https://[^"]*)"', text) != [files.HOME]:
        return ["installs from elsewhere than pyproject's Source"]
    return []


def has_its_badge(notebook: dict, name: str) -> list[str]:
    """Among the first three cells: it opens this very notebook in Colab."""
    top = "".join(files.source(cell) for cell in notebook["cells"][:3])
    return [] if files.badge(name) in top else [f"lacks {files.badge(name)}"]


def links_lead_somewhere(notebook: dict) -> list[str]:
    text = files.markdown(notebook)
    folder = files.ROOT / "notebooks"
    return links.broken_links(text, folder, links.jupyter_anchors(text))


def figures_end_in_show(notebook: dict) -> list[str]:
    """No picture without plt.show(), no `<Axes: ...>` or the like above a picture."""
    faults = []
    for cell in files.code_cells(notebook):
        text = files.source(cell)
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data and "plt.show()" not in text:
                faults.append(f"no plt.show(): {text[:60]}")
            plain = "".join(data.get("text/plain", ""))
            if output["output_type"] == "execute_result" and REPR.match(plain):
                faults.append(plain)
    return faults


@functools.cache
def public_names() -> frozenset[str]:
    """Every function and class of the package, but those with a leading underscore."""
    modules = (files.ROOT / "minipaged").rglob("*.py")
    trees = [ast.parse(path.read_text("utf-8")) for path in modules]
    names = {name for tree in trees for name in files.defined(tree)}
    return frozenset(name for name in names if not name.startswith("_"))


def no_second_copy(notebook: dict) -> list[str]:
    """The package holds the code once; a notebook shows it and does not repeat it."""
    trees = [files.parse(cell) for cell in files.code_cells(notebook)]
    names = {name for tree in trees for name in files.defined(tree)}
    return sorted(names & public_names())


@functools.cache
def words_of_the_package() -> frozenset[str]:
    modules = (files.ROOT / "minipaged").rglob("*.py")
    return frozenset(
        word for path in modules for word in re.findall(r"\w+", path.read_text("utf-8"))
    )


def names_in_prose_exist(notebook: dict) -> list[str]:
    """What stands as `a_name` in a text is a name in the package or in a code cell.

    Texts that speak of vLLM use its names, too; and `triton.autotune` is Triton's.
    """
    cells = files.code_cells(notebook)
    code = "".join(files.source(cell) + files.output_text(cell) for cell in cells)
    known = words_of_the_package() | set(re.findall(r"\w+", code))
    texts = [
        files.source(cell)
        for cell in notebook["cells"]
        if cell["cell_type"] == "markdown" and "vLLM" not in files.source(cell)
    ]
    names = re.findall(r"(?<!`)`([A-Za-z_][\w.]*)(?:\(\))?`(?!`)", "\n".join(texts))
    ours = [name for name in names if not name.startswith("triton.")]
    return [name for name in ours if name.split(".")[-1] not in known]


def no_expected_exceptions(notebook: dict) -> list[str]:
    tags = [tag for c in notebook["cells"] for tag in c["metadata"].get("tags", [])]
    return [tag for tag in tags if tag == "raises-exception"]


RULES = (
    run_in_order,
    no_errors,
    is_named,
    deeper_is_folded,
    nothing_of_the_machine,
    bootstraps_itself,
    links_lead_somewhere,
    figures_end_in_show,
    no_second_copy,
    names_in_prose_exist,
    no_expected_exceptions,
)
