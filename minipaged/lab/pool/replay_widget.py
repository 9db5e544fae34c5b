"""Lab: step through a recorded run on a timeline."""

from collections.abc import Mapping, Sequence

import ipywidgets as widgets
from transformers import PreTrainedTokenizerBase

from minipaged.draw.letters import counted
from minipaged.lab.pool.controls import button, row
from minipaged.lab.pool.guide import Frame as Said
from minipaged.lab.pool.html import story
from minipaged.lab.pool.html.lanes import with_lanes
from minipaged.lab.pool.html.stage import is_large, stage
from minipaged.lab.pool.lanes import Room
from minipaged.lab.pool.page import Page
from minipaged.lab.pool.replay import Frame, tell_frame, tell_run


class ReplayWidget(Page):
    """Forward by forward: who took, shared, copied or freed which block, for what text.

    Attributes: frames; slider (its value is the frame that is shown).
    """

    def __init__(self, frames: Sequence[Frame], tokenizer: PreTrainedTokenizerBase):
        """`frames` are what `record` gave; ValueError if there are none."""
        if not frames:
            raise ValueError(
                "nothing was recorded; call generate, or run an engine, inside the "
                "with block"
            )
        self.frames, self.tokenizer = frames, tokenizer
        snapshots = [frame.snapshot for frame in frames]
        pairs = zip(snapshots, [None, *snapshots], strict=False)
        self._is_compact = not all(is_large(now, before) for now, before in pairs)
        self._has_lanes = any(now.lanes is not None for now in snapshots)
        self._said = [self._tell(number) for number in range(len(frames))]
        last = len(frames) - 1
        self.slider = widgets.IntSlider(
            0, 0, last, description="forward", tooltip="the forward that is shown"
        )
        self.player = widgets.Play(value=0, min=0, max=last, interval=600)
        self.player.add_class("mp-player")
        widgets.jslink((self.player, "value"), (self.slider, "value"))
        self.back = button("‹ Back", lambda: self._move(-1), "one forward back")
        self.next = button("Next ›", lambda: self._move(1), "one forward on")
        self._room = Room.of(now.lanes for now in snapshots)
        self.said, self.stage, self.story = (widgets.HTML() for _ in range(3))
        self.answers = widgets.HTML()
        self.slider.observe(lambda _: self.draw(), "value")
        times = row(self.player, self.slider, self.back, self.next, kind="mp-head")
        seen = [self.said, self.answers, self.stage, self.story]
        if self._has_lanes:  # texts come and go: below, they move nothing
            seen = [self.said, self.stage, self.answers, self.story]
            self.answers.add_class("mp-below")
        super().__init__(times, *seen)
        self.draw()

    def draw(self) -> None:
        """Show the frame at which the slider stands."""
        number = self.slider.value
        frame = self.frames[number]
        now = frame.snapshot
        before = self.frames[number - 1].snapshot if number else None
        self.said.value = story.say(self._said[number], self._said)
        texts = self._decode(frame.growing) | self._decode(frame.ended)
        self.answers.value = story.written(texts, now)
        shown = stage(now, before, compact=self._is_compact)
        if now.lanes is not None:
            shown = with_lanes(now, self._room, shown)
        self.stage.value = shown
        told = [one.words for one in self.frames[: number + 1]]
        told = story.log(told, what="forward", first=0)
        has_cached = any(one.snapshot.cached for one in self.frames)
        key = story.key(now, True, has_cached, self._is_compact)
        self.story.value = story.side_by_side(told, story.figures(now) + key)

    def _tell(self, number: int) -> Said:
        """Which forward it is, and how many blocks there are."""
        now = self.frames[number].snapshot
        head = tell_frame(self.frames, number)
        held = f"{now.num_held} of {now.num_blocks} blocks are held."
        if now.lanes is not None:
            running, waiting = len(now.lanes.running), len(now.lanes.waiting)
            held += f" {counted(running, 'request')} running, {waiting} waiting"
            swapped = f", {len(now.lanes.swapped)} in the CPU's memory"
            held += swapped * (now.lanes.num_places is not None) + "."
        return Said(f"{head[:1].upper()}{head[1:]}", held)

    def _move(self, by: int) -> None:
        self.slider.value = min(max(self.slider.value + by, 0), len(self.frames) - 1)

    def _decode(self, answers: Mapping[str, list[int]]) -> dict[str, str]:
        return {name: self.tokenizer.decode(ids) for name, ids in answers.items()}

    def tell(self) -> str:
        """The run in a few lines."""
        return tell_run(self.frames)
