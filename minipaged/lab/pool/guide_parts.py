"""Lab: the parts of the widget that lead through a scene."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets as widgets

from minipaged.lab.pool.controls import ROW, button, choice, guess, row, show
from minipaged.lab.pool.guide import Frame, Guide, mark_name, rehearse
from minipaged.lab.pool.html import story
from minipaged.lab.pool.scene import Ask, Scene, Step, letter

Do = Callable[[Callable[[], Any]], None]  # does it, then shows the pool anew
FREE = ("Free play", "")  # of no scene
FEW = 3  # sentences of a turn, above the pool; below it stand all
OVER = "The scene is over. Play on below, or choose another scene above."
OVER_SERVED = "The scene is over. Go back, or choose another scene above."


class Head(widgets.HBox):
    """Which scene, which step, back and on."""

    def __init__(
        self,
        guide: Guide,
        do: Do,
        scenes: Sequence[tuple[str, str]],
        choose: Callable[[str], None],
    ):
        """`scenes`: (title, name) of each; `choose` begins one, or none for ""."""
        self.guide = guide
        self.scene = choice("Guided scene:", [*scenes, FREE])
        self.scene.value = guide.name or ""
        self.dots = widgets.HTML()
        self.back = button("‹ Back", lambda: do(self._go_back), "one step back")
        self.next = button("Next ›", lambda: do(self._go_on), "the scene's next step")
        self.scene.observe(lambda _: do(lambda: choose(self.scene.value)), "value")
        parts = self.scene, self.dots, self.back, self.next
        super().__init__(parts, _dom_classes=(ROW, "mp-head"))

    def _go_back(self) -> None:
        self.guide.go_back()
        if len(self.guide.frames) == 1:
            self.next.focus()  # this button is disabled: the keyboard must not get lost

    def _go_on(self) -> None:
        self.guide.go_on()
        self.keep_focus()

    def keep_focus(self) -> None:
        """After a step: on the button for the next, or at the end for the last."""
        (self.next if self.guide.next_step else self.back).focus()

    def draw(self) -> None:
        """Show where the reader stands."""
        guide, scene = self.guide, self.guide.scene
        for part in (self.dots, self.back, self.next):
            show(part, scene is not None)
        if scene is None:
            return
        step = guide.next_step
        self.dots.value = story.steps(len(guide.frames), len(scene.steps))
        self.back.disabled = len(guide.frames) < 2 and not guide.is_by_hand
        self.next.disabled = step is None
        self.next.description = "Skip ›" if step and step.ask else "Next ›"


class Band(widgets.Box):
    """What the reader is asked, what became of the guess, or what comes next.

    It is as high as the highest of all its texts, so nothing below it ever moves.
    """

    def __init__(self, guide: Guide, do: Do, head: Head):
        """`head`: gets the keyboard's focus once a guess is made."""
        self.guide, self.head = guide, head
        self.text, self.question = widgets.HTML(), widgets.HTML()
        self._refused: tuple[Step, str] | None = None  # a step, and what it asks for
        self.guess = guess("Your guess:", lambda: do(self._try))
        self.button = button("Guess", lambda: do(self._try), "take the step, and see")
        self.button.add_class("mp-go")
        field = row(self.guess, self.button, kind="mp-field")
        self.asking = row(self.question, field, kind="mp-asking")
        super().__init__((self.text, self.asking))
        self.add_class("mp-ask")

    def _try(self) -> None:
        step = self.guide.next_step
        try:
            said = step.ask.read(self.guess.value)
        except ValueError:
            wanted = _wanted(step.ask)
            self.guess.value, self.guess.placeholder = "", wanted
            self._refused = step, f"A {wanted}, please."
            self.guess.focus()
            return
        self._refused = None
        self.guide.go_on(said)
        self.head.keep_focus()

    def draw(self) -> None:
        """Show what belongs to the place where the reader stands."""
        guide, scene = self.guide, self.guide.scene
        show(self, scene is not None)
        if scene is None:
            return
        frame, step = guide.frames[-1], guide.next_step
        is_asked = bool(step and step.ask) and not guide.is_by_hand
        over = story.quiet(OVER_SERVED if guide.is_served else OVER)
        shown = over if guide.is_by_hand else _band(frame, step, over)
        steps = *scene.steps[1:], None
        others = [
            _band(one, next_step, over)
            for one, next_step in zip(rehearse(guide.name), steps, strict=True)
        ]
        asks = [one.ask for one in scene.steps if one.ask]
        questions = [(one.question, f"A {_wanted(one)}, please.") for one in asks]
        self.text.value = story.band(shown, [*others, over], questions)
        self.question.value = ""
        if is_asked:
            refused, words = self._refused or (None, "")
            wrong = words if refused is step else ""
            self.question.value = story.question(step.ask.question, wrong)
        show(self.asking, is_asked)
        is_told = frame.verdict is not None and not guide.is_by_hand
        for kind, is_on in (("mp-asked", is_asked), ("mp-told", is_told)):
            (self.add_class if is_on else self.remove_class)(kind)
        if not is_asked:  # a guess is not kept for the next question
            self._refused = None
            self.guess.value, self.guess.placeholder = "", "?"


def _wanted(ask: Ask) -> str:
    return "letter" if ask.read is letter else "number"


def _band(frame: Frame, step: Step | None, over: str) -> str:
    if frame.verdict is not None:
        return story.verdict(frame.verdict)
    if step is None:
        return over
    return "" if step.ask else story.coming(step.coming)


def narrate(guide: Guide) -> str:
    """The headline: of the scene, of what was done by hand, or of an empty pool."""
    turns, board = guide.sandbox.turns, guide.sandbox.board
    others = rehearse(guide.name) if guide.name else ()
    if guide.frames and not guide.is_by_hand:
        return story.say(guide.frames[-1], others)
    if turns:
        lines = [f"{line[:1].upper()}{line[1:]}" for line in turns[-1].words]
        more = " ".join(f"{line}." for line in lines[1:FEW])
        more += " And more: see below." * (len(lines) > FEW)
        return story.say(Frame(mark_name(lines[0]), more), others)
    pool = board.pool
    size = f"{pool.num_blocks} blocks of {pool.block_size} slots, all free"
    return story.say(Frame("An empty pool", f"{size}. Start a sequence below."))


def scenes_of(scenes: Mapping[str, Scene], lesson: int | None) -> list[tuple[str, str]]:
    """(title, name) of a lesson's scenes; of all, for None."""
    return [(s.title, n) for n, s in scenes.items() if lesson in (None, s.lesson)]
