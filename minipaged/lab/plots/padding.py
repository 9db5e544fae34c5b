"""Lab: prompts filled up to one length: the tokens and the pairs that this adds."""

from collections.abc import Callable, Mapping

from matplotlib.figure import Figure

from minipaged.draw.bands import Drawn
from minipaged.draw.letters import PART
from minipaged.draw.palette import BAD, theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.sheet import Sheet
from minipaged.draw.tones import others, strong
from minipaged.lab.plots.render import render

GAP, HIGH = 16.0, 140.0  # pixels between triangles, and of one


def plot_padding(counts: Mapping[str, int], title: str) -> Figure:
    """At the left the rectangle; at the right, for each row, who looks at whom.

    counts: the tokens of each prompt. A line of a triangle is a token: it looks at
    itself and at all before.
    """
    picture, tokens, pairs = Picture(title), Picture(), Picture()
    longest = max(counts.values())
    rows = {
        name: [strong(name)] * count + [others()] * (longest - count)
        for name, count in counts.items()
    }
    _say(tokens, "tokens", counts, lambda num_tokens: num_tokens)
    for name, tones in rows.items():
        cells = [Cell("", tone) for tone in tones]
        tokens.row(name, "", cells, is_bold=True, height=36, apart=6)
    tokens.legend((others(), "padding: computed for nothing"))

    def draw(sheet: Sheet, x: float, y: float, width: float) -> None:
        """A triangle for each prompt."""
        wide, line = (width + GAP) / len(rows), HIGH / longest
        for name, tones in rows.items():
            for at, tone in enumerate(tones):
                area = x, y + at * line, (at + 1) * (wide - GAP) / longest
                sheet.box(*area, max(0.5, line - 0.6), tone)
            style = {"ha": "right", "weight": "bold"}
            sheet.write(x + wide - GAP, y + 8, name, PART, **style)
            x += wide

    _say(pairs, "pairs", counts, lambda num_tokens: num_tokens * (num_tokens + 1) // 2)
    pairs.add(Drawn(HIGH, draw))
    pairs.text("each line: a token, with all that it looks at")
    picture.beside(tokens, pairs)
    return render(picture.scene())


def _say(
    picture: Picture, what: str, counts: Mapping[str, int], size: Callable[[int], int]
) -> None:
    computed = len(counts) * size(max(counts.values()))
    lost = computed - sum(map(size, counts.values()))
    said = f"{lost:,} of {computed:,} {what} are padding"
    picture.text(said, size=PART, color=BAD if lost else theme().ink)
