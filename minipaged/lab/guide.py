"""Lab: lead a reader through a scene, step by step, on a sandbox that is theirs."""

from dataclasses import dataclass

from minipaged.errors import OutOfBlocks
from minipaged.lab.board import Board
from minipaged.lab.sandbox import Sandbox
from minipaged.lab.scenes import SCENES, Scene, Step


@dataclass(frozen=True)
class Place:
    """Where a reader stands in a scene, and what became of the last guess."""

    name: str
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
    """Clear the board for this scene, as a turn that can be undone."""
    scene = SCENES[name]
    sandbox.play(("reset", scene.num_blocks, scene.block_size), mark=Place(name))


def go_on(sandbox: Sandbox, guess: int = 0) -> None:
    """Do what the next step does, and stand behind it.

    Raises what a move raises if the board was changed by hand so that the scene cannot
    go on; nothing has changed then.
    """
    place = sandbox.mark
    step = place.next_step
    if step is None:
        return

    def behind(board: Board) -> Place:
        verdict = ""
        if step.answer is not None:
            answer = step.answer(board)
            said = "as you said" if guess == answer else f"you said {guess}"
            verdict = f"It is {answer}; {said}."
        return Place(place.name, place.step + 1, verdict)

    if not step.fails:
        sandbox.play(*step.moves, mark=behind)
        return
    try:
        sandbox.play(*step.moves)
    except OutOfBlocks as error:
        sandbox.note(f"refused, and nothing has changed: {error}", mark=behind)
    else:
        sandbox.undo()
        raise ValueError("there is room now; begin this scene again")


def tell_scene(name: str) -> str:
    """A whole scene in words, played on a sandbox of its own."""
    sandbox = Sandbox()
    begin(sandbox, name)
    lines, scene = [SCENES[name].title], SCENES[name]
    while (step := sandbox.mark.next_step) is not None:
        lines += ["", f"{step.text} {step.question}".strip()]
        num_told = len(sandbox.words)
        go_on(sandbox)
        lines += [f"    {line}" for line in sandbox.words[num_told:]]
        if step.answer is not None:
            lines += ["", sandbox.mark.verdict.split(";")[0] + "."]
    return "\n".join([*lines, "", scene.end])
