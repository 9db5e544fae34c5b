"""Lab: guesses that are drawn from q, for a token that must be drawn from p."""

from collections.abc import Mapping, Sequence

from minipaged.draw.palette import BAD
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import Tone, free, sign_of, soft, strong
from minipaged.lab.plots.render import Figure, render


def plot_acceptance(p: Sequence[float], q: Sequence[float], title: str) -> Figure:
    """For each token a bar for p and one for q, cut where the smaller one ends.

    What both have is taken; what q has beyond p is refused; what p has beyond q is
    drawn anew.
    """
    picture = Picture(title)
    for token, (of_model, of_draft) in enumerate(zip(p, q, strict=True)):
        both = min(of_model, of_draft)
        bars = {
            f"token {token}: p": (of_model, Tone(BAD)),
            "q": (of_draft, free()),
        }
        for label, (whole, rest) in bars.items():
            parts = [(strong("A"), both), (rest, whole - both)]
            cells = [Cell("", tone, wide=100 * part) for tone, part in parts if part]
            style = {"height": 20.0, "apart": 3.0 if label != "q" else 12.0}
            picture.row(label, "", cells, aside=f"{whole:.2f}", **style)
    picture.legend(
        (strong("A"), "taken"), (free(), "refused"), (Tone(BAD), "drawn anew")
    )
    return render(picture.scene())


def plot_frequencies(
    p: Sequence[float], found: Mapping[str, Sequence[float]], title: str
) -> Figure:
    """For each token a bar as long as its probability; signs where rules have led.

    found: by rule, how often each token was drawn, in parts of all draws.
    """
    picture = Picture(title)
    for token, share in enumerate(p):
        lane = picture.lane(f"token {token}", height=30.0)
        lane.bar(0, share, soft("A"))
        for series, shares in enumerate(found.values()):
            lane.dots([shares[token]], sign_of(series + 1))
    picture.axis("share of the draws")
    rules = [(sign_of(series + 1), rule) for series, rule in enumerate(found)]
    picture.legend((soft("A"), "p"), *rules)
    return render(picture.scene())
