"""Lab: a beam search as a family tree (paper, section 4.4)."""

from collections.abc import Collection
from collections.abc import Sequence as Rows

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from transformers import GenerationConfig, PreTrainedTokenizerBase

from minipaged.engine.generate import generate
from minipaged.lab.plots.charts import canvas
from minipaged.lab.plots.palette import ink_on, sequence_colour, theme
from minipaged.model.paged_model import PagedModel
from minipaged.scheduling.observer import Observer
from minipaged.scheduling.plan import Plan

BLACK = "#1B1F24"  # of tokens that several beams share
Path = tuple[int, ...]  # the new tokens of a beam: a node of the tree


def beam_history(
    paged: PagedModel, prompt: list[int], config: GenerationConfig
) -> list[list[list[int]]]:
    """For each step of a beam search, the new tokens of its running beams, best first.

    Raises ValueError if no beam ran on.
    """
    history: list[list[list[int]]] = []

    class Watch(Observer):
        """Notes the beams after each step that chose tokens."""

        def chosen(self, plan: Plan) -> None:
            requests = dict.fromkeys(work.request for work in plan.works)
            beams = [one.new_tokens for request in requests for one in request.live]
            if any(beams):
                history.append(beams)

    paged.observers.append(watch := Watch())
    try:
        (out,) = generate(paged, [prompt], config)
    finally:
        paged.observers.remove(watch)
    if not history:
        raise ValueError(out.error or "no beam ran on after the first step")
    return history


def plot_beam_tree(
    history: Rows[Rows[Rows[int]]], tokenizer: PreTrainedTokenizerBase, title: str
) -> Figure:
    """Draw every beam that ever ran as a path from left to right, one token a column.

    The beams of the last step are coloured, A the best; all others are grey and end in
    a cross: they fell behind, or ended the text.
    """
    nodes = sorted({(), *(tuple(beam) for beams in history for beam in beams)})
    parents = {node[:-1] for node in nodes if node}
    rows = _rows(nodes, parents)
    last = [tuple(beam) for beam in history[-1]]
    figure, axes = canvas(title, height=0.7 + 0.36 * (max(rows.values()) + 1))
    axes.set_axis_off()
    for node in nodes[1:]:
        owners = [index for index, beam in enumerate(last) if beam[: len(node)] == node]
        _draw_edge(axes, node, rows, owners)
        word, is_leaf = tokenizer.decode([node[-1]]), node not in parents
        _draw_token(axes, word, len(node), rows[node], owners, is_leaf)
    look = theme()
    axes.text(
        0,
        rows[()],
        "prompt",
        ha="center",
        va="center",
        fontsize=9,
        color=ink_on(BLACK),
        bbox={"boxstyle": "round,pad=0.25", "fc": BLACK, "ec": look.rim},
    )
    bottom = max(rows.values()) + 1
    legend = "coloured: runs at the end; black: shared; grey, ×: fell behind or ended"
    axes.text(-0.4, bottom, legend, fontsize=9, color=look.quiet, va="center")
    axes.set(xlim=(-0.5, len(history) + 0.6), ylim=(bottom + 0.4, -0.6))
    return figure


def _rows(nodes: Rows[Path], parents: Collection[Path]) -> dict[Path, float]:
    """A row for each node: leaves one below the other, parents amid their children."""
    leaves = [node for node in nodes if node not in parents]
    rows: dict[Path, float] = {leaf: row for row, leaf in enumerate(leaves)}
    for parent in sorted(parents, key=len, reverse=True):
        own = [rows[node] for node in nodes if node and node[:-1] == parent]
        rows[parent] = (own[0] + own[-1]) / 2
    return rows


def _draw_edge(
    axes: Axes, node: Path, rows: dict[Path, float], owners: list[int]
) -> None:
    look = theme()
    width = 2.2 if owners else 1.0
    colour = sequence_colour(owners[0]) if len(owners) == 1 else look.ink
    x = [len(node) - 1, len(node)]
    y = [rows[node[:-1]], rows[node]]
    axes.plot(x, y, color=colour if owners else look.others, linewidth=width, zorder=1)


def _draw_token(
    axes: Axes, word: str, x: float, y: float, owners: list[int], is_leaf: bool
) -> None:
    look = theme()
    # Opaque, for the edges end behind them.
    face = look.rim
    if owners:
        face = sequence_colour(owners[0]) if len(owners) == 1 else BLACK
    box = {"boxstyle": "round,pad=0.2", "facecolor": face, "edgecolor": "none"}
    if face == BLACK:
        box["edgecolor"] = look.rim
    label = word.replace(" ", "·").replace("\n", "⏎") or "∅"
    style = {"fontsize": 8.5, "ha": "center", "va": "center", "bbox": box}
    axes.text(x, y, label, color=ink_on(face), zorder=3, **style)
    if is_leaf and owners:
        name = ", ".join(chr(ord("A") + owner) for owner in owners)
        axes.text(x + 0.45, y, name, color=look.ink, fontsize=10, va="center")
    elif is_leaf:
        axes.text(x + 0.42, y, "×", color=look.quiet, fontsize=11, va="center")
