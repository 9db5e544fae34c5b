"""What the pool's widget uses of ipywidgets, for a page without Jupyter.

In the page this module is `ipywidgets`: so the widget of the notebooks runs there as it
is. A widget writes itself as HTML, with the classes that Jupyter gives it, and keeps a
list of what has changed since: the page does the same to its elements.

For example, a button of which Python says that it is disabled:

    button = Button(description="Next")
    html_of(button)              # '<button ... data-id="w-0">Next</button>'
    button.disabled = True
    take_changes()               # [["attribute", "w-0", "disabled", ""]]
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from html import escape
from itertools import count
from types import SimpleNamespace
from typing import Any

_changes: list[list[Any]] = []
_widgets: dict[str, "Widget"] = {}
_prefix = "w"
_numbers = count()


def begin(prefix: str) -> None:
    """Widgets made from now on are called prefix-0, prefix-1, and so on.

    A second time: those of this prefix are forgotten, and their numbers come again.
    """
    global _prefix, _numbers
    _prefix, _numbers = prefix, count()
    for name in [one for one in _widgets if one.startswith(f"{prefix}-")]:
        del _widgets[name]


def take_changes() -> list[list[Any]]:
    """What has changed since the last time, in order."""
    taken = [*_changes]
    _changes.clear()
    return taken


def html_of(widget: "Widget") -> str:
    """All of a widget, as it is now. Changes up to now are in it, and are dropped."""
    html = widget._html()
    _changes.clear()
    return html


def _written(attributes: dict[str, Any]) -> str:
    """Of an element; None: it has none of this name."""
    return "".join(
        f' {name}="{escape(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )


def _label(widget: "Widget") -> str:
    """For the field inside the widget, which has its name."""
    words = escape(widget.description)
    return f'<label class="widget-label" for="{widget.model_id}">{words}</label>'


def hear(name: str, event: str, value: Any = None) -> None:
    """A reader clicked on this widget ("click"), wrote ("value") or pressed enter."""
    widget = _widgets[name]
    if event == "value":
        widget._read(value)
    elif not getattr(widget, "disabled", False):
        widget._act(event)


class Layout:
    """Of the layout, a page without Jupyter needs `display` alone."""

    def __init__(self, display: str | None = None, **_: str):
        self.owners: list[Widget] = []
        self.display = display

    def __setattr__(self, name: str, value: Any) -> None:
        """Show or hide whose layout it is."""
        if name == "display" and value != getattr(self, name, None):
            for owner in self.owners:
                owner._tell("display", value or "")
        super().__setattr__(name, value)


class Widget:
    """A part of the page.

    tag, kinds: of its element, and its classes. told: names of attributes; when one of
    them changes, so does the page.
    """

    tag = "div"
    kinds = ""
    told: tuple[str, ...] = ()

    def __init__(
        self,
        layout: Layout | None = None,
        style: SimpleNamespace | None = None,
        _dom_classes: Iterable[str] = (),
        **traits: Any,
    ):
        """With the attributes `traits`, as ipywidgets names them."""
        self.model_id = f"{_prefix}-{next(_numbers)}"
        self._is_shown = False
        _widgets[self.model_id] = self
        self._dom_classes = tuple(_dom_classes)
        self._observers: list[Callable[[Any], None]] = []
        self.layout, self.style = layout or Layout(), style or SimpleNamespace()
        for name, value in traits.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        """Tell the page, and those who observe the value."""
        if name == "layout":
            value.owners.append(self)
        is_new = name not in self.told or not hasattr(self, name)
        old = None if is_new else getattr(self, name)
        super().__setattr__(name, value)
        if not is_new and value != old:
            self._show(name)
            if name == "value":
                self._notify(old)

    def _notify(self, old: Any) -> None:
        change = SimpleNamespace(owner=self, name="value", old=old, new=self.value)
        for hears in self._observers:
            hears(change)

    def observe(self, hears: Callable[[Any], None], name: str) -> None:
        """Call `hears` whenever the value changes."""
        assert name == "value"
        self._observers.append(hears)

    def _tell(self, what: str, *values: Any) -> None:
        """The page shall do this to the widget's element, if it has it."""
        if self._is_shown:
            _changes.append([what, self.model_id, *values])

    def _show(self, name: str) -> None:
        """Tell the page that this attribute has changed."""
        raise NotImplementedError

    def focus(self) -> None:
        """Give it the keyboard's focus."""
        self._tell("focus")

    def add_class(self, kind: str) -> None:
        """For the style sheet."""
        if kind not in self._dom_classes:
            self._dom_classes = (*self._dom_classes, kind)
            self._tell("class", self._classes)

    def remove_class(self, kind: str) -> None:
        """For the style sheet."""
        if kind in self._dom_classes:
            self._dom_classes = tuple(k for k in self._dom_classes if k != kind)
            self._tell("class", self._classes)

    @property
    def _classes(self) -> str:
        return " ".join([self.kinds, *self._dom_classes])

    def _html(self) -> str:
        """Its element, with all that is in it."""
        self._is_shown = True
        hidden = f"display:{self.layout.display}" if self.layout.display else None
        own = {"class": self._classes, "data-id": self.model_id, "style": hidden}
        tagged = f"<{self.tag}{_written(own | self._attributes())}>"
        return f"{tagged}{self._inner()}</{self.tag}>"

    def _forget(self) -> None:
        """The page has its element no longer."""
        self._is_shown = False

    def _attributes(self) -> dict[str, Any]:
        """Of its element; None: it has none of this name."""
        return {}

    def _inner(self) -> str:
        """The HTML inside its element."""
        raise NotImplementedError

    def _read(self, value: Any) -> None:
        """What a reader wrote or chose becomes the value."""
        raise NotImplementedError

    def _act(self, event: str) -> None:
        """A reader clicked, or pressed enter."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        return {}


class Box(Widget):
    """Widgets in a row, or in a column."""

    kinds = "widget-box"
    told = ("children",)

    def __init__(self, children: Sequence[Widget] = (), **traits: Any):
        super().__init__(children=tuple(children), **traits)

    def __setattr__(self, name: str, value: Any) -> None:
        """Those that are taken out have no elements any more."""
        if name == "children":
            for child in getattr(self, "children", ()):
                if child not in value:
                    child._forget()
        super().__setattr__(name, value)

    def _forget(self) -> None:
        super()._forget()
        for child in self.children:
            child._forget()

    def _inner(self) -> str:
        """Those in it."""
        return "".join(child._html() for child in self.children)

    def _show(self, name: str) -> None:
        """The page keeps the elements that it has."""
        self._tell(
            "children", [[child.model_id, child._html()] for child in self.children]
        )


class HBox(Box):
    """A row."""

    kinds = "widget-box widget-hbox"


class VBox(Box):
    """A column."""

    kinds = "widget-box widget-vbox"


class HTML(Widget):
    """A text with tags."""

    kinds = "widget-html"
    told = ("value",)

    def __init__(self, value: str = "", **traits: Any):
        super().__init__(value=value, **traits)

    def _inner(self) -> str:
        """Jupyter has a second element inside."""
        return f'<div class="widget-html-content">{self.value}</div>'

    def _show(self, name: str) -> None:
        """All of it is written anew."""
        self._tell("html", self.value)


class Button(Widget):
    """Calls what `on_click` was given."""

    tag, kinds = "button", "jupyter-button widget-button"
    told = ("description", "disabled")

    def __init__(self, description: str = "", disabled: bool = False, **traits: Any):
        self.tooltip = ""
        self._clicked: list[Callable[[Button], None]] = []
        super().__init__(description=description, disabled=disabled, **traits)

    def on_click(self, act: Callable[["Button"], None]) -> None:
        """Call `act` at each click."""
        self._clicked.append(act)

    def click(self) -> None:
        """As if it was clicked."""
        for act in self._clicked:
            act(self)

    def _act(self, event: str) -> None:
        self.click()

    def _attributes(self) -> dict[str, Any]:
        """A button without words has its title as its name."""
        disabled = "" if self.disabled else None
        return {"type": "button", "title": self.tooltip or None, "disabled": disabled}

    def _inner(self) -> str:
        """Its words."""
        return escape(self.description)

    def _show(self, name: str) -> None:
        """Its words, or whether it can be pressed."""
        if name == "description":
            self._tell("text", self.description)
        else:
            self._tell("attribute", "disabled", "" if self.disabled else None)


class _Field(Widget):
    """A label, and what a reader writes or chooses."""

    told = ("value", "placeholder", "options")
    kinds = "widget-inline-hbox widget-text"
    html_type = "text"

    def __init__(self, description: str = "", **traits: Any):
        self.description, self.tooltip = description, ""
        self.continuous_update = False
        self.placeholder = ""
        super().__init__(**traits)

    def _inner(self) -> str:
        """A label and its field."""
        field = {
            "id": self.model_id,
            "type": self.html_type,
            "data-when": "input" if self.continuous_update else "change",
            "autocomplete": "off",
            "value": self.value,
        }
        return f"{_label(self)}<input{_written(field | self._more())}>"

    def _more(self) -> dict[str, Any]:
        """Further attributes of the field."""
        return {"placeholder": self.placeholder or None}

    def _show(self, name: str) -> None:
        """What stands in the field."""
        self._tell("field", "value" if name == "value" else name, getattr(self, name))


class Text(_Field):
    """A line of text; the enter key is heard by what `on_msg` was given."""

    def __init__(self, value: str = "", **traits: Any):
        self._heard: list[Callable[[Widget, dict, list], None]] = []
        super().__init__(value=value, **traits)

    def on_msg(self, hears: Callable[[Widget, dict, list], None]) -> None:
        """Call `hears` when the enter key is pressed."""
        self._heard.append(hears)

    def _read(self, value: str) -> None:
        """As it was written."""
        self.value = value

    def _act(self, event: str) -> None:
        """The enter key was pressed."""
        for hears in self._heard:
            hears(self, {"event": event}, [])


class BoundedIntText(_Field):
    """A whole number between min and max."""

    html_type = "number"

    def __init__(self, value: int = 0, min: int = 0, max: int = 100, **traits: Any):
        self.min, self.max = min, max
        super().__init__(value=value, **traits)

    def __setattr__(self, name: str, value: Any) -> None:
        """A value beyond the bounds becomes the nearest that is not."""
        if name == "value":
            value = max(self.min, min(self.max, value))
        super().__setattr__(name, value)

    def _more(self) -> dict[str, Any]:
        """Its bounds."""
        return {"min": self.min, "max": self.max}

    def _read(self, value: str) -> None:
        """What is no number is replaced by the number that was there."""
        with suppress(ValueError):
            self.value = int(value)
        if str(self.value) != value:
            self._show("value")


class Checkbox(Widget):
    """A box to be ticked."""

    kinds = "widget-inline-hbox widget-checkbox"
    told = ("value",)

    def __init__(self, value: bool = False, description: str = "", **traits: Any):
        self.description, self.tooltip = description, ""
        super().__init__(value=value, **traits)

    def _inner(self) -> str:
        """The box, and its words behind it."""
        return (
            f'<label class="widget-label-basic" title="{escape(self.tooltip)}">'
            f'<input type="checkbox" data-when="change"{" checked" * self.value}>'
            f"<span>{escape(self.description)}</span></label>"
        )

    def _read(self, value: bool) -> None:
        """Ticked or not."""
        self.value = value

    def _show(self, name: str) -> None:
        """Ticked or not."""
        self._tell("field", "checked", self.value)


class _Selection(Widget):
    """One of several: options are values, or pairs of words and value."""

    told = ("options", "value")

    def __init__(self, options: Sequence[Any], description: str = "", **traits: Any):
        self.description, self.tooltip = description, ""
        super().__init__(options=tuple(options), **traits)

    def __setattr__(self, name: str, value: Any) -> None:
        """With other options, the first of them is chosen."""
        if name == "value" and value not in self.values:
            raise ValueError(f"{value!r} is not among {self.values}")
        super().__setattr__(name, tuple(value) if name == "options" else value)
        if name == "options":
            self.value = self.values[0]

    @property
    def _pairs(self) -> list[tuple[str, Any]]:
        options = self.options
        return [one if type(one) is tuple else (str(one), one) for one in options]

    @property
    def values(self) -> list[Any]:
        """Of all options."""
        return [value for _, value in self._pairs]

    @property
    def index(self) -> int:
        """Which option is chosen; the first, until one is."""
        values = self.values
        chosen = getattr(self, "value", None)
        return values.index(chosen) if chosen in values else 0

    @property
    def label(self) -> str:
        """The words of the option that is chosen."""
        return self._pairs[self.index][0]

    def _read(self, value: str) -> None:
        """The number of an option."""
        self.value = self.values[int(value)]


class Dropdown(_Selection):
    """A list that opens."""

    kinds = "widget-inline-hbox widget-dropdown"

    def _options(self) -> str:
        return "".join(
            f'<option value="{at}"{" selected" * (at == self.index)}>{escape(words)}'
            "</option>"
            for at, (words, _) in enumerate(self._pairs)
        )

    def _inner(self) -> str:
        """A label and the list."""
        field = {"id": self.model_id, "data-when": "change"}
        return f"{_label(self)}<select{_written(field)}>{self._options()}</select>"

    def _show(self, name: str) -> None:
        """Other options, or another of them."""
        if name == "options":
            self._tell("options", self._options())
        else:
            self._tell("field", "value", str(self.index))


class SelectionSlider(_Selection):
    """A knob that moves from option to option."""

    kinds = "widget-inline-hbox widget-slider"

    def _inner(self) -> str:
        """A label, the slider, and the words of what is chosen."""
        field = {
            "id": self.model_id,
            "type": "range",
            "data-when": "input",
            "min": 0,
            "max": len(self.options) - 1,
            "value": self.index,
            "aria-valuetext": self.label,
        }
        said = f'<output for="{self.model_id}">{escape(self.label)}</output>'
        return f"{_label(self)}<input{_written(field)}>{said}"

    def _show(self, name: str) -> None:
        """Another option."""
        if name == "value":
            self._tell("slider", str(self.index), self.label)


class ToggleButtons(_Selection):
    """A button for each option; one is pressed."""

    kinds = "widget-inline-hbox widget-toggle-buttons"
    told = ("options", "value", "disabled")

    def __init__(self, options: Sequence[Any], disabled: bool = False, **traits: Any):
        super().__init__(options, disabled=disabled, **traits)

    def _attributes(self) -> dict[str, Any]:
        """A group, with the label as its name."""
        return {"role": "group", "aria-label": self.description or None}

    def _inner(self) -> str:
        """The buttons."""
        made = ""
        for at, (words, _) in enumerate(self._pairs):
            is_active = at == self.index
            button = {
                "type": "button",
                "class": "jupyter-button widget-toggle-button"
                + " mod-active" * is_active,
                "data-at": at,
                "aria-pressed": str(is_active).lower(),
                "disabled": "" if self.disabled else None,
            }
            made += f"<button{_written(button)}>{escape(words)}</button>"
        return made

    def _show(self, name: str) -> None:
        """Another one is pressed, or whether any can be."""
        if name == "value":
            self._tell("pressed", self.index)
        elif name == "disabled":
            self._tell("disabled", self.disabled)
