"""Lab: what the programs of a multiprocessor have asked for, and not yet got."""

from typing import NamedTuple


class UnderWay(NamedTuple):
    """K and V on their way to one multiprocessor."""

    programs: float  # that run on it at first
    tiles: int  # ahead in each
    kib: float  # of a tile

    @property
    def total(self) -> float:
        """In KiB."""
        return self.programs * self.tiles * self.kib
