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


def room_by_registers(gpu: Mapping[str, int], num_warps: int, registers: int) -> float:
    """For how many programs a multiprocessor has registers; of a thread: `registers`.

    As they are divided on paper: `programs_that_fit` knows how they are handed out.
    """
    return gpu["registers"] / (32 * num_warps * registers)


def tiles_under_way(shared_bytes: int, tile_bytes: int) -> int:
    """Tiles of K and V that a program has asked for and not yet used.

    They lie in its shared memory, and with them some kilobytes of other things. A
    program that is not pipelined asks for one tile and waits.
    """
    return max(1, shared_bytes // tile_bytes)


def bytes_under_way(
    gpu: Mapping[str, int], programs: int, row: Mapping[str, int], position_bytes: int
) -> int:
    """What all programs that run at a time have asked for and not yet received.

    Little's law: bytes under way = bytes per second x seconds that a byte takes to
    come. programs: how many are launched. row: a row of `measured_tuning()`.
    position_bytes: of K and V of a KV head.
    """
    running = min(programs, row["programs"] * gpu["multiprocessors"])
    tile_bytes = row["tile"] * position_bytes
    return running * tiles_under_way(row["shared_bytes"], tile_bytes) * tile_bytes
