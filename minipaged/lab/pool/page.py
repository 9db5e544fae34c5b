"""Lab: what each widget is made in: the style, and a text for where none runs."""

from typing import Any

import ipywidgets as widgets

from minipaged.lab.pool.html.style import STYLE


class Page(widgets.VBox):
    """Parts below each other, in the style of the pool."""

    def __init__(self, *parts: widgets.Widget):
        super().__init__((widgets.HTML(STYLE), *parts))
        self.add_class("mp")

    def tell(self) -> str:
        """What a page shows that runs no widgets."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        return super()._repr_mimebundle_(**options) | {"text/plain": self.tell()}
