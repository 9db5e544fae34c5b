"""Lab: prompts filled up to one length: the tokens and the pairs that this adds."""

from collections.abc import Mapping, Sequence

from minipaged.draw.letters import PART
from minipaged.draw.palette import BAD, theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import others, strong
from minipaged.lab.plots.render import Figure, render

HIGH = 130.0  # pixels of a triangle


def plot_padding(counts: Mapping[str, int], title: str) -> Figure:
    """At the left the rectangle; at the right, for each row, who looks at whom.

    counts: the tokens of each prompt. A line of a triangle is a token: it looks at
    itself and at all before.
    """
    picture, tokens, pairs = Picture(title), Picture(), Picture()
    _say(tokens, "tokens", list(counts.values()))
    _say(pairs, "pairs", [n * (n + 1) // 2 for n in counts.values()])
    longest, triangles = max(counts.values()), []
    height = max(0.5, HIGH / longest - 0.6)
    for name, count in counts.items():
        tones = [strong(name)] * count + [others()] * (longest - count)
        cells = [Cell("", tone) for tone in tones]
        tokens.row(name, "", cells, is_bold=True, height=36, apart=6)
        triangles.append(Picture(name))
        for at, cell in enumerate(cells, start=1):
            line = [cell._replace(wide=at)]
            triangles[-1].row("", "", line, height=height, apart=0.6)
    tokens.legend((others(), "padding: computed for nothing"))
    pairs.beside(*triangles, gap=16)
    pairs.text("each line: a token, with all that it looks at")
    picture.beside(tokens, pairs)
    return render(picture.scene())


def _say(picture: Picture, what: str, used: Sequence[int]) -> None:
    computed = len(used) * max(used)
    lost = computed - sum(used)
    said = f"{lost:,} of {computed:,} {what} are padding"
    picture.text(said, size=PART, color=BAD if lost else theme().ink)
