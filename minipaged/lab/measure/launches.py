"""Lab: what a launch of lesson 6's kernel takes, has under way, and is short of."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from minipaged.draw.letters import counted
from minipaged.lab.measure.measured import Tuning
from minipaged.lab.measure.occupancy import bytes_under_way, rooms_for
from minipaged.lab.measure.rung_tables import num_pieces, share_of_ceiling

POSITION = 2 * 128 * 2  # bytes of K and V of a KV head, in bfloat16
GROUP = 4  # query heads that share a KV head
LATENCY = 1.0  # µs, the least from asking for a tile to using it
AIM = 128 * 1024  # bytes under way on each multiprocessor
WHOLE = 1.5  # so many times the aim is under way where its bar is full
FAULTS = ("too little under way", "a last wave mostly empty", "registers that spill")
HELPS = {
    FAULTS[0]: "wider tiles, more stages or more splits",
    FAULTS[1]: "other sizes, of which more or fewer fit",
    FAULTS[2]: "narrower tiles or more warps",
}
NO_FAULT, BEYOND = "none of the three faults", "more under way than the aim"
FAR = 1.4  # so many times the aim is more than it
NEAR = 1.05  # of the best time
MOST_WAVES = 3  # that have a bar; of more, those in the middle have none


class Bar(NamedTuple):
    """A quantity of a launch: how much of it is used, from 0 to 1, and in words."""

    name: str
    remark: str
    said: str
    used: list[float]  # parts, from the left
    unused: list[float]  # more parts for which there is room
    marks: list[float]  # where the least is, or the best; then, thinner, the aim
    is_bad: bool


class Launch(NamedTuple):
    """A launch that was measured, as appendix C looks at it."""

    rooms: dict[str, int]  # programs for which a multiprocessor has enough of this
    takes: dict[str, float]  # the share of it that a program takes
    fit: int  # that run on a multiprocessor at a time
    waves: list[int]  # programs that run at first, then, and so on
    places: int  # of a full wave, on all multiprocessors
    under_way: float  # MB of K and V on the whole GPU, at most
    least: float  # MB: ceiling x 1 µs; with less, it is hardly reached
    spilled: int  # bytes of a thread
    us: float
    percent: float  # of the read ceiling
    best: float  # percent, of all launches of this batch

    @property
    def running(self) -> int:
        """Programs that run at a time on a multiprocessor, in the first wave."""
        return -(-self.waves[0] // self._multiprocessors)

    @property
    def aim(self) -> float:
        """MB: what best is under way on the whole GPU, AIM on each multiprocessor."""
        return self._multiprocessors * AIM / 1e6

    @property
    def tile_us(self) -> float:
        """From asking for a tile to using it, by Little's law: under way / rate."""
        return LATENCY * self.under_way / (self.least * self.percent / 100)

    @property
    def faults(self) -> list[str]:
        """Which of FAULTS it has."""
        found = self.under_way < self.least, self._is_last_empty, self.spilled > 0
        return [name for name, is_so in zip(FAULTS, found, strict=True) if is_so]

    @property
    def is_near_best(self) -> bool:
        """Among all launches of its batch."""
        return self.best <= NEAR * self.percent

    @property
    def is_beyond(self) -> bool:
        """It is slow without a fault, and has far more under way than the aim."""
        is_far = self.under_way >= FAR * self.aim
        return is_far and not self.faults and not self.is_near_best

    @property
    def verdict(self) -> str:
        """What is wrong with it, in words."""
        nothing = BEYOND if self.is_beyond else NO_FAULT
        return " and ".join(self.faults) or nothing

    @property
    def _multiprocessors(self) -> int:
        return self.places // self.fit

    @property
    def _few_run(self) -> str:
        return f"{self.fit} fit, {self.running} run{'s' * (self.running == 1)}"

    @property
    def _is_last_empty(self) -> bool:
        return len(self.waves) > 1 and self.waves[-1] < self.places / 2

    def bars(self, *kinds: str) -> list[Bar]:
        """What it is made of, in the order in which it comes about; its speed last.

        kinds: of which there shall be bars, in full or their first word: "registers",
        "shared memory", "wave", "under way", "speed". Without any, of all.
        """
        waves = list(enumerate(self.waves, 1))
        del waves[MOST_WAVES - 1 : -1]
        rooms = [self._room(name) for name in self.rooms]
        bars = [*rooms, *(self._wave(*wave) for wave in waves), *self._rates()]
        return [bar for bar in bars if not kinds or bar.name.startswith(kinds)]

    def _room(self, name: str) -> Bar:
        """Programs for which there is room, side by side: first those that run."""
        room = self.rooms[name]
        said = f"room for {room}"
        if room == self.fit < max(self.rooms.values()):
            is_full = self.running == room
            said = f"{said}: runs out first" if is_full else self._few_run
        if spills := name == "registers" and self.spilled > 0:
            said = f"room for {room}, and they spill"
        used, unused = (
            [self.takes[name]] * n for n in (self.running, room - self.running)
        )
        return Bar(name, "of a multiprocessor", said, used, unused, [], spills)

    def _wave(self, number: int, running: int) -> Bar:
        """How many of a wave's places are used."""
        name = f"wave {number} of {len(self.waves)}"
        used = [running / self.places]
        said = counted(running, "program")
        is_bad = number == len(self.waves) and self._is_last_empty
        return Bar(name, f"{self.places:,} places", said, used, [], [], is_bad)

    def _rates(self) -> list[Bar]:
        """What is under way beside the least and the aim; the speed beside the best."""
        whole = WHOLE * self.aim
        used = [min(1.0, self.under_way / whole)]
        marks = [self.least / whole, 1 / WHOLE]
        remark = f"{self.least:.1f} MB at least, aim {self.aim:.0f}"
        said, is_bad = f"{self.under_way:.1f} MB", self.under_way < self.least
        way = Bar("under way", remark, said, used, [], marks, is_bad)
        said = f"{self.percent:.0f} %; the best reach {self.best:.0f}"
        used, marks = [self.percent / 100], [self.best / 100]
        return [way, Bar("speed", "of the read ceiling", said, used, [], marks, False)]


def launch_of(tuning: Tuning, batch: str, **sizes: int) -> Launch:
    """The launch of this batch's sweep with these sizes, by the names of a row.

    Raises LookupError if none was measured, or if it asked for more than there is.
    """
    for _, launch in launches_of(tuning, batch, **sizes):
        return launch
    raise LookupError(f"nobody measured {batch} with {sizes}")


def launches_of(
    tuning: Tuning, batch: str, **sizes: int
) -> Iterator[tuple[Mapping[str, Any], Launch]]:
    """Rows of this batch's sweep that have these sizes and did run, and their launches.

    What asked for more than there is did not run.
    """
    pieces = num_pieces(tuning, batch)
    for row in ran(tuning, batch):
        if sizes.items() <= row.items():
            yield row, _launch(tuning, batch, row, pieces)


def launch_of_rung(tuning: Tuning, batch: str, number: int) -> Launch:
    """The launch of this rung of lesson 6; the first has a program for a query head."""
    row = list(tuning["ladder"][batch].values())[number - 1]
    pieces = num_pieces(tuning, batch)
    return _launch(tuning, batch, row, GROUP * pieces if number == 1 else pieces)


def ran(tuning: Tuning, batch: str) -> list[Mapping[str, Any]]:
    """The launches of this batch's sweep that did not ask for too much."""
    return [row for row in tuning["sweep"][batch] if row["us"]]


def by_fault(tuning: Tuning, batches: list[str]) -> dict[str, list[float]]:
    """All launches of these batches by what they are short of.

    Of each its speed, in percent of the best launch of its batch. Which of FAULTS, none
    of them, or several.
    """
    none, several = "none of the three", "several of them"
    speeds: dict[str, list[float]] = {name: [] for name in (none, *FAULTS, several)}
    for batch in batches:
        for _, launch in launches_of(tuning, batch):
            name, *others = launch.faults or [none]
            speed = 100 * launch.percent / launch.best
            speeds[several if others else name].append(speed)
    return speeds


def near_best(
    tuning: Tuning, batches: list[str], limits: tuple[float, ...]
) -> dict[tuple[float, float], tuple[int, int]]:
    """By MB under way, from limit to limit: launches near their best, and all."""
    every = [one for batch in batches for _, one in launches_of(tuning, batch)]
    found = {}
    for low, high in pairwise(limits):
        own = [one for one in every if low <= one.under_way < high]
        found[low, high] = sum(one.is_near_best for one in own), len(own)
    return found


def with_work(context: int, row: Mapping[str, Any]) -> int:
    """Splits that have something to read; they are whole tiles, so some are empty."""
    tiles, split = -(-context // row["tile"]), -(-context // row["num_splits"])
    return -(-tiles // -(-split // row["tile"]))


def _launch(tuning: Tuning, batch: str, row: Mapping[str, Any], pieces: int) -> Launch:
    """pieces: programs, if contexts are not split."""
    gpu, ceiling = tuning["gpu"], tuning["ceilings"]["read_gb_per_s"]
    programs = pieces * with_work(tuning["batches"][batch]["longest"], row)
    places = row["programs"] * gpu["multiprocessors"]
    least = min(one["us"] for one in ran(tuning, batch))
    taken = {name: row[name] for name in ("num_warps", "registers", "shared_bytes")}
    return Launch(
        rooms=rooms_for(gpu, **taken),
        takes={
            "registers": 32 * row["num_warps"] * row["registers"] / gpu["registers"],
            "shared memory": row["shared_bytes"] / gpu["shared_bytes"],
        },
        fit=row["programs"],
        waves=[min(places, programs - n) for n in range(0, programs, places)],
        places=places,
        under_way=bytes_under_way(gpu, programs, row, POSITION) / 1e6,
        least=ceiling * LATENCY / 1e3,
        spilled=row["spilled_bytes"],
        us=row["us"],
        percent=share_of_ceiling(tuning, batch, row),
        best=share_of_ceiling(tuning, batch, {"us": least}),
    )
