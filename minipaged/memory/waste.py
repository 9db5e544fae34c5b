"""Lesson 1: where contiguously reserved memory goes (paper, section 3.1)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from minipaged.memory.contiguous import (
    Allocator,
    BuddyAllocator,
    NoPiece,
    Piece,
    Policy,
    RequestLengths,
)

KINDS = ("token_states", "reserved", "internal", "external")
Span = tuple[int, int, str, int | None]  # start, stop, kind, which stay (None: free)


class Stay(NamedTuple):
    """A request's time in memory: its first token comes in iteration `admitted` + 1."""

    request: RequestLengths
    reservation: int
    piece: Piece
    admitted: int = 0


def memory_map(stays: Sequence[Stay], num_slots: int, iteration: int) -> list[Span]:
    """All slots in address order at the end of `iteration` (from 1), as in figure 3."""
    spans = []
    end = 0  # of the last span
    present = (
        index
        for index, stay in enumerate(stays)
        if 0 < iteration - stay.admitted <= stay.request.output
    )
    for index in sorted(present, key=lambda index: stays[index].piece):
        (prompt, output), reservation, (start, size), admitted = stays[index]
        spans.append((end, start, "external", None))
        produced = iteration - admitted
        edges = (0, prompt + produced, prompt + output, reservation, size)
        for kind, low, high in zip(KINDS, edges, edges[1:], strict=False):
            spans.append((start + low, start + high, kind, index))
        end = start + size
    spans.append((end, num_slots, "external", None))
    return [span for span in spans if span[0] < span[1]]


@dataclass(frozen=True, slots=True)
class WasteReport:
    """Shares of the capacity, averaged over the iterations under load (figure 2).

    A slot holds a token state, or is `reserved` for a later token of the same request,
    or is `internal`: past the request's end. The rest is `external`: free slots, and
    what the buddy allocator rounds up, for that is "known before serving a request"
    (section 3.1).
    """

    token_states: float
    reserved: float
    internal: float
    external: float
    mean_running: float
    peak_running: int
    slot_iterations: tuple[int, ...]  # the four kinds, exact
    rounded_up: float  # the part of `external` inside pieces; the rest are gaps
    stays: tuple[Stay, ...] = field(repr=False)  # as admitted; for `memory_map`
    num_steps: int  # iterations until all requests are served

    def __str__(self) -> str:
        rows = [f"{kind:<13}{getattr(self, kind):7.1%}" for kind in KINDS]
        return "\n".join([*rows, f"requests     {self.mean_running:6.1f} at once"])


def simulate(
    requests: Sequence[RequestLengths],
    policy: Policy,
    num_slots: int,
    max_length: int,
    allocator: Callable[[int], Allocator] = BuddyAllocator,
) -> WasteReport:
    """Serve `requests` in order, a token of each per iteration, as Orca would (2.3).

    The queue's head is admitted while it gets a piece from `allocator(num_slots)`.
    Only iterations that leave a request waiting count, for only there a free slot is a
    loss. If no request ever waits, all iterations count.
    Raises NoPiece or ValueError, before any request runs, for one that never fits.
    """
    queue = [(request, policy(request, max_length)) for request in requests]
    if not queue:
        raise ValueError("no requests to serve; give at least one")
    for request, slots in queue:
        if request.output < 1 or sum(request) > min(slots, max_length):
            raise ValueError(f"{request} outgrows its {slots} slots or {max_length=}")
        allocator(num_slots).allocate(slots)  # it must fit when all is free
    memory = allocator(num_slots)
    iteration = 0
    peak = 0
    stays = []
    running = []  # a heap of (last iteration, piece): the next to finish is first
    for request, slots in queue:
        while (piece := _try_allocate(memory, slots)) is None:
            peak = max(peak, len(running))
            iteration = running[0][0]
            while running and running[0][0] == iteration:
                memory.free(heappop(running)[1])
        stays.append(Stay(request, slots, piece, iteration))
        heappush(running, (iteration + request.output, stays[-1].piece))
    last = iteration or max(running)[0]  # the last iteration that counts
    tokens = filled = reserved = ran = held = 0
    for (prompt, output), slots, piece, admitted in stays:
        produced = min(output, last - admitted)
        tokens += produced * prompt + produced * (produced + 1) // 2
        filled += produced * (prompt + output)
        reserved += produced * slots
        held += produced * piece.size
        ran += produced
    counts = (tokens, filled - tokens, reserved - filled, last * num_slots - reserved)
    shares = [count / (last * num_slots) for count in counts]
    return WasteReport(
        *shares,
        mean_running=ran / last,
        peak_running=peak or len(running),
        slot_iterations=counts,
        rounded_up=(held - reserved) / (last * num_slots),
        stays=tuple(stays),
        num_steps=max(stay.admitted + stay.request.output for stay in stays),
    )


def _try_allocate(memory: Allocator, slots: int) -> Piece | None:
    try:
        return memory.allocate(slots)
    except NoPiece:
        return None
