"""Lab: the buttons and fields of the widgets, of core ipywidgets only."""

from collections.abc import Callable, Sequence

import ipywidgets as widgets


def button(text: str, act: Callable[[], None], tip: str = "") -> widgets.Button:
    """A button that calls `act`; its text says all that a screen reader needs."""
    made = widgets.Button(description=text, tooltip=tip or text, layout=_as_wide())
    made.on_click(lambda _: act())
    return made


def number(label: str, value: int, least: int) -> widgets.BoundedIntText:
    """A field for a whole number."""
    made = widgets.BoundedIntText(value, description=label, min=least, max=100_000)
    made.add_class("mp-number")
    return _labelled(made)


def tick(label: str, value: bool, tip: str) -> widgets.Checkbox:
    """A box to be ticked."""
    layout = widgets.Layout(width="auto", margin="2px 8px")
    return widgets.Checkbox(
        value, description=label, tooltip=tip, indent=False, layout=layout
    )


def choice(label: str, options: Sequence) -> widgets.Dropdown:
    """One of several; options are texts, or (text, value)."""
    made = widgets.Dropdown(options=options, description=label)
    made.add_class("mp-choice")
    return _labelled(made)


def row(*parts: widgets.Widget) -> widgets.HBox:
    """Side by side, and below each other where the pane is narrow."""
    return widgets.HBox(
        parts, layout=widgets.Layout(flex_flow="row wrap", align_items="center")
    )


def _labelled(made: widgets.Widget) -> widgets.Widget:
    """Its label is written in full, beside the field, or above it on a narrow page."""
    made.style.description_width = "initial"
    made.tooltip = made.description  # else the label's title reads "null"
    made.layout = widgets.Layout(
        width="max-content",
        max_width="100%",
        height="auto",
        flex_flow="row wrap",
        margin="2px 8px 2px 2px",
    )
    return made


def _as_wide() -> widgets.Layout:
    return widgets.Layout(width="auto")
