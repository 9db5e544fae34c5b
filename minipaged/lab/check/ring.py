"""Lab: check of appendix C's exercise on warps that share a ring of tiles."""

from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction
from random import Random

from minipaged.lab.check.verdict import Attempt, Rejected, attempted, exercise, many
from minipaged.lab.tour.warps import Machine, Mishap, run_ring

EVEN = {"copy": 2.0, "product": 1.0}  # two consumers: as much copying as multiplying
SPEEDS = {
    "all as quick": EVEN,
    "slow copies": {"copy": 9.0, "product": 1.0},
    "slow products": {"copy": 1.0, "product": 9.0},
}
SIZES = ((6, 2), (5, 1), (7, 3), (1, 2), (2, 4))  # tiles, places
# What helps, by words of a mishap; the first that fits is said.
HELP = {
    "write `await`": "",
    "the producer waits for empty[0] to open in lap 0; consumer 0 waits for full[0] "
    "to open in lap 0": "at first, all places are empty; nothing has to open before",
    "nobody can go on": "who must arrive at this barrier, and has not, or which lap "
    "is the right one?",
    "while consumer": "a product reads its tile until it is done: await it first",
    "is copied to": "await that the place is empty, in the lap before this tile's",
    "wants to multiply": "await that the place is full, in this tile's lap",
    "has multiplied": "each consumer multiplies every tile",
}


@exercise
def warps(attempt: Attempt) -> Callable[[], str]:
    """A class with `produce` and `consume`: warps that share a ring of places."""
    for name in ("produce", "consume"):
        if not iscoroutinefunction(getattr(attempt.function, name, None)):
            raise Rejected(f"{attempt.name}: expected a method `async def {name}`")
    for num_tiles, places in SIZES:
        for how, units in SPEEDS.items():
            _run(attempt, num_tiles, places, how, units)
    for seed in range(60):
        draw = Random(seed)
        size = draw.randint(1, 12), draw.randint(1, 4)
        _run(attempt, *size, "times at random", EVEN, draw)
    _expect_ahead(attempt)
    return lambda: _what_places_bring(attempt)


def _run(
    attempt: Attempt,
    num_tiles: int,
    places: int,
    how: str,
    units: Mapping[str, float],
    draw: Random | None = None,
) -> Machine:
    where = f"{many(num_tiles, 'tile')}, {many(places, 'place')}, {how}"
    attempt.num_cases += 1

    def run() -> Machine:
        try:
            return run_ring(attempt.function(), num_tiles, places, units, draw)
        except Mishap as mishap:
            raise Rejected(f"{where}: {_with_help(str(mishap))}") from mishap

    return attempted(where, run)


def _with_help(said: str) -> str:
    helps = next((help for words, help in HELP.items() if words in said), "")
    return f"{said}; {helps}" if helps else said


def _expect_ahead(attempt: Attempt) -> None:
    """While the first product is done, the producer fills all other places."""
    places, units = 3, {"copy": 1.0, "product": 100.0}
    machine = _run(attempt, 6, places, "slow products", units)
    first = min(span.stop for span in machine.spans if span.kind == "product")
    ahead = sum(s.kind == "copy" and s.start < first for s in machine.spans)
    if ahead < places:
        raise Rejected(
            f"6 tiles, 3 places, slow products: {many(ahead, 'tile')} copied before "
            "the first product is done, and there is room for 3; the producer waits "
            "for more than it must"
        )


def _what_places_bring(attempt: Attempt) -> str:
    """How busy the matrix unit is, with one place and with two."""
    one, two = (
        _run(attempt, 20, places, "all as quick", EVEN).busy() for places in (1, 2)
    )
    works = f"the matrix unit works {one:.0%} of the time"
    return f"without weighing: with one place {works}, with two {two:.0%}"
