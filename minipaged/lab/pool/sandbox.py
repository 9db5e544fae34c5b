"""Lab: a real pool to play in: every turn can be undone, and none stops half-way."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from minipaged.lab.pool.board import Board
from minipaged.lab.pool.served_board import ServedBoard, Serving
from minipaged.lab.pool.snapshot import Snapshot
from minipaged.lab.pool.twin import Reservations
from minipaged.lab.pool.words import tell

# A move: the name of a method of Board, and its arguments, as in ("append", "A", 10).
Move = tuple[Any, ...]


@dataclass(frozen=True)
class Turn:
    """Moves that were made together, what happened, and what was there before."""

    moves: tuple[Move, ...]
    words: tuple[str, ...]
    before: Snapshot


class Sandbox:
    """A Board, and all turns that were taken on it, so that each can be undone.

    Attributes: board; turns, and undone, those that can be taken again (lists of Turn).
    """

    def __init__(self, num_blocks: int = 64, block_size: int = 16):
        """Begin with an empty pool."""
        self.reset(num_blocks, block_size)

    def reset(
        self,
        num_blocks: int,
        block_size: int,
        reservations: Reservations | None = None,
        serving: Serving | None = None,
    ) -> None:
        """Begin anew with an empty pool of this size; no turn is kept.

        With `serving` a scheduler moves what is in it.
        """
        if serving is None:
            self._empty = partial(Board, num_blocks, block_size, reservations)
        else:
            self._empty = partial(ServedBoard, num_blocks, block_size, serving)
        self.board = self._empty()
        self.turns: list[Turn] = []
        self.undone: list[Turn] = []

    def play(self, *moves: Move) -> tuple[str, ...]:
        """Make these moves as one turn, and tell in words what happened.

        Raises what a move raises: OutOfBlocks, or ValueError for a move that makes no
        sense. Then nothing has changed, though moves before it had been made.
        """
        first = before = self.board.snapshot()
        words: list[str] = []
        try:
            for move in moves:
                self._make(move)
                after = self.board.snapshot()
                words += tell(before, after)
                before = after
        except Exception:
            self._replay()
            raise
        self._remember(Turn(moves, tuple(words), first))
        return self.turns[-1].words

    def note(self, words: str) -> None:
        """A turn without a move: something was said, or failed and changed nothing."""
        self._remember(Turn((), (words,), self.board.snapshot()))

    def undo(self) -> Turn:
        """Take back the last turn, and return it. ValueError if there is none.

        All turns before it are played again on a new board: what is then seen is what
        the real pool does, not what somebody kept of it.
        """
        if not self.turns:
            raise ValueError("there is nothing to undo")
        self.undone.append(self.turns.pop())
        self._replay()
        return self.undone[-1]

    def redo(self) -> Turn:
        """Take again the turn that was undone last. ValueError if there is none."""
        if not self.undone:
            raise ValueError("there is nothing to redo")
        turn = self.undone.pop()
        for move in turn.moves:
            self._make(move)
        self.turns.append(turn)
        return turn

    def _remember(self, turn: Turn) -> None:
        self.turns.append(turn)
        self.undone.clear()

    def _replay(self) -> None:
        self.board = self._empty()
        for turn in self.turns:
            for move in turn.moves:
                self._make(move)

    def _make(self, move: Move) -> None:
        name, *arguments = move
        getattr(self.board, name)(*arguments)
