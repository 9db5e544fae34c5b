"""Lesson 1: contiguous reservation: how much, and where (paper, sections 3.1, 6.1)."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

Policy = Callable[["RequestLengths", int], int]  # (request, max_length) -> slots


def kv_bytes_per_token(config: Any, dtype_bytes: int = 2) -> int:
    """Bytes of a token's K and V over all layers; ValueError names a missing field."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config

    def number(name: str) -> int:
        if not (value := getattr(text, name, None)):
            raise ValueError(
                f"{type(text).__name__} lacks {name}; pass a model's config, complete"
            )
        return value

    heads = number("num_attention_heads")
    head_dim = getattr(text, "head_dim", None) or number("hidden_size") // heads
    kv_heads = getattr(text, "num_key_value_heads", None) or heads
    return 2 * number("num_hidden_layers") * kv_heads * head_dim * dtype_bytes


class RequestLengths(NamedTuple):
    """Tokens of prompt and output (1 or more); each gets a slot, the last one too."""

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


class Piece(NamedTuple):
    """`size` contiguous slots from `start` on; also the receipt that frees them."""

    start: int
    size: int


class Allocator(Protocol):
    """What `simulate` needs of a memory: it hands out pieces, and takes them back."""

    def allocate(self, slots: int) -> Piece:
        """Hand out `slots` neighbouring slots or more, or raise NoPiece."""

    def free(self, piece: Piece) -> None:
        """Take back a piece that was handed out."""


class NoPiece(RuntimeError):
    """No free piece is large enough, however many slots are free in all."""


class BuddyAllocator:
    """Hands out pieces of power-of-two size, as the paper's Orca does (section 6.1).

    A piece splits into two buddies; free buddies merge. 13 slots start as 8 + 4 + 1.
    A call that raises leaves everything as it was.
    """

    def __init__(self, num_slots: int) -> None:
        if num_slots < 1:
            raise ValueError(f"{num_slots=}; an allocator needs 1 or more")
        bits = [bit for bit in range(num_slots.bit_length()) if num_slots >> bit & 1]
        self._free = {Piece(num_slots & (-2 << bit), 1 << bit) for bit in bits}
        self._held: dict[int, Piece] = {}

    @property
    def num_free(self) -> int:
        """Free slots, contiguous or not."""
        return sum(piece.size for piece in self._free)

    @property
    def largest_free(self) -> int:
        """Slots of the largest free piece; 0 if there is none."""
        return max((piece.size for piece in self._free), default=0)

    def allocate(self, slots: int) -> Piece:
        """Take the smallest power of two that holds `slots`, or raise NoPiece."""
        if slots < 1:
            raise ValueError(f"wanted {slots} slots; ask for 1 or more")
        fitting = [piece for piece in self._free if piece.size >= slots]
        if not fitting:
            free = (
                f"; the largest free piece has {self.largest_free} of {self.num_free} "
                "free slots"
                if self._free
                else ", and none is free"
            )
            raise NoPiece(
                f"wanted {slots} slots{free}; free a piece or raise num_slots"
            )
        piece = min(fitting, key=lambda piece: (piece.size, piece.start))
        self._free.remove(piece)
        while piece.size // 2 >= slots:  # keep the lower half, free its buddy
            piece = Piece(piece.start, piece.size // 2)
            self._free.add(Piece(piece.start + piece.size, piece.size))
        self._held[piece.start] = receipt = Piece(*piece)  # a new object each time
        return receipt

    def free(self, piece: Piece) -> None:
        """Give `piece` back, merged with free buddies; ValueError if it is not held."""
        # Not `!=`: once freed, an equal piece may belong to another request.
        if self._held.get(piece.start) is not piece:
            raise ValueError(f"{piece} is not held: freed twice, or not from here")
        del self._held[piece.start]
        # The loop ends at an initial piece: the piece behind it in memory is smaller.
        while (buddy := Piece(piece.start ^ piece.size, piece.size)) in self._free:
            self._free.remove(buddy)
            piece = Piece(min(piece.start, buddy.start), 2 * piece.size)
        self._free.add(piece)
