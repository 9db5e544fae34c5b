"""Lab: how long the waves of lesson 6's rungs take, and how busy the L1 unit is."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from minipaged.lab.measure.launches import Launch, launch_of_rung
from minipaged.lab.measure.measured import Tuning
from minipaged.lab.measure.rung_tables import shared_busy

BATCH = "64x4k"  # that was profiled
ALONE = "8x4k"  # as many tokens each, and one program on a multiprocessor


class WaveTimes(NamedTuple):
    """A launch wave by wave."""

    launch: Launch
    us: list[float]  # that each takes
    busy: list[float]  # for which share of it the L1 unit is busy


def wave_times(tuning: Tuning, profile: Mapping[str, Any], number: int) -> WaveTimes:
    """Of this rung's launch of BATCH, which has one wave or two.

    The whole launch was measured. A second wave that has one program on a
    multiprocessor at most takes as long as ALONE, whose programs are alone on theirs,
    too; the rest is the first one's. What the unit did divides as the programs do.
    Raises ValueError for a launch of other waves.
    """
    launch = launch_of_rung(tuning, BATCH, number)
    rows = list(profile["rungs"].values())
    whole, busy = rows[number - 1]["us"], shared_busy(profile)[number - 1]
    us = [whole]
    if len(launch.waves) > 1:
        _, *last = launch.waves
        if len(last) > 1 or last[0] > tuning["gpu"]["multiprocessors"]:
            raise ValueError(f"rung {number}: nobody knows how long its waves take")
        alone = launch_of_rung(tuning, ALONE, number).us
        us = [whole - alone, alone]
    shares = [programs / sum(launch.waves) for programs in launch.waves]
    busy_shares = [busy * share / own for share, own in zip(shares, us, strict=True)]
    return WaveTimes(launch, us, busy_shares)


def wave_lines(waves: WaveTimes) -> list[str]:
    """How the times of two waves follow from what was measured."""
    (first, second), whole = waves.us, sum(waves.us)
    busy = [share * us for share, us in zip(waves.busy, waves.us, strict=True)]
    shares = " and ".join(f"{share:.0%}" for share in waves.busy)
    return [
        f"Wave 2: {waves.launch.waves[1]} programs, each alone on its multiprocessor.",
        f"  Programs as long are alone in {ALONE}, too, and take {second:.0f} µs.",
        f"Wave 1: the rest of what was measured: {whole:,.0f} - {second:.0f} ="
        f" {first:,.0f} µs.",
        f"The L1 unit is busy for {sum(busy):,.0f} µs, divided as the programs are:",
        f"  {busy[0]:,.0f} in wave 1, {busy[1]:,.0f} in wave 2; so for {shares}.",
    ]
