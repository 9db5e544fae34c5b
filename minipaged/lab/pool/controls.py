"""Lab: the buttons and fields of the widgets, of core ipywidgets only."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets as widgets

ROW = "mp-line-of"  # the class of all rows that wrap


def button(text: str, act: Callable[[], None], tip: str = "") -> widgets.Button:
    """A button that calls `act`; its text says all that a screen reader needs."""
    return _acting(act, description=text, tooltip=tip or text)


def icon(
    sign: str, name: str, act: Callable[[], None], like: widgets.Button | None = None
) -> widgets.Button:
    """A small button with a sign that pool's style sheet draws; `name` is its title.

    It shares layout and style with `like`: fewer messages to the page.
    """
    shared = {"layout": like.layout, "style": like.style} if like else {}
    kinds = "mp-icon", f"mp-sign-{sign}"
    return _acting(act, tooltip=name, _dom_classes=kinds, **shared)


def number(label: str, value: int, least: int) -> widgets.BoundedIntText:
    """A field for a whole number."""
    made = widgets.BoundedIntText(value, description=label, min=least, max=100_000)
    made.add_class("mp-number")
    return _labelled(made)


def guess(label: str, act: Callable[[], None]) -> widgets.Text:
    """A field that may be empty; the enter key calls `act`."""
    made = widgets.Text(description=label, placeholder="?")
    made.add_class("mp-number")

    def hear(_: widgets.Widget, content: dict, __: list) -> None:
        if content.get("event") == "submit":
            act()

    made.on_msg(hear)
    return _labelled(made)


def tick(label: str, value: bool, tip: str) -> widgets.Checkbox:
    """A box to be ticked."""
    layout = widgets.Layout(width="auto")
    return widgets.Checkbox(
        value, description=label, tooltip=tip, indent=False, layout=layout
    )


def choice(label: str, options: Sequence) -> widgets.Dropdown:
    """One of several; options are texts, or (text, value)."""
    made = widgets.Dropdown(options=options, description=label)
    made.add_class("mp-choice")
    return _labelled(made)


def one_of(names: Mapping[str, int], value: int) -> widgets.ToggleButtons:
    """A button for each of these numbers, by its name; one is pressed."""
    made = widgets.ToggleButtons(options=[*names.items()], value=value)
    made.tooltips, made.style.button_width = list(names), "auto"
    made.add_class("mp-one-of")
    return made


def row(*parts: widgets.Widget, kind: str = "") -> widgets.HBox:
    """Side by side, and below each other where the pane is narrow."""
    return widgets.HBox(parts, _dom_classes=(ROW, kind) if kind else (ROW,))


def show(part: widgets.Widget, is_shown: bool) -> None:
    """Show a part, or take it away with its place."""
    part.layout.display = None if is_shown else "none"


def _acting(act: Callable[[], None], **traits: Any) -> widgets.Button:
    # Classes are given at once: each added later would be another message to the page.
    made = widgets.Button(**traits)
    made.on_click(lambda _: act())
    return made


def _labelled(made: widgets.Widget) -> widgets.Widget:
    """Its label is written in full, beside the field, or above it on a narrow page."""
    made.style.description_width = "initial"
    made.tooltip = made.description  # else the label's title reads "null"
    made.layout = widgets.Layout(width="max-content", max_width="100%")
    return made
