"""Lab: lead a reader through a scene, step by step, on a sandbox that is theirs."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from minipaged.draw.letters import counted, listed
from minipaged.errors import OutOfBlocks
from minipaged.lab.pool.lane_words import VERBS
from minipaged.lab.pool.lanes import Room
from minipaged.lab.pool.sandbox import Sandbox
from minipaged.lab.pool.scene import Scene, Step
from minipaged.lab.pool.scenes import SCENES

REFUSED = "refused, and nothing has changed: "


@dataclass(frozen=True)
class Verdict:
    """What became of a guess."""

    is_right: bool
    head: str
    why: str


@dataclass(frozen=True)
class Frame:
    """What is said at one place of a scene."""

    big: str
    sub: str
    verdict: Verdict | None = None


class Guide:
    """Where a reader stands in a scene.

    A step is one turn of the sandbox: what comes after those is taken by hand.
    Attributes: name (of the scene; None: free play); frames, one for each step taken.
    """

    def __init__(self, sandbox: Sandbox):
        """In no scene: the sandbox is there to play in."""
        self.sandbox = sandbox
        self.name: str | None = None
        self.frames: list[Frame] = []

    @property
    def scene(self) -> Scene | None:
        """The scene that the reader is in."""
        return SCENES[self.name] if self.name else None

    @property
    def next_step(self) -> Step | None:
        """What comes next; None at the end, and where there is no scene."""
        steps = self.scene.steps if self.scene else ()
        return steps[len(self.frames)] if len(self.frames) < len(steps) else None

    @property
    def is_served(self) -> bool:
        """Whether a scheduler moves what is in the pool, and no hand can."""
        return self.scene is not None and self.scene.serving is not None

    @property
    def is_by_hand(self) -> bool:
        """Whether something was done that is no part of the scene."""
        return len(self.sandbox.turns) > len(self.frames)

    def begin(self, name: str) -> None:
        """Take the first step of this scene, on a pool of its own.

        Raises ValueError for a name that is not in SCENES.
        """
        if name not in SCENES:
            raise ValueError(f"no scene named {name!r}; choose from {sorted(SCENES)}")
        scene = SCENES[name]
        size = scene.num_blocks, scene.block_size
        self.sandbox.reset(*size, scene.reservations, scene.serving)
        self.name, self.frames = name, []
        self.go_on()

    def leave(self, num_blocks: int, block_size: int) -> None:
        """End the scene: an empty pool of this size to play in."""
        self.sandbox.reset(num_blocks, block_size)
        self.name, self.frames = None, []

    def go_on(self, guess: int | str | None = None) -> None:
        """Take the next step, and say what became of the guess, if there is one.

        Raises ValueError if the pool was moved by hand in between: what the scene says
        would not be true. Nothing has changed then.
        """
        step = self.next_step
        if step is None:
            return
        if self.is_by_hand:
            raise ValueError("the pool was moved by hand; go back, or begin again")
        try:
            self.sandbox.play(*step.moves)
        except OutOfBlocks as error:
            if not step.fails:
                raise
            self.sandbox.note(f"{REFUSED}{error}")
        board = self.sandbox.board
        big = step.big(board) if callable(step.big) else step.big
        big = big or mark_name(self.sandbox.turns[-1].words[0])
        self.frames.append(Frame(big, step.sub, self._judge(step, guess)))

    def go_back(self) -> None:
        """Take back what was done by hand; or, if nothing was, the last step.

        A scene's first step stays: ValueError.
        """
        if self.is_by_hand:
            while self.is_by_hand:
                self.sandbox.undo()
            return
        if len(self.frames) <= 1:
            raise ValueError("this is where the scene begins")
        self.sandbox.undo()
        self.sandbox.undone.clear()  # to go on is what takes it again
        self.frames.pop()

    def undo(self) -> None:
        """Take back the last turn that was taken by hand; ValueError if none was."""
        if not self.is_by_hand:
            raise ValueError("there is nothing to undo")
        self.sandbox.undo()

    def _judge(self, step: Step, guess: int | str | None) -> Verdict | None:
        if step.ask is None:
            return None
        board, unit = self.sandbox.board, f"{step.ask.unit} ".lstrip()
        answer = step.ask.answer(board)
        why = step.ask.why
        why = why(board, guess) if callable(why) else why
        if guess == answer:
            return Verdict(True, f"✓ Right: {unit}{answer}.", why)
        said = f"You said {unit}{guess}. " if guess is not None else ""
        return Verdict(False, f"{said}It is {unit}{answer}.", why)


def refused(error: Exception, names: Iterable[str], end: str) -> str:
    """Why a move was refused, and what a reader can do about it.

    names: of the sequences; end: what the button is called that ends one.
    """
    if not isinstance(error, OutOfBlocks):
        return f"{REFUSED}{error}"
    said = f"wanted {counted(error.wanted, 'block')}, {error.free} free"
    if error.wanted > error.total:
        return f"{REFUSED}{said}. The whole pool has {counted(error.total, 'block')}."
    letters = listed(sorted(names)).replace(" and ", " or ")
    return f"{REFUSED}{said} of {error.total}. {end} {letters}, or undo."


def mark_name(words: str) -> str:
    """The sentence with the sequence that it speaks of marked: "{A} ends"."""
    return re.sub(rf"^([A-Z]\d*)(?= ({VERBS})\b)", r"{\1}", words)


def play_through(name: str, guess: int | None = None) -> Iterator[Guide]:
    """A scene from step to step, on a sandbox that nobody sees."""
    guide = Guide(Sandbox())
    guide.begin(name)
    yield guide
    while guide.next_step is not None:
        guide.go_on(guess)
        yield guide


@cache
def rehearse(name: str) -> tuple[Frame, ...]:
    """All that a scene will say, to a guess that is wrong."""
    *_, guide = play_through(name, guess=-1)
    return tuple(guide.frames)


@cache
def room_of(name: str) -> Room:
    """How much place the lanes of a scene need, over all its steps."""
    boards = (guide.sandbox.board for guide in play_through(name))
    return Room.of(board.snapshot().lanes for board in boards)
