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
    return _labelled(made, "4.5em")


def tick(label: str, value: bool, tip: str) -> widgets.Checkbox:
    """A box to be ticked."""
    layout = widgets.Layout(width="auto", margin="2px 8px")
    return widgets.Checkbox(
        value, description=label, tooltip=tip, indent=False, layout=layout
    )


def choice(label: str, options: Sequence) -> widgets.Dropdown:
    """One of several; options are texts, or (text, value)."""
    return _labelled(widgets.Dropdown(options=options, description=label), "auto")


def row(*parts: widgets.Widget) -> widgets.HBox:
    """Side by side, and below each other where the pane is narrow."""
    return widgets.HBox(
        parts, layout=widgets.Layout(flex_flow="row wrap", align_items="center")
    )


def _labelled(made: widgets.Widget, width: str) -> widgets.Widget:
    """Its label is written in full, and stays with the field when rows are wrapped."""
    made.style.description_width = "initial"
    label = f"{len(made.description) * 0.55 + 0.5:.1f}em"
    made.layout.width = f"calc({label} + {width})" if width != "auto" else width
    made.layout.max_width = "100%"
    return made


def _as_wide() -> widgets.Layout:
    return widgets.Layout(width="auto")
