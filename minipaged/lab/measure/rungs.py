"""Lab: lesson 6's ladder on one GPU: how near to its ceiling each rung comes."""

from collections.abc import Collection
from typing import NamedTuple

from minipaged.lab.measure.launches import launch_of_rung
from minipaged.lab.measure.measured import Tuning
from minipaged.lab.measure.rung_tables import share_of_ceiling

MAIN = "64x4k"


class Rungs(NamedTuple):
    """The rungs as they were measured there; the lowest is number 1."""

    tuning: Tuning  # as `measured_tuning` gives it

    def us(self, number: int, batch: str = MAIN) -> float:
        """The time of a step's attention in this rung, in one layer."""
        return self._rows(batch)[number - 1]["us"]

    def reached(self, number: int, batch: str = MAIN) -> float:
        """By this rung, of the read ceiling, in %."""
        return share_of_ceiling(self.tuning, batch, self._rows(batch)[number - 1])

    def gain(self, number: int, batch: str = MAIN) -> float:
        """How many times as fast as the rung before."""
        return self.reached(number, batch) / self.reached(number - 1, batch)

    def room(self, number: int) -> str:
        """What a program of this rung takes in the main batch, and how many fit."""
        registers = self._rows(MAIN)[number - 1]["registers"]
        fit = launch_of_rung(self.tuning, MAIN, number).fit
        return f"rung {number}: {registers} registers of a thread, {fit} programs fit"

    def lines(self, *numbers: int, batches: Collection[str] = ()) -> list[str]:
        """These rungs, or all, beside the ones before, in these batches, or in all."""
        lines, ladder = [], self.tuning["ladder"]
        for number in numbers or range(2, len(self._rows(MAIN)) + 1):
            lines.append(f"rung {number}")
            for batch in batches or ladder:
                before, after = (self.reached(n, batch) for n in (number - 1, number))
                said = f"{before:5.1f} % -> {after:5.1f} %, x {after / before:.2f}"
                lines.append(f"{batch:13} {said}")
        return lines

    def _rows(self, batch: str) -> list[dict]:
        return list(self.tuning["ladder"][batch].values())
