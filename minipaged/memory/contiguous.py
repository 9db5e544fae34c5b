"""Lesson 1: contiguous reservation and where its memory goes (paper, section 3.1)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, NamedTuple

KINDS = ("token_states", "reserved", "internal", "external")
Policy = Callable[["RequestLengths", int], int]  # (request, max_length) -> slots
Span = tuple[int, int, str, int | None]  # start, stop, kind, which stay (None: free)


def kv_bytes_per_token(config: Any, dtype_bytes: int = 2) -> int:
    """Bytes of a token's K and V over all layers; ValueError names a missing field."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config

    def number(name: str) -> int:
        if not (value := getattr(text, name, None)):
            raise ValueError(f"{type(text).__name__} lacks {name}; set the model's own")
        return value

    heads = number("num_attention_heads")
    head_dim = getattr(text, "head_dim", None) or number("hidden_size") // heads
    kv_heads = getattr(text, "num_key_value_heads", None) or heads
    return 2 * number("num_hidden_layers") * kv_heads * head_dim * dtype_bytes


class RequestLengths(NamedTuple):
    """Tokens of prompt and output (1 or more); each gets a slot, even the last one."""

    prompt: int
    output: int


def reserve_max(request: RequestLengths, max_length: int) -> int:
    """Orca (Max): the model's maximum length, prompt included (section 6.1)."""
    return max_length


def reserve_pow2(request: RequestLengths, max_length: int) -> int:
    """Orca (Pow2): the prompt, and the true output rounded up to a power of two.

    "If the true output length is 25, it reserves 32" (6.1); never over `max_length`.
    """
    return min(request.prompt + (1 << (request.output - 1).bit_length()), max_length)


def reserve_oracle(request: RequestLengths, max_length: int) -> int:
    """Orca (Oracle): the true length, which no real system knows (section 6.1)."""
    return request.prompt + request.output


class Chunk(NamedTuple):
    """`size` contiguous slots from `start` on; also the receipt that frees them."""

    start: int
    size: int


class NoChunk(RuntimeError):
    """No free chunk is large enough, however many slots are free in all."""


class BuddyAllocator:
    """Hands out chunks of power-of-two size, as the paper's Orca does (section 6.1).

    A chunk splits into two buddies; free buddies merge. 13 slots start as 8 + 4 + 1.
    A call that raises leaves everything as it was.
    """

    def __init__(self, num_slots: int) -> None:
        if num_slots < 1:
            raise ValueError(f"{num_slots=}; an allocator needs 1 or more")
        bits = [bit for bit in range(num_slots.bit_length()) if num_slots >> bit & 1]
        self._free = {Chunk(num_slots & (-2 << bit), 1 << bit) for bit in bits}
        self._held: dict[int, Chunk] = {}

    @property
    def num_free(self) -> int:
        """Free slots, contiguous or not."""
        return sum(chunk.size for chunk in self._free)

    @property
    def largest_free(self) -> int:
        """Slots of the largest free chunk; 0 if there is none."""
        return max((chunk.size for chunk in self._free), default=0)

    def allocate(self, slots: int) -> Chunk:
        """Take the smallest power of two that holds `slots`, or raise NoChunk."""
        if slots < 1:
            raise ValueError(f"wanted {slots} slots; ask for 1 or more")
        fitting = [chunk for chunk in self._free if chunk.size >= slots]
        if not fitting:
            raise NoChunk(
                f"wanted {slots} slots; the largest free chunk has {self.largest_free} "
                f"of {self.num_free} free slots; free a chunk or raise num_slots"
            )
        chunk = min(fitting, key=lambda chunk: (chunk.size, chunk.start))
        self._free.remove(chunk)
        while chunk.size // 2 >= slots:  # keep the lower half, free its buddy
            chunk = Chunk(chunk.start, chunk.size // 2)
            self._free.add(Chunk(chunk.start + chunk.size, chunk.size))
        self._held[chunk.start] = receipt = Chunk(*chunk)  # a new object each time
        return receipt

    def free(self, chunk: Chunk) -> None:
        """Give `chunk` back, merged with free buddies; ValueError if it is not held."""
        if self._held.get(chunk.start) is not chunk:  # an equal one may be another's
            raise ValueError(f"{chunk} is not held: freed twice, or not from here")
        del self._held[chunk.start]
        # Ends at an initial chunk: what follows it in memory is smaller than itself.
        while (buddy := Chunk(chunk.start ^ chunk.size, chunk.size)) in self._free:
            self._free.remove(buddy)
            chunk = Chunk(min(chunk.start, buddy.start), 2 * chunk.size)
        self._free.add(chunk)


class Stay(NamedTuple):
    """A request's time in memory: its first token comes in iteration `admitted` + 1."""

    request: RequestLengths
    reservation: int
    chunk: Chunk
    admitted: int = 0


def memory_map(stays: Sequence[Stay], num_slots: int, iteration: int) -> list[Span]:
    """All slots in address order at the end of `iteration` (from 1), as in figure 3."""
    spans, end = [], 0
    for index in sorted(range(len(stays)), key=lambda index: stays[index].chunk):
        (prompt, output), reservation, (start, size), admitted = stays[index]
        if 0 < (produced := iteration - admitted) <= output:
            spans.append((end, start, "external", None))
            edges = (0, prompt + produced, prompt + output, reservation, size)
            for kind, low, high in zip(KINDS, edges, edges[1:], strict=False):
                spans.append((start + low, start + high, kind, index))
            end = start + size
    spans.append((end, num_slots, "external", None))
    return [span for span in spans if span[0] < span[1]]


@dataclass(frozen=True, slots=True)
class WasteReport:
    """Shares of the capacity, averaged over the iterations under load (figure 2).

    A slot holds a token state, or is `reserved` for a later one of the same request, or
    is `internal`: past its end. The rest is `external`: free slots, and what the buddy
    allocator rounds up, for that is "known before serving a request" (section 3.1).
    """

    token_states: float
    reserved: float
    internal: float
    external: float
    mean_running: float
    peak_running: int
    slot_iterations: tuple[int, ...]  # the four kinds, exact
    stays: tuple[Stay, ...] = field(repr=False)  # as admitted; for `memory_map`

    def __str__(self) -> str:
        rows = [f"{kind:<13}{getattr(self, kind):7.1%}" for kind in KINDS]
        return "\n".join([*rows, f"requests     {self.mean_running:6.1f} at once"])


def simulate(
    requests: Sequence[RequestLengths], policy: Policy, num_slots: int, max_length: int
) -> WasteReport:
    """Serve `requests` in order, each one token per iteration, as Orca would (2.3).

    The queue's head is admitted while it gets a chunk. Only iterations that leave some
    request waiting count (all, if none ever waits): there, free slots are a loss.
    Raises NoChunk or ValueError, before any runs, for a request that never could.
    """
    queue = [(request, policy(request, max_length)) for request in requests]
    for request, slots in queue:
        if request.output < 1 or sum(request) > min(slots, max_length):
            raise ValueError(f"{request} outgrows its {slots} slots or {max_length=}")
        BuddyAllocator(num_slots).allocate(slots)  # it must fit when all is free
    allocator, iteration, peak = BuddyAllocator(num_slots), 0, 0
    stays, running = [], []  # a heap of (last iteration, chunk): who finishes first
    for request, slots in queue:
        while allocator.largest_free < slots:
            peak = max(peak, len(running))
            iteration = running[0][0]
            while running and running[0][0] == iteration:
                allocator.free(heappop(running)[1])
        stays.append(Stay(request, slots, allocator.allocate(slots), iteration))
        heappush(running, (iteration + request.output, stays[-1].chunk))
    last = iteration or max(running)[0]  # of the iterations that count
    tokens = filled = reserved = ran = 0
    for (prompt, output), slots, _, admitted in stays:
        produced = min(output, last - admitted)
        tokens += produced * prompt + produced * (produced + 1) // 2
        filled += produced * (prompt + output)
        reserved += produced * slots
        ran += produced
    counts = (tokens, filled - tokens, reserved - filled, last * num_slots - reserved)
    shares = [count / (last * num_slots) for count in counts]
    return WasteReport(*shares, ran / last, peak or len(running), counts, tuple(stays))
