"""Lab: the block pool in your hands: a widget over the real pool."""

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from minipaged.errors import OutOfBlocks
from minipaged.lab.pool import html
from minipaged.lab.pool.guide import REFUSED, begin, tell_scene
from minipaged.lab.pool.sandbox import Sandbox
from minipaged.lab.pool.widget_parts import Guide, Pages, SequenceRow, Tools

NUM_TURNS = 30  # that are told below the pool


class PoolWidget(widgets.VBox):
    """A pool to be driven by hand: start, append, fork, write, free, and undo.

    What is shown is read from the live BlockPool, BlockTables and PrefixCache of
    `sandbox.board` after every click. A click that is refused says why, and changes
    nothing.
    """

    def __init__(
        self,
        num_blocks: int = 64,
        block_size: int = 16,
        scene: str | None = None,
        prefix_cache: bool = True,
    ):
        """Begin with an empty pool, or with a guided scene: a name in SCENES.

        prefix_cache: whether new sequences use it, until the reader says otherwise.
        """
        self.sandbox = Sandbox(num_blocks, block_size)
        if scene:
            begin(self.sandbox, scene)
        self.guide = Guide(self.sandbox, self.do)
        self.tools = Tools(self.sandbox, self.do, prefix_cache)
        self.sequences = widgets.VBox()
        self.rows: dict[str, SequenceRow] = {}  # made once for each letter
        self.grid, self.figures, self.story = (widgets.HTML() for _ in range(3))
        self.pages = Pages(self.sandbox, self.draw)
        style = widgets.HTML(html.STYLE)
        seen = (self.grid, self.figures, self.sequences, self.story, self.pages)
        super().__init__((style, self.guide, self.tools, *seen))
        self.draw()

    def do(self, action: Callable[[], Any]) -> None:
        """Do something with the sandbox, and show it; or why it was refused."""
        wrong = ""
        try:
            action()
        except (OutOfBlocks, ValueError) as error:
            wrong = f"{REFUSED}{error}"
        self.draw(wrong)

    def draw(self, wrong: str = "") -> None:
        """Show the live pool as it is now; `wrong`: and what has just failed."""
        now = self.sandbox.board.snapshot()
        for name in now.tables:
            if name not in self.rows:
                self.rows[name] = SequenceRow(name, self.sandbox, self.do, self.tools)
            self.rows[name].draw(now)
        self.sequences.children = [self.rows[name] for name in now.tables]
        self.guide.draw()
        self.tools.saved.value = ""  # a picture of what is no more
        self.pages.draw(now)
        self.grid.value = html.page(html.grid(now, self.pages.block))
        self.figures.value = html.page(html.figures(now))
        latest = self.sandbox.turns[: -NUM_TURNS - 1 : -1]  # the last one first
        words = [line for turn in latest for line in turn.words]
        self.story.value = html.page(html.events([wrong, *words] if wrong else words))

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        """With a text for pages that run no widgets: the whole scene, or the pool."""
        bundle = super()._repr_mimebundle_(**options)
        place = self.sandbox.mark
        text = tell_scene(place.name) if place else repr(self.sandbox.board.pool)
        return bundle | {"text/plain": text}
