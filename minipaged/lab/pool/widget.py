"""Lab: play with a real block pool, in a widget."""

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from minipaged.errors import OutOfBlocks
from minipaged.lab.pool.controls import show
from minipaged.lab.pool.guide import Guide, refused, room_of
from minipaged.lab.pool.guide_parts import Band, Head, narrate, scenes_of
from minipaged.lab.pool.html import story
from minipaged.lab.pool.html.lanes import with_lanes
from minipaged.lab.pool.html.stage import Here, is_large, stage
from minipaged.lab.pool.html.twin import twin
from minipaged.lab.pool.lookup_part import Lookup
from minipaged.lab.pool.page import Page
from minipaged.lab.pool.play_parts import FreePlay
from minipaged.lab.pool.sandbox import Sandbox
from minipaged.lab.pool.scene_text import tell_scene
from minipaged.lab.pool.scenes import SCENES
from minipaged.lab.pool.snapshot import Snapshot

CACHE, FORK = 3, 4  # the lessons that bring the prefix cache, and forks


class PoolWidget(Page):
    """A pool to be led through, or driven by hand: start, append, fork, write, free.

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
        lesson: int | None = None,
    ):
        """Begin with an empty pool, or with a guided scene: a name in SCENES.

        prefix_cache: whether new sequences use it, until the reader says otherwise.
        lesson: whose scenes and controls there are; without it, those of the scene's
        lesson, or all if there is no scene.
        """
        self.sandbox = Sandbox(num_blocks, block_size)
        self._size = num_blocks, block_size
        self.guide = guide = Guide(self.sandbox)
        if scene:
            guide.begin(scene)
            lesson = lesson or guide.scene.lesson
        self.lesson = lesson
        has_cache, has_fork = lesson in (None, CACHE), lesson is None or lesson >= FORK
        offered = scenes_of(SCENES, lesson)
        self.head = Head(guide, self.do, offered, self._choose)
        self.band = Band(guide, self.do, self.head)
        self.lookup = Lookup(lambda: self.draw(is_still=True))
        self.play = FreePlay(guide, self.do, has_fork, has_cache)
        self.play.cached.value = prefix_cache and has_cache
        self.said, self.stage, self.twin = (widgets.HTML() for _ in range(3))
        self.story = widgets.HTML()
        seen = (self.said, self.band, self.stage, self.lookup, self.twin, self.story)
        super().__init__(self.head, *seen, self.play)
        self._looked: tuple[str | None, int] | None = None  # the place of the last look
        self.draw()

    def do(self, action: Callable[[], Any]) -> None:
        """Do something with the sandbox, and show it; or why it was refused."""
        wrong = ""
        try:
            action()
        except (OutOfBlocks, ValueError) as error:
            wrong = refused(error, self.sandbox.board.sequences, "Free")
        self.draw(wrong)

    def draw(self, wrong: str = "", is_still: bool = False) -> None:
        """Show the live pool as it is now; `wrong`: and what has just failed.

        is_still: nothing has happened but that another position is looked up.
        """
        guide, turns = self.guide, self.sandbox.turns
        now = self.sandbox.board.snapshot()
        before = turns[-1].before if turns else None
        self.said.value = narrate(guide)
        self.band.draw()
        here = self._look_up(now)
        is_still = is_still or bool(wrong)
        shown = stage(now, before, here, is_still=is_still)
        if now.lanes is not None:
            shown = with_lanes(now, room_of(guide.name), shown)
        self.stage.value = shown
        twins = now.twin, before.twin if before else None
        self.twin.value = twin(*twins) if now.twin else ""
        told = [turn.words for turn in turns]
        has_shared = self.lesson not in (2, 3)
        has_cached = self.lesson in (None, CACHE)
        is_compact = not is_large(now, before)
        has_shared = has_shared and now.lanes is None
        counts = story.figures(now, has_shared) + story.key(
            now, has_shared, has_cached and now.lanes is None, is_compact, bool(here)
        )
        self.story.value = story.side_by_side(story.log(told), counts)
        self.play.draw(now, wrong)
        self.head.draw()  # at last: who sees the step's number sees all of the step

    def _choose(self, name: str) -> None:
        if name:
            self.guide.begin(name)
        else:
            self.guide.leave(*self._size)

    def _look_up(self, now: Snapshot) -> Here | None:
        """Look where the scene's step says, once; then where the reader wishes."""
        guide = self.guide
        place = guide.name, len(guide.frames)
        look = guide.scene.steps[len(guide.frames) - 1].look if guide.scene else None
        show(self.lookup, guide.scene is None or look is not None)
        if guide.scene is not None and look is None:
            return None
        if look and place != self._looked and not guide.is_by_hand:
            self.lookup.look_at(now, *look)
        self._looked = place
        return self.lookup.draw(now)

    def tell(self) -> str:
        """The whole scene, or the pool."""
        name = self.guide.name
        return tell_scene(name) if name else repr(self.sandbox.board.pool)
