"""Lab: a beam search as a family tree (paper, section 4.4)."""

from collections.abc import Collection, Mapping
from collections.abc import Sequence as Rows

from transformers import PreTrainedTokenizerBase

from minipaged.draw.letters import width_of
from minipaged.draw.palette import line_colour
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import NOTHING, Tone, behind_words, soft, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.lab.pool.replay import Frame

ROW, TOP, HEIGHT = 40.0, 44.0, 22.0  # pixels of a row, above the first one, of a token
LEFT, RIGHT = 86.0, 44.0  # room of the prompt, and of the letters
Path = tuple[int, ...]  # the new tokens of a beam: a node of the tree


def plot_beam_tree(
    frames: Rows[Frame], tokenizer: PreTrainedTokenizerBase, title: str
) -> Figure:
    """Draw every beam that ever ran as a path from left to right, one token a step.

    frames: a recorded run of one beam search (see `record`). A token has the colour of
    the beam that chose it. Its letter, at its first step and its last one, is that of
    the replay. Beams with living descendants are strong. Those that fell behind, or
    ended the text, are soft and end in a cross. Below: the blocks held at each step,
    and how many it would be if no block were shared.

    Raises ValueError if no beam ran on after the first step.
    """
    steps = [frame for frame in frames if any(frame.growing.values())]
    if not steps:
        raise ValueError("no beam ran on after the first step")
    names = {
        tuple(beam): name for frame in steps for name, beam in frame.growing.items()
    }
    # Siblings by their letters: the best child keeps its parent's, and comes first.
    nodes = sorted({(), *names}, key=lambda node: _letters(node, names))
    parents = {node[:-1] for node in nodes if node}
    rows = _rows(nodes, parents)
    living = {
        tuple(beam[:length])
        for beam in steps[-1].growing.values()
        for length in range(len(beam) + 1)
    }
    sheet, bottom = Sheet(title), TOP + ROW * (max(rows.values()) + 1)
    width = (SPAN - LEFT - RIGHT) / len(steps)
    places = {
        node: (LEFT + (len(node) - 0.5) * width, TOP + rows[node] * ROW + ROW / 2)
        for node in nodes
    }
    places[()] = (width_of("prompt") / 2 + 6, places[()][1])
    _draw_steps(sheet, steps, width, bottom)
    labels = {node: _label(tokenizer.decode([node[-1]])) for node in nodes[1:]}
    labels[()] = "prompt"
    for node in nodes[1:]:
        style = {"color": line_colour(names[node]), "linewidth": 2.2}
        if node not in living:
            style = {"color": sheet.look.rim, "linewidth": 1.0}
        # From rim to rim: boxes of beams that have ended let lines shine through.
        (x0, y0), (x1, y1) = places[node[:-1]], places[node]
        start = x0 + _width(labels[node[:-1]]) / 2
        sheet.line((start, y0), (x1 - _width(labels[node]) / 2, y1), **style)
    for node in nodes[1:]:
        tone = strong(names[node]) if node in living else soft(names[node])
        _draw_token(sheet, labels[node], places[node], tone)
        if node not in parents:
            said = f"{names[node]}{' ×' * (node not in living)}"
            weight = "bold" if node in living else "normal"
            x, y = places[node]
            sheet.write(x + _width(labels[node]) / 2 + 5, y, said, weight=weight)
        elif len(node) == 1:
            x, y = places[node]
            sheet.write(x, y - 19, names[node], ha="center")
    _draw_token(sheet, "prompt", places[()], NOTHING, rim=sheet.look.ink)
    signs = [(strong("A"), f"leads to a beam of step {len(steps)}")]
    signs += [(behind_words(soft("A")), "leads to none")]
    x = sheet.legend(0, bottom + 68, signs)
    legend = "letters: the tables; ×: has stopped"
    sheet.write(x, bottom + 68, legend, color=sheet.look.quiet)
    return render(sheet.finish(bottom + 76))


def _letters(node: Path, names: Mapping[Path, str]) -> list[str]:
    """Of all beams on the way to it."""
    return [names[node[:length]] for length in range(1, len(node) + 1)]


def _rows(nodes: Rows[Path], parents: Collection[Path]) -> dict[Path, float]:
    """A row for each node: leaves one below the other, parents amid their children."""
    leaves = [node for node in nodes if node not in parents]
    rows: dict[Path, float] = {leaf: row for row, leaf in enumerate(leaves)}
    for parent in sorted(parents, key=len, reverse=True):
        own = [rows[node] for node in nodes if node and node[:-1] == parent]
        rows[parent] = (own[0] + own[-1]) / 2
    return rows


def _draw_steps(sheet: Sheet, steps: Rows[Frame], width: float, bottom: float) -> None:
    """The number of each step above the tree, and below it the blocks then held.

    Before a step in which every beam opens a block there is a dotted line.
    """
    quiet = {"color": sheet.look.quiet}
    sheet.write(0, 12, "step", **quiet)
    sheet.write(0, bottom + 22, "blocks held", **quiet)
    sheet.write(0, bottom + 40, "without sharing", **quiet)
    longest = 0  # table of the step before
    for number, frame in enumerate(steps, start=1):
        x = LEFT + (number - 0.5) * width
        longest, before = max(map(len, _entries(frame))), longest
        if 0 < before < longest:
            dots = {"color": sheet.look.rim, "linestyle": ":", "linewidth": 1.2}
            sheet.line((x - width / 2, 47), (x - width / 2, bottom + 4), **dots)
            for y, word in ((24, "new"), (38, "blocks")):
                sheet.write(x - width / 2, y, word, ha="center", **quiet)
        sheet.line((x, 22), (x, 30))
        sheet.line((x, bottom + 4), (x, bottom + 12))
        sheet.write(x, 12, str(number), ha="center")
        unshared = sum(map(len, _entries(frame)))
        held = str(frame.snapshot.num_held)
        sheet.write(x, bottom + 22, held, ha="center", weight="bold")
        sheet.write(x, bottom + 40, str(unshared), ha="center")


def _entries(frame: Frame) -> list[tuple[int, ...]]:
    """The blocks of each beam."""
    return [table.block_ids for table in frame.snapshot.tables.values()]


def _label(word: str) -> str:
    """A token's text, with signs for what would not be seen."""
    return word.replace(" ", "·").replace("\n", "⏎") or "∅"


def _width(label: str) -> float:
    return max(18.0, width_of(label) + 10)


def _draw_token(
    sheet: Sheet, label: str, place: tuple[float, float], tone: Tone, rim: str = "none"
) -> None:
    width = _width(label)
    x, y = place[0] - width / 2, place[1] - HEIGHT / 2
    sheet.cells(x, y, [width], HEIGHT, [tone], [label])
    sheet.box(x, y, width, HEIGHT, rim=rim)
