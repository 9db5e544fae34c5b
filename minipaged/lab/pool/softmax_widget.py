"""Lab: step through attention over blocks: m, s and o after each, in any order."""

import math
from collections.abc import Sequence
from html import escape
from itertools import islice, permutations
from typing import NamedTuple

import ipywidgets as widgets
import torch

from minipaged.draw.letters import visible
from minipaged.lab.measure.table import table
from minipaged.lab.pool.controls import button, row, tick
from minipaged.lab.pool.guide import Frame as Said
from minipaged.lab.pool.html import parts, story
from minipaged.lab.pool.page import Page

NEW = "background:var(--c)"
OLD = "background:color-mix(in srgb,var(--c) 40%,var(--ground))"
LEFT, LINE = "flex:0 0 190px", "display:flex;gap:12px;align-items:center;margin:6px 0"
Numbers = Sequence[int]
Parts = Sequence[torch.Tensor]  # one for each block: [tokens]


class State(NamedTuple):
    """What is known after some blocks."""

    maximum: float
    factor: float  # e^(old maximum - maximum)
    weights: dict[int, float]  # of each block so far
    output: float

    @property
    def total(self) -> float:
        """The sum s."""
        return sum(self.weights.values())

    @property
    def result(self) -> float:
        """o / s, or NaN before the first block."""
        return self.output / self.total if self.weights else math.nan


def walk(logits: Parts, values: Parts, order: Numbers, scaled: bool) -> list[State]:
    """The state before the first block, and after each, read in this order."""
    states = [State(-math.inf, 0.0, {}, 0.0)]
    for block in order:
        past, x = states[-1], logits[block].double()
        maximum = max(past.maximum, x.max().item())
        factor = math.exp(past.maximum - maximum)
        used, new = factor if scaled else 1.0, (x - maximum).exp()
        weights = {at: used * weight for at, weight in past.weights.items()}
        output = used * past.output + (new @ values[block].double()).item()
        weights[block] = new.sum().item()
        states.append(State(maximum, factor, weights, output))
    return states


class SoftmaxWidget(Page):
    """Next block, another order (of six), without the factor: is the result right?"""

    def __init__(
        self,
        logits: Parts,
        values: Parts,
        name: str = "A",
        blocks: Numbers = (),
        words: Sequence[str] = (),
    ):
        """Of each block: the logits, a number of each value; its id and its text."""
        self.parts, self.name = (logits, values), name
        self.blocks = blocks or range(len(logits))
        self.words = words or [""] * len(logits)
        self.orders = list(islice(permutations(range(len(logits))), 6))
        self.num_read = 0
        self.back = button("‹ Back", lambda: self._move(-1), "one block back")
        self.next = button("Next block ›", lambda: self._move(1), "read one block more")
        self.other = button("Another order", self._reorder, "reorder the blocks")
        self.without = tick("leave out the factor", False, "what if nobody rescales?")
        self.without.observe(lambda _: self.draw(), "value")
        self.said, self.stage, self.figures = seen = [widgets.HTML() for _ in range(3)]
        head = row(self.other, self.without, self.back, self.next, kind="mp-head")
        super().__init__(head, *seen)
        self.draw()

    def draw(self) -> None:
        """Show the state after the blocks that were read."""
        states = walk(*self.parts, self.orders[0], not self.without.value)
        now = states[self.num_read]
        self.back.disabled = not self.num_read
        self.next.disabled = self.num_read == len(self.blocks)
        said = [self._tell(states, number) for number in range(len(states))]
        self.said.value = story.say(said[self.num_read], said)
        cards = "".join(self._card(block, now) for block in self.orders[0])
        kind = f'class="{parts.colour(self.name)}" style="margin-bottom:16px"'
        self.stage.value = f"<div {kind}>{cards}</div>"
        names = "m, the largest logit", "s, the sum of weights", "o, weighted values"
        numbers = now.maximum, now.total, now.output, now.result
        pairs = zip((*names, "o / s"), numbers, strict=True)
        shown = (f"<p><b>{_two(x)}</b><span>{what}</span></p>" for what, x in pairs)
        self.figures.value = f'<div class="mp-figures">{"".join(shown)}</div>'

    def _tell(self, states: Sequence[State], number: int) -> Said:
        """What a block did; of the last one, whether the result is right."""
        if not number:
            order = self._ids(self.orders[0])
            return Said("Nothing is read yet.", f"The order: {order}.")
        old, now = states[number - 1], states[number]
        factor = f"e^({_two(old.maximum)} − {_two(now.maximum)}) = {now.factor:.2f}"
        rule = f"What was there is multiplied by {factor}."
        if self.without.value and number > 1 and now.factor < 1:
            rule = f"What was there stays as it is. The factor {factor} is left out."
        big = f"Block {self.blocks[self.orders[0][number - 1]]} is read."
        if number == len(self.blocks):
            right = walk(*self.parts, self.orders[0], scaled=True)[-1].result
            is_right = math.isclose(now.result, right, rel_tol=1e-9)
            verdict = "right." if is_right else f"wrong, {right:.3f} is right."
            big += f" The result is {now.result:.3f}: {verdict}"
        return Said(big, rule)

    def _card(self, block: int, now: State) -> str:
        """A block, its share, and a bar as long as its weight; 1 for each token."""
        weight, share = now.weights.get(block, 0.0), "not read"
        if block in now.weights:
            share = f"{100 * weight / now.total:.0f} %"
        wide = 100 * weight / max(map(len, self.parts[0]))
        face = NEW if block == next(reversed(now.weights), None) else OLD
        words = escape(" ".join(map(visible, self.words[block].split())))
        said = f"<b>block {self.blocks[block]}: {share}</b><br><small>{words}</small>"
        bar = f"height:26px;border-radius:5px;width:{wide:.1f}%;{face}"
        bar = f'<div style="{bar}" role="img" aria-label="weight {weight:.2f}"></div>'
        bar = f'<div style="flex:1">{bar}</div>'
        return f'<div style="{LINE}"><div style="{LEFT}">{said}</div>{bar}</div>'

    def _move(self, by: int) -> None:
        self.num_read = min(max(self.num_read + by, 0), len(self.blocks))
        self.draw()

    def _reorder(self) -> None:
        self.orders.append(self.orders.pop(0))
        self.draw()

    def _ids(self, order: Numbers) -> str:
        return ", ".join(str(self.blocks[block]) for block in order)

    def tell(self) -> str:
        """The result of every order."""
        title = "The result in every order (run the cell to step through one)"
        rows = []
        for order in sorted(self.orders):
            ends = (walk(*self.parts, order, way)[-1] for way in (True, False))
            rows.append((self._ids(order), *(f"{end.result:.3f}" for end in ends)))
        heads = "order of the blocks ", "with the factor", " without it"
        return "\n".join([title, *table(heads, rows)])


def _two(number: float) -> str:
    """With two digits, and with signs that exist."""
    written = "–" if math.isnan(number) else f"{number:.2f}"
    return written.replace("-", "−").replace("inf", "∞")
