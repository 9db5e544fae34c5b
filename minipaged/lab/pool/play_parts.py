"""Lab: the parts of the widget that play freely: each acts on the live pool."""

from collections.abc import Callable
from functools import partial
from typing import Any

import ipywidgets as widgets

from minipaged.lab.pool.controls import ROW, button, icon, number, row, show, tick
from minipaged.lab.pool.guide import Guide
from minipaged.lab.pool.html import story
from minipaged.lab.pool.picture import link_to_picture
from minipaged.lab.pool.snapshot import Snapshot

SHARED = (
    "Shared prompts are equal but for their last token, which each has for itself. So "
    "the block with this token is not found, even if it is full."
)
Do = Callable[[Callable[[], Any]], None]  # does it, then shows the pool anew


class FreePlay(widgets.VBox):
    """Undo and redo, new sequences, and a row of buttons for each sequence.

    has_fork, has_cache: whether forks and writes, and the prefix cache, are on offer.
    """

    def __init__(self, guide: Guide, do: Do, has_fork: bool, has_cache: bool):
        """The fields fit the pool: see `fit`."""
        self.guide, self.do, self.has_fork = guide, do, has_fork
        self.undo = icon("undo", "undo", lambda: do(self._undo))
        self.redo = icon("redo", "redo", lambda: do(self._redo))
        self.tokens = number("Tokens to append:", 1, 1)
        self.forks = number("Forks:", 3, 1)
        self.length = number("Tokens of a new sequence:", 1, 1)
        self.shared = tick(
            "shared prompt", False, "it begins with the same tokens as all other such"
        )
        self.cached = tick(
            "prefix cache", has_cache, "it takes blocks whose content is known"
        )
        self.about = widgets.HTML(story.quiet(SHARED))
        show(self.about, False)
        self.shared.observe(lambda _: show(self.about, self.shared.value), "value")
        self.start = button("+ new sequence", lambda: do(self._start))
        self.picture = button("picture", self._show_picture, "make a picture to save")
        for part, is_there in (
            (self.forks, has_fork),
            (self.shared, has_cache),
            (self.cached, has_cache),
        ):
            show(part, is_there)
        self.wrong, self.saved = widgets.HTML(), widgets.HTML()
        self.header = widgets.HTML(story.actions(self.actions))
        self.sequences = widgets.VBox()
        self.rows: dict[str, SequenceRow] = {}  # made once for each letter
        title = widgets.HTML("<h4>Free play</h4>")
        tools = row(title, self.undo, self.redo, self.tokens, self.forks, self.picture)
        new = row(self.length, self.shared, self.cached, self.start)
        tools.add_class("mp-tools")
        new.add_class("mp-new")
        rows = self.header, self.sequences
        super().__init__((tools, new, self.about, *rows, self.wrong, self.saved))
        self.add_class("mp-play-strip")
        self._size: tuple[int, int] | None = None

    @property
    def actions(self) -> tuple[str, ...]:
        """What can be done to a sequence."""
        return ("append", "fork", "write", "free")[:: 1 if self.has_fork else 3]

    def fit(self, num_blocks: int, block_size: int) -> None:
        """Propose numbers that a pool of this size has room for."""
        if self._size != (num_blocks, block_size):
            self._size = num_blocks, block_size
            slots = num_blocks * block_size
            self.length.value = max(1, min(4 * block_size, slots // 8))
            self.tokens.value = max(1, min(10, block_size))

    def draw(self, now: Snapshot, wrong: str) -> None:
        """Show a row for each sequence, and what was refused."""
        is_open = self.guide.next_step is None and not self.guide.is_served
        show(self, is_open)
        if not is_open:
            return
        self.fit(now.num_blocks, now.block_size)
        for name in now.tables:
            if name not in self.rows:
                self.rows[name] = SequenceRow(name, self)
            self.rows[name].draw(now)
        self._show_rows([self.rows[name] for name in now.tables])
        show(self.header, bool(now.tables))
        self.undo.disabled = not self.guide.is_by_hand
        self.redo.disabled = not self.guide.sandbox.undone
        self.wrong.value = story.refusal(wrong) if wrong else ""
        self.saved.value = ""  # a picture of what is no more

    def _show_rows(self, rows: list["SequenceRow"]) -> None:
        """Rows of sequences that have ended are hidden, not taken out.

        Else the page would make anew all that stand below them.
        """
        there = [one for one in self.sequences.children if one in rows]
        if rows and there == rows[: len(there)]:
            wanted = *self.sequences.children, *rows[len(there) :]
        else:
            wanted = tuple(rows)
        if self.sequences.children != wanted:
            self.sequences.children = wanted
        for one in wanted:
            show(one, one in rows)

    def _undo(self) -> None:
        self.guide.undo()
        if not self.guide.is_by_hand:
            self.redo.focus()  # this button is disabled: the keyboard must not get lost

    def _redo(self) -> None:
        self.guide.sandbox.redo()
        if not self.guide.sandbox.undone:
            self.undo.focus()

    def _start(self) -> None:
        how = self.length.value, self.shared.value, self.cached.value
        self.guide.sandbox.play(("start", *how))

    def _show_picture(self) -> None:
        picture = link_to_picture(self.guide.sandbox.board.snapshot())
        self.saved.value = picture


class SequenceRow(widgets.HBox):
    """One sequence: how long it is, and what can be done to it."""

    def __init__(self, name: str, play: FreePlay):
        """`play` says how many tokens to append, and how many forks to make."""
        sandbox = play.guide.sandbox

        def act(kind: str, *numbers: Callable[[], int]) -> Callable[[], None]:
            def move() -> None:
                sandbox.play((kind, name, *(number() for number in numbers)))

            return partial(play.do, move)

        def end() -> None:
            sandbox.play(("free", name))
            play.undo.disabled = False
            play.undo.focus()  # this row goes: the keyboard must not get lost

        todo = {
            "append": act("append", lambda: play.tokens.value),
            "fork": act("fork", lambda: play.forks.value),
            "write": act("append", lambda: 1),
            "free": partial(play.do, end),
        }
        self.name = name
        self.label = widgets.HTML()
        ones = [" 1" * (kind == "write") for kind in play.actions]
        self.buttons = {
            kind: icon(kind, f"{name}: {kind}{one}", todo[kind], like=play.undo)
            for kind, one in zip(play.actions, ones, strict=True)
        }
        acts = row(*self.buttons.values(), kind="mp-acts")
        super().__init__((self.label, acts), _dom_classes=(ROW, "mp-row"))

    def draw(self, now: Snapshot) -> None:
        """Show how long the sequence is, and its blocks."""
        self.label.value = story.sequence(now, self.name)
