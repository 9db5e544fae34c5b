"""Lab: the style sheet of pages with scenes: light and dark, and what is linked.

A scene that is drawn in the theme "page" has its colours from here. So it need not be
drawn anew when the page around it becomes dark. All of it is for elements within one of
the class "mp".
"""

from collections.abc import Iterable
from dataclasses import fields

from minipaged.draw.marks import Item
from minipaged.draw.palette import DARK, LIGHT, Theme

LINKED = "mp-linked"  # the class of what holds scenes whose items are linked
# As the browser wishes; but as JupyterLab, Colab or VS Code say, if they say it.
SCHEMES = """
.mp { color-scheme: light dark }
:is([data-jp-theme-light="true"], html[theme="light"], .vscode-light) .mp {
  color-scheme: light;
}
:is([data-jp-theme-light="false"], html[theme="dark"], .vscode-dark) .mp {
  color-scheme: dark;
}"""
AT = ":is(:hover,:focus-visible)"
INSIDE = f".{LINKED}:is(:hover,:focus-within)"
ITEMS = f"""
.mp .mp-item {{ transition: opacity .15s }}
.mp .mp-item rect {{ pointer-events: all }} /* also where it has no face */
.mp .mp-hint {{ opacity: 0; pointer-events: none }}
.mp svg text {{ letter-spacing: 0; word-spacing: 0; user-select: none }}
.mp svg text:not([font-family]) {{ font-family: DejaVu Sans, Verdana, sans-serif }}
{INSIDE}:has(.mp-item{AT}) .mp-item {{ opacity: .3 }}"""


def style_sheet(keys: Iterable[str] = ()) -> str:
    """The colours of both themes; and links between the items that have these keys."""
    colours = "".join(
        f"--{name}:light-dark({getattr(LIGHT, name)},{getattr(DARK, name)});"
        for name in (each.name for each in fields(Theme))
        if name != "plate"  # of pictures that are stored
    )
    return f"{SCHEMES}\n.mp {{{colours}}}{ITEMS}\n{_links(keys)}"


def kinds_of(item: Item) -> str:
    """The classes of an item's element: what points at others, and what is lit."""
    if not item.keys:
        return ""
    kinds = ["mp-hint" if item.is_hint else f"mp-item mp-own-{item.keys[0]}"]
    return " ".join([*kinds, *(f"mp-k-{key}" for key in item.keys)])


def _links(keys: Iterable[str]) -> str:
    """While something is pointed at, or has the focus, all that has its key is lit.

    By classes that stand last: browsers look these up at once, for each element. While
    nothing within is pointed at, they need not look inside.
    """
    return "".join(
        f"{INSIDE}:has(.mp-own-{key}{AT}) .mp-k-{key}{{opacity:1}}" for key in keys
    )
