"""Lab: the parts of the pool's widget; each acts on the sandbox through `do`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import ipywidgets as widgets

from minipaged.lab.pool import html
from minipaged.lab.pool.controls import button, choice, number, row, tick
from minipaged.lab.pool.guide import begin, go_on
from minipaged.lab.pool.picture import link_to_picture
from minipaged.lab.pool.sandbox import Sandbox
from minipaged.lab.pool.scenes import SCENES
from minipaged.lab.pool.snapshot import Snapshot

Do = Callable[[Callable[[], Any]], None]  # does it, then shows the pool anew


class Guide(widgets.VBox):
    """A guided scene: what happens next, and what the reader expects."""

    def __init__(self, sandbox: Sandbox, do: Do):
        """Stand where the sandbox stands."""
        self.sandbox = sandbox
        self.scene = choice("Guided scene:", [(s.title, n) for n, s in SCENES.items()])
        if sandbox.mark:
            self.scene.value = sandbox.mark.name
        self.begin = button(
            "begin",
            lambda: do(partial(begin, sandbox, self.scene.value)),
            "begin the scene with an empty pool; can be undone",
        )
        self.text = widgets.HTML()
        self.guess = number("Your guess:", 0, 0)
        self.next = button(
            "go on",
            lambda: do(self._go_on),
            "the scene's next step",
        )
        self.next.button_style = "primary"
        self.choices = row()
        super().__init__((row(self.scene, self.begin), self.text, self.choices))

    def _go_on(self) -> None:
        go_on(self.sandbox, self.guess.value)
        self.guess.value = 0
        if self.sandbox.mark.next_step is None:
            self.begin.focus()  # this button goes: the keyboard must not get lost

    def draw(self) -> None:
        """Show the text of the next step, and ask, if it asks something."""
        place, step = self.sandbox.mark, None
        self.text.value = ""
        if place is not None:
            step = place.next_step
            parts = (place.verdict, step.text if step else place.scene.end)
            question = step.question if step else ""
            title = place.scene.title
            self.text.value = html.page(html.prose(*parts, head=title, bold=question))
        asked = (self.guess,) if step and step.question else ()
        self.choices.children = (*asked, self.next) if step else ()


class Tools(widgets.VBox):
    """What is done to the pool as a whole, and the numbers that all rows use."""

    def __init__(self, sandbox: Sandbox, do: Do, prefix_cache: bool):
        """With 64 tokens for a new sequence, 10 to append, and 3 forks."""
        self.length = number("Tokens of a new sequence:", 64, 1)
        self.shared = tick(
            "shared prompt", False, "it begins with the same tokens as all other such"
        )
        self.cached = tick(
            "prefix cache", prefix_cache, "it takes blocks whose content is known"
        )
        self.start = button("new sequence", lambda: do(self._start))
        self.tokens = number("Tokens to append:", 10, 1)
        self.forks = number("Forks:", 3, 1)
        self.undo = button("undo", lambda: do(sandbox.undo), "take back the last turn")
        self.clear = button(
            "clear",
            lambda: do(partial(sandbox.play, sandbox.empty, mark=None)),
            "empty the pool, and end the scene; can be undone",
        )
        self.picture = button("picture", self._show_picture, "make a picture to save")
        self.saved = widgets.HTML()
        self.sandbox = sandbox
        super().__init__(
            (
                row(self.length, self.shared, self.cached, self.start),
                row(
                    row(self.tokens, self.forks),
                    row(self.undo, self.clear, self.picture),
                ),
                self.saved,
            )
        )

    def _start(self) -> None:
        how = self.length.value, self.shared.value, self.cached.value
        self.sandbox.play(("start", *how))

    def _show_picture(self) -> None:
        self.saved.value = link_to_picture(self.sandbox.board.snapshot())


class SequenceRow(widgets.HBox):
    """One sequence: how long it is, and what can be done to it."""

    def __init__(self, name: str, sandbox: Sandbox, do: Do, tools: Tools):
        """`tools` says how many tokens to append, and how many forks to make."""

        def act(kind: str, *numbers: Callable[[], int]) -> Callable[[], None]:
            def play() -> None:
                sandbox.play((kind, name, *(number() for number in numbers)))

            return lambda: do(play)

        self.name = name
        self.label = widgets.HTML(layout={"min_width": "13em"})
        self.append = button(
            f"{name}: append",
            act("append", lambda: tools.tokens.value),
            f"append tokens to {name}",
        )
        self.fork = button(
            f"{name}: fork",
            act("fork", lambda: tools.forks.value),
            f"fork {name}: more sequences with the same blocks",
        )
        self.write = button(
            f"{name}: write 1",
            act("append", lambda: 1),
            f"write one token into {name}'s last block; watch copy-on-write",
        )

        def end() -> None:
            sandbox.play(("free", name))
            tools.undo.focus()  # this row goes: the keyboard must not get lost

        self.free = button(f"{name}: free", lambda: do(end), f"end {name}")
        buttons = row(self.append, self.fork, self.write, self.free)
        buttons.layout.flex = "1 1 26em"  # where it is narrow, all go below the label
        made = row(self.label, buttons)
        super().__init__(made.children, layout=made.layout)

    def draw(self, now: Snapshot) -> None:
        """Show how long the sequence is."""
        self.label.value = html.page(html.sequence(now, self.name))


class Pages(widgets.VBox):
    """The page tables, and the slot of a token that the reader picks."""

    def __init__(self, sandbox: Sandbox, draw: Callable[[], None]):
        """`draw` is called when another token is picked."""
        self.sandbox = sandbox
        self.block: int | None = None  # where the picked token lies
        self.name = choice("Where is, of sequence", ["–"])
        self.position = number("the token at position", 0, 0)
        self.tables, self.answer = widgets.HTML(), widgets.HTML()
        self._is_drawing = False

        def pick(_: object) -> None:
            if not self._is_drawing:  # then the list of names has changed, no more
                draw()

        for control in (self.name, self.position):
            control.observe(pick, "value")
        picked = row(self.name, self.position, self.answer)
        super().__init__((picked, self.tables))

    def draw(self, now: Snapshot) -> None:
        """Show all tables, and translate the picked position."""
        self._offer_names(("–", *now.tables))
        self.block = here = None
        self.answer.value = ""
        name, position = self.name.value, self.position.value
        if name in now.tables:
            table, size = self.sandbox.board.sequences[name].table, now.block_size
            try:
                slot = table.slot(position)
            except IndexError as error:
                self.answer.value = html.page(html.prose(str(error)))
            else:
                self.block, here = slot // size, (name, position // size)
                self.answer.value = html.page(html.translation(position, slot, size))
        self.tables.value = html.page(html.tables(now, here))

    def _offer_names(self, names: tuple[str, ...]) -> None:
        if self.name.options == names:
            return
        kept = self.name.value if self.name.value in names else "–"
        self._is_drawing = True
        self.name.options, self.name.value = names, kept
        self._is_drawing = False
