"""The checks of the exercises: they accept what is right, and reject each mistake.

The solutions that the notebooks fold away are run in tests/notebooks/test_alone.py.
"""

import re
from types import SimpleNamespace

import pytest
import torch

from helpers import attempts_of_appendix_a as appendix_a
from helpers import attempts_of_appendix_b as appendix_b
from helpers import attempts_of_appendix_c as appendix_c
from helpers import attempts_of_appendix_d as appendix_d
from helpers import attempts_of_appendix_e as appendix_e
from helpers import attempts_of_appendix_f as appendix_f
from helpers import attempts_of_appendix_g as appendix_g
from helpers import attempts_of_appendix_h as appendix_h
from helpers import attempts_of_capstone as capstone
from helpers import attempts_of_incidents as incidents
from helpers import attempts_of_lesson0 as lesson0
from helpers import attempts_of_lesson1 as lesson1
from helpers import attempts_of_lesson2 as lesson2
from helpers import attempts_of_lesson3 as lesson3
from helpers import attempts_of_lesson4 as lesson4
from helpers import attempts_of_lesson5 as lesson5
from helpers import attempts_of_lesson6 as lesson6
from helpers import attempts_of_routing as routing
from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.decoding.beam import Beams
from minipaged.lab import check
from minipaged.lab.check import lesson4 as stopping

LESSONS = (lesson0, lesson1, lesson2, lesson3, lesson4, lesson5, lesson6)
LESSONS += (appendix_a, appendix_b, appendix_c, appendix_d, appendix_e, appendix_f)
LESSONS += (appendix_g, appendix_h, routing, incidents, capstone)
KERNELS = ["sums", "slots", "merge_splits", "packed"]


def verdict(capsys, name, attempt):
    """What a check says; of the capstone's, an attempt is several functions."""
    attempts = attempt if isinstance(attempt, tuple) else (attempt,)
    getattr(check, name)(*attempts)
    return capsys.readouterr().out


# --- what is right --------------------------------------------------------------------


RIGHT = {
    "must_copy": lesson0.must_copy,
    "shared_blocks": lesson3.shared_blocks,
    "free_order": lesson3.free_order,
    "prefix_index": lesson3.PrefixIndex,
    "four_kinds": lesson1.four_kinds,
    "reserved_cache": lesson1.ReservedCache,
    "first_fit": lesson1.FirstFit,
    "position_of": lesson2.position_of,
    "ragged_row": lesson2.ragged_row,
    "attend": lesson2.attend,
    "is_done": lesson4.is_done,
    "append": lesson4.append,
    "next_beams": lesson4.next_beams,
    "merge": lesson5.merge,
    "stream": lesson5.stream,
    "window": lesson5.window,
    "sums": lesson6.sums,
    "slots": lesson6.slots,
    "merge_splits": lesson6.merge_splits,
    "packed": lesson6.packed,
    "static_steps": appendix_a.static_steps,
    "turns": appendix_a.turns,
    "batching": appendix_a.Promising,
    "num_preempted": appendix_b.num_preempted,
    "swap_out": appendix_b.swap_out,
    "schedule": appendix_b.schedule,
    "waves": appendix_c.waves,
    "stretches": appendix_c.stretches,
    "warps": appendix_c.Warps,
    "sizes": appendix_c.sizes,
    "eight_bits": appendix_c.eight_bits,
    "graph_size": appendix_d.graph_size,
    "graphed": appendix_d.Graphed,
    "answers_ahead": appendix_d.answers_ahead,
    "lookup": appendix_e.lookup,
    "taken": appendix_e.taken,
    "kept": appendix_e.kept,
    "step_price": appendix_f.step_price,
    "host_seconds": appendix_f.host_seconds,
    "sustained": appendix_f.sustained,
    "answering": appendix_g.answering,
    "cut": appendix_g.cut,
    "may_serve": routing.may_serve,
    "route": routing.route,
    "remembered": routing.Remembered,
    "incident_1": appendix_g.First,
    "incident_2": appendix_g.Second,
    "incident_3": appendix_g.Third,
    "heads": appendix_h.heads,
    "shares": appendix_h.shares,
    "all_reduce": appendix_h.all_reduce,
    "incident_of_lesson_3": incidents.OfLesson3,
    "incident_of_lesson_4": incidents.OfLesson4,
    "incident_of_appendix_b": incidents.OfAppendixB,
} | capstone.RIGHT

# --- what is wrong --------------------------------------------------------------------

FAULTS = {name: faults for lesson in LESSONS for name, faults in lesson.FAULTS.items()}


def test_every_check_is_tried():
    checks = {name for name, found in vars(check).items() if callable(found)}
    assert set(RIGHT) == set(FAULTS) == checks


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_attempt_is_accepted(capsys, name):
    assert "accepted" in verdict(capsys, name, RIGHT[name])


def test_a_right_attempt_at_8_bits_is_cast_and_read_back(capsys):
    said = verdict(capsys, "eight_bits", RIGHT["eight_bits"])
    off = float(re.search(r"became the byte [01]{8}, read as .* off by (.+)%", said)[1])
    assert 1 < off <= 6.25


@pytest.mark.parametrize(
    ("name", "attempt", "words"),
    [(name, *fault) for name, faults in FAULTS.items() for fault in faults],
)
def test_a_fault_is_rejected_and_named(capsys, name, attempt, words):
    if not INTERPRETED and name in KERNELS:  # nobody looks on where it is compiled
        if attempt.__name__ in lesson6.UNSEEN:
            pytest.skip("nothing comes of it where nobody looks on")
        words = ""
    said = verdict(capsys, name, attempt)
    assert "rejected" in said and "accepted" not in said
    assert said.partition("\n")[2].strip()  # what was found
    assert words in said


def stub(*arguments):
    raise NotImplementedError


class Stub:
    def __init__(self, num_slots):
        self.num_slots = num_slots

    def allocate(self, slots):
        raise NotImplementedError


class CacheStub:
    def __init__(self, num_slots, num_heads, head_dim):
        self.keys = torch.empty(num_heads, num_slots, head_dim)

    def write(self, keys, values):
        raise NotImplementedError


class IndexStub:
    def __init__(self, block_size):
        self.block_size = block_size

    def publish(self, tokens, block_ids):
        raise NotImplementedError


class WarpsStub(appendix_c.Warps):
    async def consume(self, ring, num_tiles):
        raise NotImplementedError


@pytest.mark.parametrize("name", RIGHT)
def test_a_stub_gets_a_nudge(capsys, name):
    stubs = {"first_fit": Stub, "reserved_cache": CacheStub, "prefix_index": IndexStub}
    stubs["warps"] = WarpsStub
    attempt = stubs.get(name, stub)
    assert "not attempted" in verdict(capsys, name, attempt)


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize(
    "attempt", [None, 7, lambda: 1, lambda *a: 1 / 0, lambda *a: None]
)
def test_nonsense_is_rejected_and_never_raises(capsys, name, attempt):
    assert "rejected" in verdict(capsys, name, attempt)


class OnlyAllocates(lesson1.FirstFit):
    def free(self, piece):
        raise NotImplementedError


def test_half_an_attempt_is_an_attempt(capsys):
    said = verdict(capsys, "first_fit", OnlyAllocates)
    assert "rejected" in said and "not written yet" in said
    said = verdict(capsys, "attend", lambda q, *rest: torch.arange(3).softmax(-1))
    assert "rejected" in said and "not implemented" in said


def test_a_right_attempt_is_put_to_use(capsys):
    said = verdict(capsys, "first_fit", lesson1.FirstFit)
    assert "51% of the memory holds tokens, 15% is external" in said
    assert "(with the buddy allocator: 39% and 35%)" in said
    said = verdict(capsys, "reserved_cache", lesson1.ReservedCache)
    assert "A 65, B 8, C 26 of 72 slots; same tokens" in said


def test_what_is_as_right_is_accepted(capsys):
    """A list of four lists, and an heir that takes over its parent's table."""
    for attempt in (lambda *a: [*lesson4.next_beams(*a)], lesson4.the_heir_takes_over):
        assert "accepted" in verdict(capsys, "next_beams", attempt)


def search_stops(kept, k, best_sum, n, longest, alpha, early_stopping):
    """What the package's beam search does with these answers and this best beam."""
    options = SimpleNamespace(
        num_beams=k,
        length_penalty=alpha,
        early_stopping=early_stopping,
        max_new_tokens=longest,
    )
    search = Beams(options)
    search.num_new, search.running_scores[0] = n, best_sum
    search.best_scores[: len(kept)] = torch.tensor(kept)
    search.ended[: len(kept)] = True
    full = early_stopping is True and bool(search.ended.all())
    return full or not search._can_improve()


def test_the_rule_of_stopping_is_that_of_the_search():
    for case in stopping._cases():
        assert stopping.must_stop(*case) == search_stops(*case), case


def test_a_rescale_is_asked_for_only_where_there_is_one(capsys):
    """Of a single block, nothing was summed before."""

    def shifted(q, read, *rest):
        return lesson5.stream(q, read, *rest) + (len(read.reads) == 1)

    said = verdict(capsys, "stream", shifted)
    assert "off by up to 1" in said and "rescaled" not in said


def test_nan_is_explained_by_what_is_possible(capsys):
    """Two full blocks: no slot is empty. One that is not full: none was kept."""
    said = verdict(capsys, "stream", lesson5.keeps_a_full_block)
    assert "8 tokens" in said and "slot past" not in said and "inf" not in said
    said = verdict(capsys, "stream", lesson5.reads_the_tail)
    assert "1 token in" in said and "was kept" not in said and "inf" not in said


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_without_a_mistake_is_accepted(capsys, name):
    """Else it would be the flag's machinery that is rejected above."""
    kernel = lesson6.flawed("not_at_all", getattr(lesson6, name))
    assert "accepted" in verdict(capsys, name, kernel)


@pytest.mark.parametrize("attempt", lesson1.RETURN_COPIES)
def test_a_cache_may_return_copies_of_slots_that_never_move(capsys, attempt):
    said = verdict(capsys, "reserved_cache", attempt)
    assert "accepted" in said and "a view of the slots would cost nothing" in said


@pytest.mark.parametrize(
    "attempt",
    lesson6.ALSO_RIGHT
    + appendix_c.ALSO_RIGHT
    + appendix_e.ALSO_RIGHT
    + appendix_g.ALSO_RIGHT,
    ids=lambda a: a[0],
)
def test_another_way_is_accepted(capsys, attempt):
    name, other = attempt
    assert "accepted" in verdict(capsys, name, other)


def test_the_choices_of_decode_sizes_are_named_as_such(capsys):
    said = verdict(capsys, "sizes", appendix_c.copied)
    assert "furthest from the best in NVIDIA H200, 1x8k: 3.9%" in said.splitlines()[-1]
    assert "furthest" not in verdict(capsys, "sizes", appendix_c.sizes)


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_that_is_a_stub_gets_a_nudge(capsys, name):
    assert "not attempted" in verdict(capsys, name, lesson6.slots_stub)


def test_an_attempt_cannot_spoil_the_case(capsys):
    """Arguments are copies, so that a sloppy but right function passes."""

    def sloppy(first, second, size):
        answer = lesson3.shared_blocks(first, second, size)
        first.clear()
        return answer

    assert "accepted" in verdict(capsys, "shared_blocks", sloppy)
