"""How many programs fit on a multiprocessor, and what they have under way."""

import pytest

from minipaged.lab.measure.occupancy import bytes_under_way, programs_that_fit

HOPPER = {"multiprocessors": 132, "registers": 2**16, "shared_bytes": 233_472}
HOPPER |= {"threads": 2048}


@pytest.mark.parametrize(
    ("num_warps", "registers", "shared_bytes", "programs"),
    [
        (1, 32, 0, 32),  # no more than 32, whatever they need
        (8, 32, 0, 8),  # 2,048 threads
        (4, 128, 0, 4),  # 65,536 registers / (128 threads x 128)
        (4, 129, 0, 3),  # given out in portions: 136 each
        (4, 96, 39_424, 5),
        (4, 32, 72_704, 3),  # shared memory, and a kilobyte for each
        (1, 255, 0, 8),
        (8, 255, 0, 1),
        (4, 32, 233_472, 0),
    ],
)
def test_what_there_is_least_of_decides(num_warps, registers, shared_bytes, programs):
    assert programs_that_fit(HOPPER, num_warps, registers, shared_bytes) == programs


def test_bytes_under_way():
    tile = 64 * 2 * 128 * 2  # K and V of 64 positions, in bfloat16
    row = {"tile": 64, "programs": 5, "shared_bytes": tile + 6000}

    def under_way(programs, **changed):
        return bytes_under_way(HOPPER, programs, row | changed, 2 * 128 * 2)

    assert under_way(8) == 8 * tile  # all of them run
    assert under_way(10_000) == 5 * 132 * tile  # as many as fit
    assert under_way(8, shared_bytes=2 * tile + 6000) == 16 * tile
    assert under_way(8, shared_bytes=20_000) == 8 * tile  # not pipelined: it waits
