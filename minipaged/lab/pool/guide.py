"""Lab: lead a reader through a scene, step by step, on a sandbox that is theirs."""

from dataclasses import dataclass

from minipaged.errors import OutOfBlocks
from minipaged.lab.pool.board import Board
from minipaged.lab.pool.sandbox import Sandbox
from minipaged.lab.pool.scenes import SCENES, Scene, Step

REFUSED = "refused, and nothing has changed: "


@dataclass(frozen=True)
class Place:
    """Where a reader stands in a scene, and what became of the last guess."""

    name: str
    num_turns: int  # taken when the reader came here: if there are more, by hand
    step: int = 0
    verdict: str = ""

    @property
    def scene(self) -> Scene:
        """The scene that this is a place in."""
        return SCENES[self.name]

    @property
    def next_step(self) -> Step | None:
        """What comes next; None at the end."""
        steps = self.scene.steps
        return steps[self.step] if self.step < len(steps) else None


def begin(sandbox: Sandbox, name: str) -> None:
    """Clear the board for this scene, as a turn that can be undone.

    Raises ValueError for a name that is not in SCENES.
    """
    if name not in SCENES:
        raise ValueError(f"no scene named {name!r}; choose from {sorted(SCENES)}")
    scene, num_turns = SCENES[name], len(sandbox.turns) + 1
    empty = "reset", scene.num_blocks, scene.block_size
    sandbox.play(empty, mark=Place(name, num_turns))


def go_on(sandbox: Sandbox, guess: int = 0) -> None:
    """Do what the next step does, and stand behind it. A guess of 0 is none.

    Raises ValueError if the board was changed by hand in between: what the scene says
    would not be true. Nothing has changed then.
    """
    place, step = sandbox.mark, sandbox.mark.next_step
    if step is None:
        return
    if len(sandbox.turns) != place.num_turns:
        raise ValueError("the pool was moved by hand; undo that, or begin again")

    def behind(board: Board) -> Place:
        verdict = ""
        if step.answer is not None:
            answer = step.answer(board)
            said = "as you said" if guess == answer else f"you said {guess}"
            verdict = f"It is {answer}; {said}." if guess else f"It is {answer}."
        return Place(place.name, place.num_turns + 1, place.step + 1, verdict)

    if not step.fails:
        sandbox.play(*step.moves, mark=behind)
        return
    try:
        sandbox.play(*step.moves)
    except OutOfBlocks as error:
        sandbox.note(f"{REFUSED}{error}", mark=behind)


def tell_scene(name: str) -> str:
    """A whole scene in words, played on a sandbox of its own."""
    sandbox = Sandbox()
    begin(sandbox, name)
    lines, scene = [SCENES[name].title], SCENES[name]
    while (step := sandbox.mark.next_step) is not None:
        lines += ["", f"{step.text} {step.question}".strip()]
        go_on(sandbox)
        lines += [f"    {line}" for line in sandbox.turns[-1].words]
        lines += ["", sandbox.mark.verdict] * bool(step.question)
    return "\n".join([*lines, "", scene.end])
