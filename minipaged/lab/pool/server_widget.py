"""Lab: choose a system, a block size and a rate; see memory and throughput move."""

from collections.abc import Mapping, Sequence

import ipywidgets as widgets

from minipaged.draw.html import to_svg
from minipaged.draw.palette import PAGE, themed
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import others, strong
from minipaged.lab.measure.one_server import Outcome, serve_minute
from minipaged.lab.pool.controls import one_of, row
from minipaged.lab.pool.guide import Frame as Said
from minipaged.lab.pool.html import story
from minipaged.lab.pool.page import Page

NAMES = ("vLLM", "Orca (Oracle)", "Orca (Pow2)", "Orca (Max)")
BLOCK_SIZES, RATES = (1, 16, 64, 256), (1, 2, 4, 8)
FIRST = {"system": 0, "block_size": 16, "rate": 4}
WIDE = 100.0  # units of a full bar
Bar = tuple[str, float, float, str]  # name, value, the longest, in words


class ServerWidget(Page):
    """Three rows of buttons; each choice is simulated at once, and remembered."""

    def __init__(self) -> None:
        """With vLLM, blocks of 16, and 4 chats a second."""
        self.tried: dict[tuple[int, ...], Outcome] = {}
        choices: Mapping[str, Mapping[str, int]] = {
            "system": {name: at for at, name in enumerate(NAMES)},
            "block_size": {f"blocks of {size}": size for size in BLOCK_SIZES},
            "rate": {f"{rate} a second": rate for rate in RATES},
        }
        self.rows = {what: one_of(own, FIRST[what]) for what, own in choices.items()}
        self.said, self.stage, self.history = seen = [widgets.HTML() for _ in range(3)]
        super().__init__(row(*self.rows.values(), kind="mp-head"), *seen)
        for made in self.rows.values():
            made.observe(lambda _: self.draw(), "value")
        self.draw()

    def draw(self) -> None:
        """Serve what is chosen, if that was not done yet; show it, and what was."""
        chosen = tuple(made.value for made in self.rows.values())
        outcome = self.tried.pop(chosen, None) or _served(*chosen)
        self.tried[chosen] = outcome  # the last one is the one that is shown
        self.said.value = story.say(_told(chosen, outcome))
        with themed(PAGE):
            self.stage.value = to_svg(_picture(outcome).scene(), with_title=False)
        turns = [[f"{_named(*key)}: {_short(one)}"] for key, one in self.tried.items()]
        self.history.value = story.log(turns, "choice")

    def tell(self) -> str:
        """The first choice in words."""
        lines = ["A server (run the cell to choose)", _named(*FIRST.values())]
        outcome = self.tried[tuple(FIRST.values())]
        lines += [f"{name:30} {words}" for name, _, _, words in _bars(outcome)]
        return "\n".join(lines)


def _served(system: int, block_size: int, rate: int) -> Outcome:
    return serve_minute(NAMES[system], rate, block_size)


def _named(system: int, block_size: int, rate: int) -> str:
    """Orca has no blocks."""
    blocks = f", blocks of {block_size}" if NAMES[system] == "vLLM" else ""
    return f"{NAMES[system]}{blocks}, {rate} a second"


def _told(chosen: Sequence[int], outcome: Outcome) -> Said:
    queue = "nobody ever waits" if not outcome.filled else "chats wait"
    return Said(
        f"{_named(*chosen)}: {outcome.latency:.3f} seconds a token, {queue}.",
        f"{outcome.preemptions:,} preemptions. A minute of chats, on OPT-13B.",
    )


def _short(outcome: Outcome) -> str:
    return (
        f"{outcome.filled:.0%} filled, {outcome.tokens_per_second:,.0f} tokens a second"
    )


def _bars(outcome: Outcome) -> list[Bar]:
    filled = f"{outcome.filled:.0%}" if outcome.filled else "nobody waits"
    return [
        ("slots that hold tokens", outcome.filled, 1.0, filled),
        ("chats at a time", outcome.running, 50.0, f"{outcome.running:.1f}"),
        (
            "tokens of answers a second",
            outcome.tokens_per_second,
            2000.0,
            f"{outcome.tokens_per_second:,.0f}",
        ),
    ]


def _picture(outcome: Outcome) -> Picture:
    """A bar for each number, to a scale that all choices share."""
    picture = Picture()
    for name, value, longest, words in _bars(outcome):
        part = WIDE * min(1.0, value / longest)
        cells = [Cell("", strong(0), wide=part), Cell("", others(), wide=WIDE - part)]
        shown = [cell for cell in cells if cell.wide]
        picture.row(name, "", shown, values=[words], height=20, apart=8)
    return picture
