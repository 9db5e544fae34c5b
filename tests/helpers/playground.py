"""The page in which Python runs, and the same widgets here: to be compared.

Here `ipywidgets` is the real one. So what is compared with the page has neither its
stand-in, nor its Python, nor its JavaScript.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import ipywidgets
from playwright.sync_api import Page

from minipaged.lab.pool.controls import show
from minipaged.lab.pool.html.style import STYLE
from minipaged.lab.pool.scenes import SCENES
from minipaged.lab.pool.widget import PoolWidget

IS_IDLE = "() => document.documentElement.dataset.idle === 'yes'"
IS_AT = "place => document.documentElement.dataset.idle === 'yes' && shown === place"
# What is seen: each text with tags, and each control with its words and its value.
SEEN = Path(__file__).with_name("playground.js").read_text("utf-8")
# HTML as a browser writes it.
AS_WRITTEN = """all => all.map(html => {
  const made = document.createElement("template");
  made.innerHTML = html;
  return made.innerHTML;
})"""


def wait(page: Page) -> None:
    """Until Python has done all that it was asked for."""
    page.wait_for_function(IS_IDLE)


def go(page: Page, place: str) -> None:
    """To a place of the page, begun anew."""
    for step in ("play", place):
        page.evaluate("place => { location.hash = place }", step)
        page.wait_for_function(IS_AT, arg=step)


def seen(page: Page) -> list[Any]:
    """All that is seen of the open part."""
    return [_plain(one) for one in page.evaluate(SEEN)]


def expected(page: Page, root: ipywidgets.Widget) -> list[Any]:
    """All that should be seen, by the widget that lives here."""
    every = list(_leaves(root))
    texts = [
        one.value.replace(STYLE, "")  # the page has it once, in its head
        for one in every
        if isinstance(one, ipywidgets.HTML)
    ]
    written = iter(page.evaluate(AS_WRITTEN, texts))
    return [
        _plain(next(written)) if isinstance(one, ipywidgets.HTML) else _control(one)
        for one in every
    ]


def _plain(what: Any) -> Any:
    """Without the numbers that each drawing of lines has anew."""
    return re.sub("mp-tip-[0-9]+", "mp-tip", what) if isinstance(what, str) else what


def _leaves(widget: ipywidgets.Widget) -> Iterator[ipywidgets.Widget]:
    """All that is seen and is no box, from top to bottom."""
    if widget.layout.display == "none":
        return
    if isinstance(widget, ipywidgets.Box):
        for child in widget.children:
            yield from _leaves(child)
    else:
        yield widget


def _control(one: ipywidgets.Widget) -> list[Any]:
    match one:
        case ipywidgets.Button():
            return ["button", one.tooltip, one.description, not one.disabled]
        case ipywidgets.Checkbox():
            return ["checkbox", one.description, one.value]
        case ipywidgets.Dropdown():
            return ["list", str(one.label), len(one.options)]
        case ipywidgets.ToggleButtons():
            return ["buttons", one.label, not one.disabled]
        case ipywidgets.SelectionSlider():
            return ["slider", one.description, one.label]
        case ipywidgets.BoundedIntText():
            return ["number", one.description, str(one.value)]
        case ipywidgets.Text():
            return ["text", one.description, one.value]
    raise AssertionError(one)


def pool_of_the_page() -> PoolWidget:
    """The widget that the page shows as scenes and as free play."""
    made = PoolWidget(16, 4)
    show(made.play.picture, False)
    return made


def facts(root: ipywidgets.Widget) -> list[Any]:
    """All that should be seen, with HTML as Python writes it."""
    return [
        _plain(one.value) if isinstance(one, ipywidgets.HTML) else _control(one)
        for one in _leaves(root)
    ]


def buttons_of(root: ipywidgets.Widget) -> dict[str, ipywidgets.Button]:
    """Those that are seen and can be pressed, by the names that the page gives them."""
    return {
        one.description or one.tooltip: one
        for one in _leaves(root)
        if isinstance(one, ipywidgets.Button) and not one.disabled
    }


def walk() -> list[Any]:
    """What is seen in all scenes, at wrong guesses, and after clicks at random."""
    widget, chance, states = pool_of_the_page(), Random(0), []
    for scene in SCENES:
        widget.head.scene.value = scene
        states.append(facts(widget))
        while step := widget.guide.next_step:
            if step.ask:
                widget.band.guess.value = "1"
                states.append(facts(widget))
                widget.band.button.click()
                states.append(facts(widget))
            if widget.guide.next_step is step:  # it asked nothing, or "1" is no answer
                widget.head.next.click()
                states.append(facts(widget))
        for _ in range(8):
            chance.choice(list(buttons_of(widget).values())).click()
            states.append(facts(widget))
    return states


def take_a_step(page: Page, widget: PoolWidget, guess: str) -> None:
    """The scene's next step, in the page and here; with a guess, if it asks."""
    step = widget.guide.next_step
    if step.ask:
        field = page.get_by_label("Your guess:").first
        field.fill(guess)
        field.press("Enter")
        widget.band.guess.value = guess
        widget.band.button.click()
    else:
        page.get_by_role("button", name="Next ›").click()
        widget.head.next.click()
    wait(page)
