"""Lesson 2: is there memory for so many blocks? Asked before it is taken (the border).

An operating system promises more memory than there is, and ends a process that uses it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path

from minipaged.errors import is_out_of_memory


@contextmanager
def room_for(
    num_blocks: int,
    bytes_each: int,
    free: float,
    where: object = "the CPU",
    remedy: str = "num_blocks or block_size",
    what: str = "blocks",
) -> Iterator[None]:
    """Allocate the blocks inside this `with`: MemoryError says what is too large.

    free: the number of free bytes, or inf if nobody knows. It is compared before
    anything is allocated.
    """
    size = num_blocks * bytes_each
    said = f"{num_blocks:,} {what} of {bytes_each:,} bytes take {_gigabytes(size)}"
    if size > free:
        raise MemoryError(
            f"{said}, and {where} has {_gigabytes(free)} free; lower {remedy}"
        )
    try:
        yield
    except (MemoryError, OverflowError, RuntimeError, TypeError) as error:
        if is_out_of_memory(error) or size >= 2**63:  # torch has no such numbers
            raise MemoryError(
                f"{said}, and {where} has no room for them; lower {remedy}"
            ) from error
        raise


def _gigabytes(size: float) -> str:
    return f"{min(size, 1e30) / 1e9:,.1f} GB"


def free_memory(root: str | os.PathLike = "/") -> float:
    """Bytes of the CPU's memory that this process can still get; inf if nobody says.

    Copies of files in memory count as free, and so does free swap space. In a container
    it is the rest of the container's limit. `root`: where /proc and /sys lie.
    """
    root = Path(root)
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        kilobytes = {name: int(number) for name, number, *_ in map(str.split, lines)}
        free = (kilobytes["MemAvailable:"] + kilobytes["SwapFree:"]) * 1024
        return max(0, min([free, *_rests_of_limits(root)]))
    except (OSError, KeyError, ValueError):  # no Linux: all memory that there is
        try:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, ValueError, OSError):
            return inf


def _rests_of_limits(root: Path) -> Iterator[int]:
    """What remains of the limit of each control group that this process is in.

    Versions 2 and 1 of control groups use different names for the same numbers.
    """
    top = root / "sys/fs/cgroup"
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds == "":
            mount = top
            limit, used = "memory.max", "memory.current"
            prefix = ""
        elif "memory" in kinds.split(","):
            mount = top / "memory"
            limit, used = "memory.limit_in_bytes", "memory.usage_in_bytes"
            prefix = "total_"
        else:
            continue
        innermost = mount / path.lstrip("/")
        for group in (innermost, *innermost.parents):
            try:
                most, now = (int((group / name).read_text()) for name in (limit, used))
                lines = (group / "memory.stat").read_text().splitlines()
                stat = dict(map(str.split, lines))
            except (OSError, ValueError):  # no such group, or no limit: "max"
                continue
            files = (stat[f"{prefix}{kind}_file"] for kind in ("inactive", "active"))
            yield most - now + sum(map(int, files))


def resident_memory() -> int:
    """Bytes of the machine's memory that this process has now; 0 if nobody says."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
