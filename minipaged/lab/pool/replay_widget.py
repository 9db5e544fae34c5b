"""Lab: step through a recorded run of `generate` on a timeline."""

from collections.abc import Mapping, Sequence
from typing import Any

import ipywidgets as widgets
from transformers import PreTrainedTokenizerBase

from minipaged.lab.pool import html
from minipaged.lab.pool.controls import button, row
from minipaged.lab.pool.replay import Frame, tell_frame, tell_run


class ReplayWidget(widgets.VBox):
    """Forward by forward: who took, shared, copied or freed which block, for what text.

    Attributes: frames; slider (its value is the frame that is shown).
    """

    def __init__(self, frames: Sequence[Frame], tokenizer: PreTrainedTokenizerBase):
        """`frames` are what `record` gave; ValueError if there are none."""
        if not frames:
            raise ValueError(
                "nothing was recorded; call generate inside the with block"
            )
        self.frames, self.tokenizer = frames, tokenizer
        last = len(frames) - 1
        self.slider = widgets.IntSlider(
            0, 0, last, description="forward", tooltip="the forward that is shown"
        )
        self.play = widgets.Play(value=0, min=0, max=last, interval=600)
        self.play.add_class("mp-play")
        widgets.jslink((self.play, "value"), (self.slider, "value"))
        self.back = button("back", lambda: self._move(-1), "one forward back")
        self.on = button("on", lambda: self._move(1), "one forward on")
        self.head, self.grid, self.story = (widgets.HTML() for _ in range(3))
        self.answers, self.tables = widgets.HTML(), widgets.HTML()
        self.slider.observe(lambda _: self.draw(), "value")
        times = row(self.play, self.back, self.on, self.slider)
        seen = (self.head, self.grid, self.story, self.answers, self.tables)
        super().__init__((widgets.HTML(html.STYLE), times, *seen))
        self.draw()

    def draw(self) -> None:
        """Show the frame at which the slider stands."""
        frame = self.frames[self.slider.value]
        now, head = frame.snapshot, tell_frame(self.frames, self.slider.value)
        self.head.value = html.page(html.prose(bold=head))
        self.grid.value = html.page(html.grid(now))
        self.story.value = html.page(html.events(frame.words))
        texts = self._decode(frame.growing) | self._decode(frame.ended)
        self.answers.value = html.page(html.written(texts, now))
        self.tables.value = html.page(html.tables(now))

    def _move(self, by: int) -> None:
        self.slider.value = min(max(self.slider.value + by, 0), len(self.frames) - 1)

    def _decode(self, answers: Mapping[str, list[int]]) -> dict[str, str]:
        return {name: self.tokenizer.decode(ids) for name, ids in answers.items()}

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        """With the whole run in words, for pages that run no widgets."""
        bundle = super()._repr_mimebundle_(**options)
        return bundle | {"text/plain": tell_run(self.frames)}
