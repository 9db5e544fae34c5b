"""Guesses of somebody who knows the right answers, and forgets parts of them."""

from functools import cache
from random import Random

from benchmarks.cpu.speculation_exact import noisy as with_noise
from helpers.tiny_models import tiny_model
from minipaged.decoding.speculation import Speculation


class Knowing(Speculation):
    """Guesses right or wrong; with a tree, one of the branches is mostly right.

    texts: whole right answers, prompts included, each of which begins differently.
    """

    least_right = 0.0  # it never pauses

    def __init__(self, texts: list[list[int]], num_tokens=3, forgets=0.3, tree=1):
        super().__init__(num_tokens, tree)
        self.texts, self.draw, self.forgets = texts, Random(0), forgets

    def guess(self, tokens, count):
        """What comes next, with wrong tokens in between, most in the first branch."""
        size = len(tokens)
        for text in self.texts:
            if text[:size] == list(tokens):
                return [
                    self._forget(text[size : size + count], self.forgets / (1 + number))
                    for number in range(self.num_branches)
                ]
        return []

    def _forget(self, guesses, share):
        return [(t + 1) % 100 if self.draw.random() < share else t for t in guesses]


@cache
def noisy(noise):
    """The tiny model, with noise in its weights: a draft model that is often right."""
    return with_noise(tiny_model("qwen3"), noise)
