"""Lab: guesses, and what the model says in their places, in one step."""

from collections.abc import Sequence

from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import free, soft, strong
from minipaged.lab.plots.render import Figure, render


def plot_checked(
    newest: str, guesses: Sequence[str], said: Sequence[str], title: str
) -> Figure:
    """Below what a step computes, what the model says after each of its tokens.

    newest: the last token of the text; then come the guesses. said: the tokens that the
    model chooses, one more than there are guesses. An arrow leads from a choice to the
    guess in its place; it bears a cross if they differ. What comes after the first
    wrong guess follows a text that never was.
    """
    pairs = zip(guesses, said, strict=False)
    right = next((n for n, (a, b) in enumerate(pairs) if a != b), len(guesses))
    tones = [soft("A")] * (right + 1) + [free()] * (len(guesses) - right)
    picture = Picture(title, widest=110.0)
    cells = [
        Cell(word, tone) for word, tone in zip([newest, *guesses], tones, strict=True)
    ]
    computed = picture.row("computed", "the newest token, guesses", cells)
    cells = [
        Cell(word, strong("A") if n <= right else free()) for n, word in enumerate(said)
    ]
    chosen = picture.row("chosen", "after each of them", cells)
    for n in range(min(right + 1, len(guesses))):
        is_right = n < right
        colour = GOOD if is_right else BAD
        picture.link(chosen[n], computed[n + 1], colour, is_false=not is_right)
    picture.legend(
        (strong("A"), "new tokens of the text"), (free(), "follows a wrong guess")
    )
    return render(picture.scene())
