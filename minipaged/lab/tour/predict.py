"""Lab: predict, then run: the answer beside the reader's guess."""

from IPython.display import Markdown, display

from minipaged.lab.tour.show import CODE


def reveal(guess: float, answer: float, unit: str, *lines: str) -> None:
    """Show a computed answer, folded, so that it can be guessed before it is read.

    `guess` is what the reader wrote in the cell before; `unit` names what is counted;
    `lines` stand in the fold, below the answer: they would give it away.
    Raises TypeError for a guess that is no number.
    """
    if not isinstance(guess, int | float):
        raise TypeError(f"{guess!r} is no number; write your guess as in: guess = 4")
    gap = abs(answer - guess)
    if gap == 0:
        verdict = "exactly your guess"
    elif f"{guess:.1f}" == f"{answer:.1f}":
        verdict = "your guess, rounded"
    elif unit.startswith("%"):
        verdict = f"your guess is off by {gap:.1f} points"
    elif unit.startswith("("):  # a name, such as a slot's: no factor makes sense
        verdict = "not your guess"
    elif guess and answer and (factor := max(guess / answer, answer / guess)) >= 2:
        verdict = f"your guess is off by a factor of {factor:.1f}"
    else:
        verdict = f"your guess is off by {_number(gap)}"
    more = CODE.format("text", "\n".join(lines)) + "\n\n" if lines else ""
    display(
        Markdown(
            f"Your guess: **{_number(guess)}** {unit}\n\n"
            "<details><summary>Answer (click)</summary>\n\n"
            f"**{_number(answer)}** {unit}; {verdict}.\n\n{more}</details>"
        )
    )


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
