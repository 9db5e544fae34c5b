"""Lab: the warps of a program on a clock, without a GPU: who works when, who waits.

A `Machine` has a clock, an accelerator that copies, and a matrix unit; each does one
thing after another. Warps are coroutines: they begin copies and products, and await
what they need. Tiles come and go in a `Ring` of a few places. It notices a tile that is
multiplied before it is there, and one that is copied over while it is needed.
"""

import heapq
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from functools import partial
from itertools import count
from random import Random
from typing import Any, NamedTuple, Protocol

Warps = Coroutine[Any, Any, None]
Loop = Callable[["Machine", "Ring", "Ring", int, int], Warps]
UNITS = {"copy": 1.0, "product": 1.0, "weigh": 2.5}  # of time; invented
PRODUCER, CONSUMERS = "the producer", ("consumer 0", "consumer 1")


class Mishap(Exception):
    """What would make a kernel wrong, or stop it for ever; the message says where."""


class Span(NamedTuple):
    """Something that took time: a `copy`, a `product`, or to `weigh`."""

    kind: str
    who: str
    what: str
    start: float
    stop: float


class Moment:
    """To be awaited: who does so goes on when it has come."""

    def __init__(self, what: str):
        self.what, self.has_come, self.is_awaited = what, False, False
        self.waiting: list[Callable[[], None]] = []

    def __await__(self) -> Iterator["Moment"]:
        self.is_awaited = True
        if not self.has_come:
            yield self


class Machine:
    """What the warps of a program share.

    units: how long a `copy`, a `product`, and to `weigh` take; with `draw`, each time
    from a tenth of that to twice as long. spans: what was done. current: the warps that
    go on now.
    """

    def __init__(self, units: Mapping[str, float] = UNITS, draw: Random | None = None):
        self.units, self.draw, self.now, self.current = units, draw, 0.0, ""
        self.spans: list[Span] = []
        self.awaits: dict[str, Moment] = {}  # of warps that have not ended
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()  # of events: those of one time happen in their order
        self._free_at = {"copy": 0.0, "product": 0.0}

    def run(self, warps: Mapping[str, Warps]) -> "Machine":
        """Let all go on until they end. Raises Mishap if some wait for ever."""
        for who, own in warps.items():
            self.awaits[who] = Moment("its turn")
            self._later(0.0, partial(self._go_on, who, own))
        try:
            while self._events:
                self.now, _, happens = heapq.heappop(self._events)
                happens()
        finally:
            for own in warps.values():
                own.close()
        if self.awaits:
            waits = [f"{who} waits for {it.what}" for who, it in self.awaits.items()]
            raise Mishap(f"nobody can go on: {'; '.join(waits)}")
        return self

    def begin(
        self,
        kind: str,
        what: str = "",
        times: float = 1.0,
        then: Callable[[], None] = lambda: None,
    ) -> Moment:
        """Begin something, behind others of its kind if there is one unit for all.

        times: how many times as long it takes. then: is done when it has ended.
        """
        units = times * self.units[kind]
        if self.draw:
            units *= self.draw.uniform(0.1, 2.0)
        start = max(self.now, self._free_at.get(kind, 0.0))
        stop = start + units
        if kind in self._free_at:
            self._free_at[kind] = stop
        self.spans.append(Span(kind, self.current, what, start, stop))
        end = Moment(what)
        self._later(stop - self.now, then)
        self._later(stop - self.now, partial(self.come, end))
        return end

    def come(self, moment: Moment) -> None:
        """It has come: those who await it go on."""
        moment.has_come = True
        for go_on in moment.waiting:
            self._later(0.0, go_on)

    def busy(self) -> float:
        """The share of the time, from the first product on, that has a product."""
        products = [span for span in self.spans if span.kind == "product"]
        start = min(span.start for span in products)
        stop = max(span.stop for span in products)
        return sum(span.stop - span.start for span in products) / (stop - start)

    def _later(self, units: float, happens: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + units, next(self._numbers), happens))

    def _go_on(self, who: str, own: Warps) -> None:
        self.current = who
        try:
            moment = own.send(None)
        except StopIteration:
            del self.awaits[who]
            return
        self.awaits[who] = moment
        moment.waiting.append(partial(self._go_on, who, own))


class Barrier:
    """Opens when all have arrived, and in the next lap when all have arrived again."""

    def __init__(self, machine: Machine, name: str, num_arrivals: int):
        self.machine, self.name, self.num_arrivals = machine, name, num_arrivals
        self.laps, self.arrived = 0, set[str]()
        self.asked: list[tuple[int, Moment]] = []

    def arrive(self) -> None:
        """The warps that go on now have arrived. Raises Mishap if they had before."""
        who = self.machine.current
        if who in self.arrived:
            raise Mishap(f"{who} arrives at {self.name} twice for one tile")
        self.arrived.add(who)
        if len(self.arrived) == self.num_arrivals:
            self.laps, self.arrived = self.laps + 1, set()
            for lap, moment in self.asked:
                if lap == self.laps - 1:
                    self.machine.come(moment)

    def opened(self, lap: int) -> Moment:
        """To be awaited: it has opened in this lap; the first lap is 0."""
        moment = Moment(f"{self.name} to open in lap {lap}")
        moment.has_come = lap < self.laps
        self.asked.append((lap, moment))
        return moment


class Ring:
    """Places for tiles, each with the barriers full and empty.

    readers: the warps that multiply each tile, in order. Raises Mishap.
    """

    def __init__(
        self,
        machine: Machine,
        readers: Collection[str],
        places: int = 2,
        name: str = "",
    ):
        self.machine, self.places, self.name = machine, places, name
        self.full = [Barrier(machine, f"full[{at}]", 1) for at in range(places)]
        self.empty = [
            Barrier(machine, f"empty[{at}]", len(readers)) for at in range(places)
        ]
        self.tiles: list[int | None] = [None] * places  # what has come there
        self.next = dict.fromkeys(readers, 0)  # the tile that each multiplies next
        self._coming: dict[int, int] = {}  # by place
        self._products: list[tuple[int, str, int]] = []  # place, reader, tile

    def copy(self, tile: int, place: int) -> None:
        """Begin to copy a tile to this place; when it is there, `full` opens."""
        here, said = self.tiles[place], f"tile {tile} is copied to place {place}"
        for at, who, read in self._products:
            if at == place:
                raise Mishap(f"{said} while {who} multiplies tile {read} there")
        if place in self._coming:
            raise Mishap(f"{said} while tile {self._coming[place]} is copied there")
        for who, tile_of in self.next.items():
            if here is not None and tile_of <= here:
                raise Mishap(f"{said} over tile {here}, which {who} has not multiplied")
        self._coming[place] = tile
        self.tiles[place] = None
        then = partial(self._has_come, tile, place)
        self.machine.begin("copy", f"{self.name}{tile}", then=then)

    def multiply(self, place: int, times: float = 1.0) -> Moment:
        """Begin a product with the tile at this place; to be awaited: it is done.

        It reads the tile until then.
        """
        who, here = self.machine.current, self.tiles[place]
        tile = self.next[who]
        if here != tile:
            holds = "nothing" if here is None else f"tile {here}"
            if place in self._coming:
                holds = f"a part of tile {self._coming[place]}"
            said = f"{who} wants to multiply tile {tile} at place {place}"
            raise Mishap(f"{said}, and {holds} is there")
        self.next[who] += 1
        product = place, who, tile
        self._products.append(product)
        then = partial(self._products.remove, product)
        return self.machine.begin("product", f"{self.name}{tile}", times, then)

    def _has_come(self, tile: int, place: int) -> None:
        del self._coming[place]
        self.tiles[place] = tile
        self.full[place].arrive()


class Job(Protocol):
    """A producer and two consumers of one ring, as a reader writes them."""

    async def produce(self, ring: Ring, num_tiles: int) -> None:
        """Copy tile after tile."""

    async def consume(self, ring: Ring, num_tiles: int) -> None:
        """Multiply tile after tile."""


def run_ring(
    job: Job,
    num_tiles: int = 6,
    places: int = 2,
    units: Mapping[str, float] = UNITS,
    draw: Random | None = None,
) -> Machine:
    """One producer and two consumers: what they did when. Raises Mishap."""
    machine = Machine(units, draw)
    ring = Ring(machine, CONSUMERS, places)
    warps = {PRODUCER: job.produce(ring, num_tiles)}
    warps |= {who: job.consume(ring, num_tiles) for who in CONSUMERS}
    machine.run(warps)
    for barrier in (*ring.full, *ring.empty):
        for _, moment in barrier.asked:
            if not moment.is_awaited:
                said = f"somebody asks for {moment.what}, and goes on at once"
                raise Mishap(f"{said}: write `await`")
    for who, tile in ring.next.items():
        if tile < num_tiles:
            raise Mishap(f"{who} has multiplied {tile} of {num_tiles} tiles")
    return machine


# --- the rungs ------------------------------------------------------------------------


def run_rung(rung: int, num_tiles: int = 4, num_pieces: int = 1) -> Machine:
    """Pieces of work on a multiprocessor by a rung, 1 to 4: what its warps did when.

    num_tiles: of each piece. Until rung 3, each piece has a program of its own, for
    which there is room when the one before has ended.
    """
    machine = Machine()
    if rung == 1:
        for _ in range(num_pieces):
            k, v = (Ring(machine, ["eight warps"], 1, name) for name in "KV")
            machine.run({"eight warps": _together(machine, k, v, num_tiles)})
        return machine
    loop = _one_after_another if rung == 2 else _weigh_under_product
    programs, turns = (1, num_pieces) if rung == 4 else (num_pieces, 1)
    for _ in range(programs):
        k, v = (Ring(machine, CONSUMERS, 2, name) for name in "KV")
        warps = {PRODUCER: _produce(k, v, turns * num_tiles)}
        for who in CONSUMERS:
            warps[who] = _consume(loop, machine, k, v, num_tiles, turns)
        machine.run(warps)
    return machine


def run_copies_ahead(num_tiles: int = 4) -> Machine:
    """Half of rung 2: a producer copies ahead, and eight warps compute together."""
    machine, who = Machine(), "eight warps"
    k, v = (Ring(machine, [who], 2, name) for name in "KV")
    loop = _one_after_another(machine, k, v, 0, num_tiles, times=2)
    return machine.run({PRODUCER: _produce(k, v, num_tiles), who: loop})


async def _together(machine: Machine, k: Ring, v: Ring, num_tiles: int) -> None:
    for tile in range(num_tiles):
        k.copy(tile, 0)
        v.copy(tile, 0)
        await k.full[0].opened(tile)
        await v.full[0].opened(tile)
        await k.multiply(0, times=2)  # twice as many rows as a consumer has
        await machine.begin("weigh", str(tile))
        await v.multiply(0, times=2)


async def _produce(k: Ring, v: Ring, num_tiles: int) -> None:
    for tile in range(num_tiles):
        for ring in (k, v):
            place, lap = tile % ring.places, tile // ring.places
            await ring.empty[place].opened(lap - 1)
            ring.copy(tile, place)


async def _consume(
    loop: Loop, machine: Machine, k: Ring, v: Ring, num_tiles: int, turns: int
) -> None:
    for turn in range(turns):
        await loop(machine, k, v, turn * num_tiles, (turn + 1) * num_tiles)


async def _once_full(ring: Ring, tile: int) -> int:
    place = tile % ring.places
    await ring.full[place].opened(tile // ring.places)
    return place


async def _one_after_another(
    machine: Machine, k: Ring, v: Ring, first: int, end: int, times: float = 1.0
) -> None:
    for tile in range(first, end):
        place = await _once_full(k, tile)
        await k.multiply(place, times)
        k.empty[place].arrive()
        await machine.begin("weigh", str(tile))
        await _once_full(v, tile)
        await v.multiply(place, times)
        v.empty[place].arrive()


async def _weigh_under_product(
    machine: Machine, k: Ring, v: Ring, first: int, end: int
) -> None:
    product, last = None, 0
    for tile in range(first, end):
        place = await _once_full(k, tile)
        logits = k.multiply(place)
        if tile > first:
            last = await _once_full(v, tile - 1)
            product = v.multiply(last)
        await logits
        k.empty[place].arrive()
        await machine.begin("weigh", str(tile))
        if product:
            await product
            v.empty[last].arrive()
    last = await _once_full(v, end - 1)
    await v.multiply(last)
    v.empty[last].arrive()
