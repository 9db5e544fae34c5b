"""Warps on a clock: what a ring notices, and when who works."""

from random import Random

import pytest

from helpers import attempts_of_appendix_c as appendix_c
from minipaged.lab import Mishap, run_copies_ahead, run_ring, run_rung
from minipaged.lab.tour.warps import Barrier, Machine


@pytest.mark.parametrize("seed", range(20))
def test_a_right_ring_multiplies_every_tile_in_turn(seed):
    draw = Random(seed)
    tiles, places = draw.randint(1, 12), draw.randint(1, 4)
    machine = run_ring(appendix_c.Warps(), tiles, places, draw=draw)
    for who in ("consumer 0", "consumer 1"):
        own = [s for s in machine.spans if s.kind == "product" and s.who == who]
        assert [span.what for span in own] == [str(tile) for tile in range(tiles)]


def test_one_unit_does_one_thing_after_another():
    spans = run_rung(3).spans
    for kind in ("copy", "product"):
        ends = 0.0
        for span in sorted((s for s in spans if s.kind == kind), key=lambda s: s.start):
            assert span.start >= ends
            ends = span.stop


def test_no_more_copies_ahead_than_places():
    """A copy begins when the tile before at its place is multiplied by both."""
    for rung in (2, 3):
        spans = run_rung(rung, 8).spans
        for name in "KV":
            starts = [s.start for s in spans if s.kind == "copy" and s.what[0] == name]
            ends = {}
            for s in spans:
                if s.kind == "product" and s.what[0] == name:
                    tile = int(s.what[1:])
                    ends[tile] = max(ends.get(tile, 0.0), s.stop)
            assert all(starts[tile] >= ends[tile - 2] for tile in range(2, 8))


def test_each_rung_leaves_the_matrix_unit_less_idle():
    shares = [run_rung(rung, 5).busy() for rung in (1, 2, 3)]
    assert shares == sorted(shares) and shares[0] < 0.55 and shares[2] > 0.9
    assert shares[0] < run_copies_ahead(5).busy() < shares[1]


def test_copies_ahead_of_eight_warps_leave_them_the_weighing_to_wait_for():
    """A tile takes two products of 128 rows, and the weighing between them."""
    assert run_copies_ahead(400).busy() == pytest.approx(4 / 6.5, abs=0.01)


def test_weights_are_made_while_a_product_of_the_same_consumer_is():
    spans = run_rung(3).spans
    weighs = [s for s in spans if s.kind == "weigh" and s.who == "consumer 0"][1:]
    for span in weighs:
        values = [
            s
            for s in spans
            if s.kind == "product" and s.who == span.who and s.what[0] == "V"
        ]
        assert any(s.start < span.stop and span.start < s.stop for s in values)


@pytest.mark.parametrize("rung", (1, 2, 3, 4))
def test_each_piece_is_multiplied_whole(rung):
    """By programs of their own, or by one in turns: two products with each tile."""
    products = [s for s in run_rung(rung, 3, 2).spans if s.kind == "product"]
    consumers = {span.who for span in products}
    assert len(products) == 2 * 2 * 3 * len(consumers)


def test_copies_of_the_next_piece_begin_under_the_last_in_rung_4_alone():
    ahead = {}
    for rung in (3, 4):
        spans = run_rung(rung, 3, 2).spans
        copies = sorted(s.start for s in spans if s.kind == "copy")
        ends = sorted(s.stop for s in spans if s.kind == "product")
        ahead[rung] = copies[6] < ends[11]  # of 6 copies and 12 products of a piece
    assert ahead == {3: False, 4: True}


def test_the_machine_stops_where_nobody_can_go_on():
    machine = Machine()
    barrier = Barrier(machine, "a door", 1)

    async def wait():
        await barrier.opened(0)

    with pytest.raises(Mishap, match="nobody can go on: A waits for a door to open"):
        machine.run({"A": wait()})


def test_a_failure_of_the_reader_is_not_swallowed():
    class Fails(appendix_c.Warps):
        async def consume(self, ring, num_tiles):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_ring(Fails())
