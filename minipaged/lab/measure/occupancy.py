"""Lab: how many programs fit on a multiprocessor, and what they have under way."""

from collections.abc import Mapping

MOST_PROGRAMS = 32  # on a multiprocessor, however small, since NVIDIA's Ampere
RESERVED = 1024  # bytes of shared memory that every program costs beside its own


def programs_that_fit(
    gpu: Mapping[str, int], num_warps: int, registers: int, shared_bytes: int
) -> int:
    """How many programs a multiprocessor can hold at a time: its occupancy.

    gpu: what each multiprocessor has, as `measured_tuning()["gpu"]`. registers: of a
    thread. shared_bytes: of a program.
    """
    rooms = rooms_for(gpu, num_warps, registers, shared_bytes)
    return min(MOST_PROGRAMS, gpu["threads"] // 32 // num_warps, *rooms.values())


def rooms_for(
    gpu: Mapping[str, int], num_warps: int, registers: int, shared_bytes: int
) -> dict[str, int]:
    """For how many programs its registers are enough, and its shared memory.

    A warp of 32 threads is given registers in portions of 256. A multiprocessor has
    four parts with a quarter of the registers each, and a warp lies in one of them.
    """
    warp = -(-32 * registers // 256) * 256
    warps = 4 * (gpu["registers"] // 4 // warp)
    return {
        "registers": warps // num_warps,
        "shared memory": gpu["shared_bytes"] // (shared_bytes + RESERVED),
    }


def bytes_under_way(
    gpu: Mapping[str, int], programs: int, row: Mapping[str, int], position_bytes: int
) -> int:
    """What all programs that run at a time have asked for and not yet received.

    Little's law: bytes under way = bytes per second x seconds that a byte takes to
    come. A program's tiles lie in its shared memory, with some kilobytes of other
    things; if it is not pipelined, it asks for one tile and waits. programs: how many
    are launched. row: a row of `measured_tuning()`. position_bytes: of K and V of a KV
    head.
    """
    running = min(programs, row["programs"] * gpu["multiprocessors"])
    tile_bytes = row["tile"] * position_bytes
    return running * max(1, row["shared_bytes"] // tile_bytes) * tile_bytes
