"""Lab: what a guided scene is made of: steps, what they show, and what they ask."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from minipaged.lab.pool.board import Board
from minipaged.lab.pool.sandbox import Move
from minipaged.lab.pool.served_board import Serving
from minipaged.lab.pool.twin import Reservations


class Ask(NamedTuple):
    """A question before a step; the live board answers it after the step."""

    question: str
    answer: Callable[[Board], int | str]
    why: str | Callable[[Board, int | str | None], str]  # of the board and the guess
    unit: str = ""  # what the answer is the number of: "block", "slot"
    read: Callable[[str], int | str] = int  # what was written; ValueError if it cannot


@dataclass(frozen=True)
class Step:
    """What comes, what is done, and what there is to see then.

    In `big`, {A} stands for A's letter on its colour; it may be made from the live
    board, and without it the pool's own sentence stands there.
    """

    coming: str  # before the step, unless it asks something
    moves: tuple[Move, ...]
    sub: str
    big: str | Callable[[Board], str] = ""
    ask: Ask | None = None
    look: tuple[str, int] | None = None  # the sequence and position to be looked up
    fails: bool = False  # the moves must raise OutOfBlocks


@dataclass(frozen=True)
class Scene:
    """A scene on a pool of its own; its first step is done as it begins."""

    title: str
    lesson: int
    num_blocks: int
    block_size: int
    steps: tuple[Step, ...]
    reservations: Reservations | None = None  # for contiguous memory beside the pool
    serving: Serving | None = None  # for a scheduler that moves what is in the pool


def letter(text: str) -> str:
    """A sequence's letter, as somebody writes it: "c" is "C"."""
    found = text.strip().upper()
    if not re.fullmatch("[A-Z]", found):
        raise ValueError(f"{text!r} is no letter")
    return found


def num_held(board: Board) -> int:
    """Blocks that somebody holds."""
    return board.pool.num_blocks - board.pool.num_free


def num_found(board: Board) -> int:
    """Blocks that were found in the prefix cache so far."""
    return board.prefix_cache.tokens_hit // board.pool.block_size


def num_entries(board: Board) -> int:
    """Entries of all tables: blocks that would be held if none were shared."""
    return sum(len(one.table.block_ids) for one in board.sequences.values())


def block_of(board: Board, name: str, position: int) -> int:
    """In which block a position lies."""
    return board.sequences[name].table.slot(position) // board.pool.block_size


def divide(board: Board, name: str, position: int) -> str:
    """How a position becomes a slot, in a line."""
    size, block_id = board.pool.block_size, block_of(board, name, position)
    entry, offset = divmod(position, size)
    slot = block_id * size + offset
    return (
        f"{position} = {entry} × {size} + {offset}. Entry {entry} of {name}'s table "
        f"says block {block_id}. {block_id} × {size} + {offset} = slot {slot}."
    )
