"""Lab: a real pool to play in: every turn can be undone, and none stops half-way."""

from dataclasses import dataclass
from typing import Any

from minipaged.lab.pool.board import Board
from minipaged.lab.pool.snapshot import Snapshot
from minipaged.lab.pool.words import tell

KEEP = object()  # in place of a mark: the one of the turn before
# A move: the name of a method of Board, and its arguments, as in ("append", "A", 10).
Move = tuple[Any, ...]


@dataclass(frozen=True)
class Turn:
    """Moves that were made together, what happened, and a mark of the caller's."""

    moves: tuple[Move, ...]
    words: tuple[str, ...]
    mark: Any


class Sandbox:
    """A Board, and all turns that were taken on it, so that each can be undone.

    Attributes: board; turns (list of Turn); empty (the move that clears the board).
    """

    def __init__(self, num_blocks: int = 64, block_size: int = 16):
        """Begin with an empty pool."""
        self.empty: Move = ("reset", num_blocks, block_size)
        self.board = Board(num_blocks, block_size)
        self.turns: list[Turn] = []

    @property
    def mark(self) -> Any:
        """What the last turn was marked with."""
        return self.turns[-1].mark if self.turns else None

    def play(self, *moves: Move, mark: Any = KEEP) -> tuple[str, ...]:
        """Make these moves as one turn, and tell in words what happened.

        `mark`: or a function of the board after the moves, that gives it.
        Raises what a move raises: OutOfBlocks, or ValueError for a move that makes no
        sense. Then nothing has changed, though moves before it had been made.
        """
        words: list[str] = []
        try:
            for move in moves:
                before = self.board.snapshot()
                self._make(move)
                words += _tell(move, before, self.board.snapshot())
        except Exception:
            self._replay()
            raise
        return self._remember(moves, words, mark)

    def note(self, words: str, mark: Any = KEEP) -> None:
        """A turn without a move: something was said, or failed and changed nothing."""
        self._remember((), [words], mark)

    def undo(self) -> Turn:
        """Take back the last turn, and return it. ValueError if there is none.

        All turns before it are played again on a new board: what is then seen is what
        the real pool does, not what somebody kept of it.
        """
        if not self.turns:
            raise ValueError("there is nothing to undo")
        turn = self.turns.pop()
        self._replay()
        return turn

    def _remember(
        self, moves: tuple[Move, ...], words: list[str], mark: Any
    ) -> tuple[str, ...]:
        mark = self.mark if mark is KEEP else mark
        mark = mark(self.board) if callable(mark) else mark
        self.turns.append(Turn(moves, tuple(words), mark))
        return self.turns[-1].words

    def _replay(self) -> None:
        moves = [self.empty, *(move for turn in self.turns for move in turn.moves)]
        resets = [index for index, move in enumerate(moves) if move[0] == "reset"]
        for move in moves[resets[-1] :]:
            self._make(move)

    def _make(self, move: Move) -> None:
        name, *arguments = move
        getattr(self.board, name)(*arguments)


def _tell(move: Move, before: Snapshot, after: Snapshot) -> list[str]:
    if move[0] == "reset":
        size = f"{after.num_blocks} blocks of {after.block_size} tokens"
        return [f"an empty pool of {size}"]
    return tell(before, after)
