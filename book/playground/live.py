"""The page's Python: what its parts are, and what becomes of a click.

The page calls `open` with the place after the # of its address, shows the HTML that
comes back, and calls `hear` at each event. It asks for `news` after that: what it shall
change, and in words what has happened.
"""

import json
from typing import Any

import ipywidgets

from book.playground.opening import Opening
from minipaged.lab.pool.controls import show
from minipaged.lab.pool.html.style import STYLE
from minipaged.lab.pool.scenes import SCENES
from minipaged.lab.pool.widget import PoolWidget

OPENING, PLAY, SIMULATOR = "cow", "play", "simulator"
PLACES = (OPENING, *SCENES, PLAY, SIMULATOR)
NUM_BLOCKS, BLOCK_SIZE = 16, 4  # of free play


class Live:
    """All parts of the page; each is made when it is first opened.

    Attributes: place, the one that is open; part, what is shown there.
    """

    def __init__(self) -> None:
        self.place = ""
        self.part: Any = None
        self._parts: dict[str, Any] = {}
        self._said: tuple[int, str] = 0, ""

    def open(self, place: str) -> str:
        """The HTML of a place; of the first one, if there is none of this name."""
        self.place = place if place in PLACES else OPENING
        kind = self.place if self.place in (OPENING, SIMULATOR) else PLAY
        if kind not in self._parts:
            ipywidgets.begin(kind)
            self._parts[kind] = _make(kind)
        self.part = self._parts[kind]
        if kind == PLAY and self._scene != self.place:
            self.part.head.scene.value = "" if self.place == PLAY else self.place
        self._said = self._words()
        return ipywidgets.html_of(self.part).replace(STYLE, "")

    def hear(self, name: str, event: str, value: Any = None) -> None:
        """A reader did this to the widget of this name."""
        ipywidgets.hear(name, event, value)
        if isinstance(self.part, PoolWidget):
            self.place = self._scene

    def go_on(self) -> None:
        """Do a part of what is still to be done; `news` says whether there is any."""
        self.part.go_on()

    def news(self) -> str:
        """As JSON: changes, the place, what to read aloud, and whether more comes."""
        before, self._said = self._said, self._words()
        said = "" if self._said == before else self._said[1]
        if self._said[0] < before[0]:
            said = f"Taken back. Before that: {said}"
        return json.dumps(
            {
                "changes": ipywidgets.take_changes(),
                "place": self.place,
                "said": said,
                "more": getattr(self.part, "is_busy", False),
            }
        )

    @property
    def _scene(self) -> str:
        return self.part.guide.name or PLAY

    def _words(self) -> tuple[int, str]:
        """How many turns were taken, and what became of the last one."""
        part = self.part
        if not hasattr(part, "sandbox"):
            return 0, sentences(part.words)
        turns = part.sandbox.turns
        words = turns[-1].words if turns else ("The pool is empty",)
        if isinstance(part, PoolWidget) and part.guide.frames:
            verdict = part.guide.frames[-1].verdict
            if verdict and not part.guide.is_by_hand:
                words = verdict.head, verdict.why, *words
        return len(turns), sentences(words)


def _make(kind: str) -> Any:
    if kind == SIMULATOR:  # what it needs is imported when it is first opened
        from book.playground.simulator import Simulator

        return Simulator()
    if kind == OPENING:
        return Opening()
    made = PoolWidget(NUM_BLOCKS, BLOCK_SIZE)
    show(made.play.picture, False)  # it needs matplotlib
    return made


def sentences(lines: tuple[str, ...]) -> str:
    """Each with its full stop."""
    return " ".join(line if line.endswith(".") else f"{line}." for line in lines)
