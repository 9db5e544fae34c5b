"""Lab: a beam search as a family tree, and who shares what (paper, figure 9)."""

from collections.abc import Collection, Mapping
from collections.abc import Sequence as Rows
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from transformers import GenerationConfig, PreTrainedTokenizerBase

from minipaged.decoding.options import resolve_options
from minipaged.decoding.request import Request
from minipaged.decoding.sequence import Sequence
from minipaged.engine.step import step
from minipaged.lab.palette import SHARED_HATCH, ink_on, sequence_colour, theme
from minipaged.lab.plots import canvas
from minipaged.memory.block_table import BlockTable
from minipaged.model.paged_model import PagedModel

Path = tuple[int, ...]  # the new tokens of a beam: a node of the tree


def beam_history(
    paged: PagedModel, prompt: list[int], config: GenerationConfig
) -> list[list[list[int]]]:
    """For each step of a beam search, the new tokens of its running beams, best first.

    The same steps that `generate` takes, one request alone.
    """
    options = resolve_options(paged.model, config, prompt)
    request = Request(prompt, options, strategy="beam")
    request.sequences = [Sequence(prompt, BlockTable(paged.pool))]
    history = []
    try:
        while request.live:
            step(paged, [request])
            history.append([beam.new_tokens for beam in request.live])
    finally:
        request.free()
    return [beams for beams in history if beams]


def plot_shared_tables(tables: Mapping[str, BlockTable], title: str) -> Figure:
    """Each table a row, each entry a box with its block; neighbours share one box.

    A box has the colour of its first holder, and is hatched if it has several.
    """
    columns = max(len(table.block_ids) for table in tables.values())
    figure, axes = canvas(title, height=0.9 + 0.42 * len(tables))
    axes.set_axis_off()
    names = list(tables)
    for row, name in enumerate(names):
        patch = Rectangle((0, row + 0.2), 0.12, 0.6, facecolor=sequence_colour(name))
        axes.add_patch(patch)
        label = {"color": theme().ink, "fontsize": 10, "va": "center"}
        axes.text(0.2, row + 0.5, name, **label)
    for column in range(columns):
        entries = [tables[name].block_ids[column : column + 1] for name in names]
        rows = groupby(range(len(names)), key=lambda row: entries[row])
        for block_ids, group in rows:
            span = list(group)
            if block_ids:
                _draw_shared(axes, block_ids[0], column, span, names[span[0]])
    legend = "a box is a block; hatched: several holders"
    axes.text(0, len(names) + 0.4, legend, fontsize=9, color=theme().quiet)
    axes.set(xlim=(-0.02, columns + 0.5), ylim=(len(names) + 0.5, -0.6))
    return figure


def _draw_shared(
    axes: Axes, block_id: int, column: int, rows: list[int], holder: str
) -> None:
    """One block, over the rows of all neighbours that hold it."""
    look, colour = theme(), sequence_colour(holder)
    corner = column + 0.5, rows[0] + 0.06
    hatch = SHARED_HATCH if len(rows) > 1 else None
    style = {"facecolor": colour, "edgecolor": look.ground, "hatch": hatch}
    axes.add_patch(Rectangle(corner, 0.95, len(rows) - 0.12, **style))
    middle = column + 0.975, rows[0] + len(rows) / 2
    box = {"boxstyle": "round,pad=0.2", "facecolor": colour, "linewidth": 0}
    text = {"ha": "center", "va": "center", "fontsize": 10, "bbox": box}
    axes.text(*middle, f"block {block_id}", color=ink_on(colour), **text)
    if rows[0] == 0:
        text = {"ha": "center", "color": look.quiet, "fontsize": 9}
        axes.text(middle[0], -0.15, f"entry {column}", **text)


def plot_beam_tree(
    history: Rows[Rows[Rows[int]]], tokenizer: PreTrainedTokenizerBase, title: str
) -> Figure:
    """Draw every beam that ever ran as a path from left to right, one token a column.

    The beams of the last step are coloured, A the best; those that fell behind are grey
    and end in a cross.
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
        color=look.ink,
        bbox={"boxstyle": "round,pad=0.25", "fc": look.ground, "ec": look.quiet},
    )
    bottom = max(rows.values()) + 1
    legend = (
        "coloured: a beam that runs at the end; grey: fell behind, its blocks freed"
    )
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
    face, ink, edge = look.ground, look.quiet, look.others
    if len(owners) == 1:
        face = edge = sequence_colour(owners[0])
        ink = ink_on(face)
    elif owners:
        ink = edge = look.ink
    box = {"boxstyle": "round,pad=0.2", "facecolor": face, "edgecolor": edge}
    label = word.replace(" ", "·").replace("\n", "⏎") or "∅"
    style = {"fontsize": 8.5, "ha": "center", "va": "center", "bbox": box}
    axes.text(x, y, label, color=ink, zorder=3, **style)
    if is_leaf and owners:
        name = ", ".join(chr(ord("A") + owner) for owner in owners)
        axes.text(x + 0.45, y, name, color=look.ink, fontsize=10, va="center")
    elif is_leaf:
        axes.text(x + 0.42, y, "×", color=look.quiet, fontsize=11, va="center")
