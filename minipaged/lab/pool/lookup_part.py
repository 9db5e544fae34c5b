"""Lab: the part of the widget that asks where a position lies, and answers."""

from collections.abc import Callable

import ipywidgets as widgets

from minipaged.lab.pool.controls import choice, number, row
from minipaged.lab.pool.html.formula import find, formula
from minipaged.lab.pool.html.stage import Here
from minipaged.lab.pool.snapshot import Snapshot


class Lookup(widgets.VBox):
    """Where is position n of a sequence? Divided, looked up, put together."""

    def __init__(self, draw: Callable[[], None]):
        """`draw` is called when another position or sequence is asked for."""
        self.position = number("Where is position", 0, 0)
        self.position.continuous_update = True  # each digit is looked up at once
        self.name = choice("of", ["–"])
        self.answer = widgets.HTML()
        self._is_drawing = False

        def ask(_: object) -> None:
            if not self._is_drawing:  # else the fields follow a step, no more
                draw()

        for control in (self.position, self.name):
            control.observe(ask, "value")
        super().__init__((row(self.position, self.name), self.answer))
        self.add_class("mp-lookup")

    def look_at(self, now: Snapshot, name: str, position: int) -> None:
        """Ask for this position, as the fields will show."""
        self._is_drawing = True
        self._offer_names(now)
        self.name.value, self.position.value = name, position
        self._is_drawing = False

    def draw(self, now: Snapshot) -> Here | None:
        """Answer, and say where to point at."""
        self._is_drawing = True
        self._offer_names(now)
        self._is_drawing = False
        self.answer.value = formula(now, self.name.value, self.position.value)
        return find(now, self.name.value, self.position.value)

    def _offer_names(self, now: Snapshot) -> None:
        names = tuple(sorted(now.tables)) or ("–",)
        if self.name.options != names:
            kept = self.name.value if self.name.value in names else names[0]
            self.name.options, self.name.value = names, kept
