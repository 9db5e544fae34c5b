"""The first view of the page: fork, write, and see a block copied before the write."""

from collections.abc import Callable
from functools import partial
from typing import Any

import ipywidgets as widgets

from minipaged.draw.letters import listed
from minipaged.errors import OutOfBlocks
from minipaged.lab.pool.board import Board
from minipaged.lab.pool.controls import ROW, button, row, show
from minipaged.lab.pool.guide import Frame, mark_name, refused
from minipaged.lab.pool.html import story
from minipaged.lab.pool.html.stage import stage
from minipaged.lab.pool.page import Page
from minipaged.lab.pool.sandbox import Sandbox

NUM_BLOCKS, BLOCK_SIZE, NUM_TOKENS = 8, 4, 6
MOST = 4  # sequences at a time


class Opening(Page):
    """A small pool with a sequence in it, and buttons whose words say what they do.

    Everything is done by `sandbox`, as in the widget of the notebooks.
    """

    def __init__(self) -> None:
        """A holds six tokens, in two blocks of four."""
        self.sandbox = Sandbox(NUM_BLOCKS, BLOCK_SIZE)
        self._begin()
        self.said, self.stage, self.wrong = (widgets.HTML() for _ in range(3))
        self.story = widgets.HTML()
        self.undo = button("Undo", partial(self.do, self._undo), "take back a step")
        self.anew = button("Start over", partial(self.do, self._begin))
        self.rows = widgets.VBox()
        self._row_of: dict[str, SequenceRow] = {}
        tools = row(self.undo, self.anew)
        hands = row(self.rows, tools, kind="mp-opening")
        super().__init__(self.said, hands, self.wrong, self.stage, self.story)
        self.draw()

    @property
    def words(self) -> tuple[str, ...]:
        """What has just happened."""
        return self.sandbox.turns[-1].words

    def do(self, action: Callable[[], Any]) -> None:
        """Do something with the sandbox, and show it; or why it was refused."""
        wrong = ""
        try:
            action()
        except (OutOfBlocks, ValueError) as error:
            wrong = refused(error, self.sandbox.board.sequences, "End")
        self.draw(wrong)

    def move(self, *move: Any) -> None:
        """Let a sequence fork, write or end."""
        self.do(partial(self.sandbox.play, move))

    def draw(self, wrong: str = "") -> None:
        """Show the live pool as it is now; `wrong`: and what has just failed."""
        board, turns = self.sandbox.board, self.sandbox.turns
        now = board.snapshot()
        self.said.value = story.say(Frame(self._headline(), hint(board, self.words)))
        for name in now.tables:
            if name not in self._row_of:
                self._row_of[name] = SequenceRow(name, self)
            self._row_of[name].draw(len(now.tables), _proposed(board))
        self._show_rows([self._row_of[name] for name in now.tables])
        self.undo.disabled = self.anew.disabled = len(turns) < 2
        self.wrong.value = story.refusal(wrong) if wrong else ""
        self.stage.value = stage(now, turns[-1].before, is_still=bool(wrong))
        signs = story.figures(now) + story.key(now, True, False)
        told = story.log([turn.words for turn in turns])
        self.story.value = story.side_by_side(told, signs)

    def _headline(self) -> str:
        if len(self.sandbox.turns) == 1:
            return "{A} holds 6 tokens in blocks of 4"
        first, *_ = self.words
        return mark_name(f"{first[:1].upper()}{first[1:]}")

    def _begin(self) -> None:
        self.sandbox.reset(NUM_BLOCKS, BLOCK_SIZE)
        self.sandbox.play(("start", NUM_TOKENS))

    def _show_rows(self, rows: list["SequenceRow"]) -> None:
        """A row stays where it is when its sequence has ended: hidden."""
        there = self.rows.children
        more = tuple(one for one in rows if one not in there)
        if more:
            self.rows.children = (*there, *more)
        for one in self.rows.children:
            show(one, one in rows)

    def _undo(self) -> None:
        if len(self.sandbox.turns) < 2:
            raise ValueError("there is nothing to undo")
        self.sandbox.undo()


class SequenceRow(widgets.HBox):
    """What a sequence can do, in words."""

    def __init__(self, name: str, opening: Opening):
        """`opening` does it."""
        move = opening.move
        self.fork = button(f"Fork {name}", partial(move, "fork", name, 1))
        self.write = button(f"{name} writes a token", partial(move, "append", name, 1))
        self.end = button(f"End {name}", partial(move, "free", name))
        parts = self.fork, self.write, self.end
        super().__init__(parts, _dom_classes=(ROW, "mp-hands"))

    def draw(self, num_sequences: int, proposed: str) -> None:
        """Fork only while there is room to see it; the last sequence stays.

        proposed: what is tried best now, by its words.
        """
        self.fork.disabled = num_sequences >= MOST
        self.end.disabled = num_sequences < 2
        for each in (self.fork, self.write):
            is_proposed = each.description == proposed
            (each.add_class if is_proposed else each.remove_class)("mp-go")


def _proposed(board: Board) -> str:
    """Who shares the block that is written next writes; if nobody shares, A forks."""
    for name, sequence in reversed(board.sequences.items()):
        table = sequence.table
        is_full = table.num_tokens % BLOCK_SIZE == 0
        if not is_full and board.pool.refcount(table.block_ids[-1]) > 1:
            return f"{name} writes a token"
    return f"Fork {next(iter(board.sequences))}"


def hint(board: Board, words: tuple[str, ...]) -> str:
    """What can be tried next, or what was to be seen."""
    said = _hint(board, words)
    if len(board.sequences) >= MOST:
        said += f" Nobody can fork now: {MOST} sequences are the most here."
    return said


def _hint(board: Board, words: tuple[str, ...]) -> str:
    names = listed(sorted(board.sequences))
    shared = [id_ for id_, many in enumerate(board.pool.holders()) if many > 1]
    if any("copied to" in line for line in words):
        return (
            "The writer has a copy of its own, and the other text is as it was. "
            "That is copy-on-write."
        )
    if shared:
        return f"Hatched blocks have several holders. Let one of {names} write."
    if len(board.sequences) == 1:
        return f"Fork {names}: the fork has the same tokens, and takes no block."
    return "Nothing is shared now, so a write copies nothing."
