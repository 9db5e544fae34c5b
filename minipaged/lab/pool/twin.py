"""Lab: the same sequences in contiguous memory, each in one piece (paper, 3.1)."""

from collections.abc import Mapping
from dataclasses import dataclass

from minipaged.memory.contiguous import NoPiece, Piece


class FirstFit:
    """Hands out the lowest piece that is large enough, of exactly the size asked for.

    The `Allocator` of lesson 1 that wastes least: it rounds nothing up, and free
    neighbours are one piece again at once. What fails here fails for every allocator
    that moves nothing.
    """

    def __init__(self, num_slots: int):
        """All slots are free."""
        self.num_slots = num_slots
        self._held: list[Piece] = []  # in the order of their starts

    @property
    def free_pieces(self) -> list[Piece]:
        """The gaps between held pieces, lowest first."""
        ends = [0, *(piece.start + piece.size for piece in self._held)]
        starts = [*(piece.start for piece in self._held), self.num_slots]
        gaps = zip(ends, starts, strict=True)
        return [Piece(end, start - end) for end, start in gaps if start > end]

    def allocate(self, slots: int) -> Piece:
        """Take the lowest gap's first `slots` slots, or raise NoPiece."""
        for gap in self.free_pieces:
            if gap.size >= slots:
                piece = Piece(gap.start, slots)
                self._held = sorted([*self._held, piece])
                return piece
        raise NoPiece(f"no {slots} free slots in a row; free a piece")

    def free(self, piece: Piece) -> None:
        """Take back a piece; ValueError if it is not held."""
        self._held.remove(piece)


@dataclass(frozen=True)
class Resident:
    """A sequence as contiguous memory sees it; without a piece, it waits."""

    num_tokens: int  # more than `wanted`: the rest finds no place
    wanted: int  # slots in a row
    piece: Piece | None


@dataclass(frozen=True)
class TwinState:
    """What contiguous memory holds at one moment."""

    num_slots: int
    residents: Mapping[str, Resident]  # in the order in which they came
    free_pieces: tuple[Piece, ...]

    @property
    def num_free(self) -> int:
        """Free slots, in however many pieces."""
        return sum(piece.size for piece in self.free_pieces)

    @property
    def waiting(self) -> dict[str, Resident]:
        """Those for whom no piece is large enough."""
        return {name: one for name, one in self.residents.items() if not one.piece}

    @property
    def num_lost(self) -> int:
        """Tokens that have no place: of those who wait, and beyond a full piece."""
        every = self.residents.values()
        return sum(max(0, r.num_tokens - r.wanted * bool(r.piece)) for r in every)

    def always_in_the_way(self, wanted: int) -> list[str]:
        """Who would be run into by `wanted` slots in a row, wherever they lay."""
        starts = range(self.num_slots - wanted + 1)
        return [
            name
            for name, one in self.residents.items()
            if one.piece and all(_overlap(start, wanted, one.piece) for start in starts)
        ]

    @property
    def num_empty(self) -> int:
        """Slots that are reserved, and hold no token."""
        held = [one for one in self.residents.values() if one.piece]
        return sum(max(0, one.wanted - one.num_tokens) for one in held)


def _overlap(start: int, size: int, piece: Piece) -> bool:
    return start < piece.start + piece.size and piece.start < start + size


@dataclass(frozen=True)
class Reservations:
    """How many slots each sequence reserves: all that it may ever need."""

    by_name: Mapping[str, int]
    others: int

    def of(self, name: str, num_tokens: int) -> int:
        """Slots for this sequence, and never fewer than it begins with."""
        return max(num_tokens, self.by_name.get(name, self.others))


class Twin:
    """Plays a board's moves in contiguous memory of as many slots.

    Who finds no piece waits, and is given one as soon as one is free, first come first
    served. A piece never grows: that is what was reserved for.
    """

    def __init__(self, num_slots: int, reservations: Reservations):
        """An empty memory."""
        self._memory = FirstFit(num_slots)
        self._reservations = reservations
        self._residents: dict[str, Resident] = {}

    def start(self, name: str, num_tokens: int) -> None:
        """A sequence comes, and wants its whole reservation in one piece."""
        wanted = self._reservations.of(name, num_tokens)
        self._residents[name] = Resident(num_tokens, wanted, None)
        self._place()

    def append(self, name: str, num_tokens: int) -> None:
        """It grows within its piece."""
        old = self._residents[name]
        grown = Resident(old.num_tokens + num_tokens, old.wanted, old.piece)
        self._residents[name] = grown

    def free(self, name: str) -> None:
        """It ends, and its whole piece is free; then those that wait try again."""
        gone = self._residents.pop(name)
        if gone.piece is not None:
            self._memory.free(gone.piece)
        self._place()

    def look(self) -> TwinState:
        """What there is to see now."""
        residents, memory = dict(self._residents), self._memory
        return TwinState(memory.num_slots, residents, tuple(memory.free_pieces))

    def _place(self) -> None:
        for name, one in self._residents.items():
            if one.piece is None:
                try:
                    piece = self._memory.allocate(one.wanted)
                except NoPiece:
                    return  # nobody overtakes
                self._residents[name] = Resident(one.num_tokens, one.wanted, piece)
