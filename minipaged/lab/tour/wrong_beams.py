"""Lab: beam search with wrong rules, one each, which a proof must notice."""

from dataclasses import replace
from typing import Any

from torch import Tensor

from minipaged.decoding.beam import Beams, Candidates


class FewCandidates(Beams):
    """Looks at k + 1 candidates only."""

    @classmethod
    def choose(cls, turns: Any, logits: Tensor) -> list[Candidates]:
        """The best next tokens of every request's beams, but too few of them."""
        few = turns[0].request.num_parallel + 1
        return [
            Candidates(*(part[:few] for part in all_of_them))
            for all_of_them in super().choose(turns, logits)
        ]


class SumsOnly(Beams):
    """Compares sums, whatever the length."""

    def _keep_the_best(self, *candidates: Any) -> None:
        asked, self.options = self.options, replace(self.options, length_penalty=0.0)
        super()._keep_the_best(*candidates)
        self.options = asked


class NeverIsFalse(Beams):
    """Takes "never" for False."""

    def _can_improve(self) -> bool:
        asked, self.options = self.options, replace(self.options, early_stopping=False)
        can_improve, self.options = super()._can_improve(), asked
        return can_improve


class AlwaysEarly(Beams):
    """Stops as soon as k have ended, whatever was asked for."""

    def _can_improve(self) -> bool:
        return super()._can_improve() and not bool(self.ended.all())


ALL = FewCandidates, SumsOnly, NeverIsFalse, AlwaysEarly
