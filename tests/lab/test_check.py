"""The checks of the exercises: they accept what is right, and reject each mistake.

The solutions that the notebooks fold away are run in tests/notebooks/test_alone.py.
"""

from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch

from helpers import attempts_of_appendix_a as appendix_a
from helpers import attempts_of_appendix_b as appendix_b
from helpers import attempts_of_appendix_c as appendix_c
from helpers import attempts_of_lesson1 as lesson1
from helpers import attempts_of_lesson2 as lesson2
from helpers import attempts_of_lesson3 as lesson3
from helpers import attempts_of_lesson4 as lesson4
from helpers import attempts_of_lesson5 as lesson5
from helpers import attempts_of_lesson6 as lesson6
from helpers.thorough import THOROUGH
from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.decoding.beam import Beams
from minipaged.lab import check
from minipaged.lab.check import lesson4 as stopping
from minipaged.memory.contiguous import NoPiece, Piece

LESSONS = (lesson1, lesson2, lesson3, lesson4, lesson5, lesson6)
LESSONS += (appendix_a, appendix_b, appendix_c)
KERNELS = ["sums", "slots", "merge_splits", "packed"]


def verdict(capsys, name, attempt):
    getattr(check, name)(attempt)
    return capsys.readouterr().out


# --- what is right --------------------------------------------------------------------


class ReservedCache:
    """With slots before heads, unlike the solution in the notebook."""

    def __init__(self, num_slots, num_heads, head_dim):
        self.memory = torch.full((2, num_slots, num_heads, head_dim), torch.nan)
        self.num_tokens = 0

    def write(self, keys, values):
        start, stop = self.num_tokens, self.num_tokens + keys.shape[1]
        self.refuse(stop)
        self.store(start, stop, keys, values)
        self.num_tokens = stop
        return tuple(self.memory[:, :stop].transpose(1, 2))

    def refuse(self, stop):
        if stop > self.memory.shape[1]:
            raise ValueError("full")

    def store(self, start, stop, keys, values):
        self.memory[0, start:stop] = keys.transpose(0, 1)
        self.memory[1, start:stop] = values.transpose(0, 1)


class FirstFit:
    """With a free list that is merged, unlike the solution in the notebook."""

    def __init__(self, num_slots):
        self.free_pieces, self.held = [(0, num_slots)], {}

    def allocate(self, slots):
        for index, (start, size) in enumerate(self.free_pieces):
            if size >= slots:
                rest = [(start + slots, size - slots)] if size > slots else []
                self.free_pieces[index : index + 1] = rest
                self.held[start] = slots
                return Piece(start, slots)
        raise NoPiece("full")

    def free(self, piece):
        if self.held.get(piece.start) != piece.size:
            raise ValueError(piece)
        self.free_pieces.append((piece.start, self.held.pop(piece.start)))
        self.free_pieces.sort()
        self.merge()

    def merge(self):
        merged = []
        for start, size in self.free_pieces:
            if merged and sum(merged[-1]) == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + size)
            else:
                merged.append((start, size))
        self.free_pieces = merged


def slot_of(block_ids, size, position):
    index, offset = divmod(position, size)
    return size * block_ids[index] + offset


def position_of(block_ids, size, num_tokens, slot):
    slots = [slot_of(block_ids, size, position) for position in range(num_tokens)]
    return slots.index(slot) if slot in slots else None


def position_of_any(block_ids, size, num_tokens, slot):
    """Wrong: an empty slot of the last block has a position, too."""
    return position_of(block_ids, size, len(block_ids) * size, slot)


def attend(q, keys, values, block_ids, num_tokens):
    size, kv_heads = keys.shape[1:3]
    slots = [slot_of(block_ids, size, p) for p in range(num_tokens)]
    k, v = keys.flatten(0, 1)[slots], values.flatten(0, 1)[slots]
    q = q.view(kv_heads, -1, q.shape[1])
    weights = torch.softmax(torch.einsum("kgd,tkd->kgt", q, k) / q.shape[2] ** 0.5, -1)
    return torch.einsum("kgt,tkd->kgd", weights, v).flatten(0, 1)


RIGHT = {
    "shared_blocks": lesson3.shared_blocks,
    "free_order": lesson3.free_order,
    "prefix_index": lesson3.PrefixIndex,
    "four_kinds": lesson1.four_kinds,
    "reserved_cache": ReservedCache,
    "first_fit": FirstFit,
    "position_of": position_of,
    "ragged_row": lesson2.ragged_row,
    "attend": attend,
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
    "sizes": appendix_c.sizes,
}

# --- what is wrong --------------------------------------------------------------------


class GrowsByConcatenation:
    def __init__(self, num_slots, num_heads, head_dim):
        self.num_slots = num_slots
        self.keys = self.values = torch.empty(num_heads, 0, head_dim)

    def write(self, keys, values):
        if self.keys.shape[1] + keys.shape[1] > self.num_slots:
            raise ValueError("full")
        self.keys = torch.cat([self.keys, keys], 1)
        self.values = torch.cat([self.values, values], 1)
        return self.keys, self.values


class ReturnsEverySlot(ReservedCache):
    def write(self, keys, values):
        super().write(keys, values)
        return tuple(self.memory.transpose(1, 2))


class ReturnsTheNewOnes(ReservedCache):
    def write(self, keys, values):
        return [each[:, -keys.shape[1] :] for each in super().write(keys, values)]


class ReturnsKeysAlone(ReservedCache):
    def write(self, keys, values):
        return super().write(keys, values)[0]


class StartsAtZero(ReservedCache):
    def store(self, start, stop, keys, values):
        super().store(0, stop - start, keys, values)


class CountsWrites(ReservedCache):
    def write(self, keys, values):
        before = self.num_tokens
        found = super().write(keys, values)
        self.num_tokens = before + 1
        return found


class StoresTheLastOnly(ReservedCache):
    def store(self, start, stop, keys, values):
        super().store(start, stop, keys[:, -1:], values[:, -1:])


class MixesKeysAndValues(ReservedCache):
    def store(self, start, stop, keys, values):
        super().store(start, stop, values, keys)


class MixesHeads(ReservedCache):
    def store(self, start, stop, keys, values):
        self.memory[0, start:stop] = keys.reshape(-1, *self.memory.shape[2:])
        self.memory[1, start:stop] = values.reshape(-1, *self.memory.shape[2:])


class ReturnsWhatCameIn(ReservedCache):
    def write(self, keys, values):
        super().write(keys, values)
        return keys, values


class KeepsTheCallersTensors(ReservedCache):
    def write(self, keys, values):
        super().write(keys, values)
        if self.num_tokens == keys.shape[1]:
            return keys, values
        return tuple(self.memory[:, : self.num_tokens].transpose(1, 2))


class SharesItsMemory(ReservedCache):
    memories: ClassVar = {}

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.memory = self.memories.setdefault(sizes, self.memory)


class NeverRefuses(ReservedCache):
    def refuse(self, stop):
        pass


class RefusesTooEarly(ReservedCache):
    def refuse(self, stop):
        super().refuse(stop + 1)


class RefusesTooLate(ReservedCache):
    def refuse(self, stop):
        super().refuse(stop - 1)


class FillsBeforeItRefuses(ReservedCache):
    def write(self, keys, values):
        room = self.memory.shape[1] - self.num_tokens
        if keys.shape[1] > room:
            super().write(keys[:, :room], values[:, :room])
        return super().write(keys, values)


class WritesOverTheStart(ReservedCache):
    """A ring."""

    def refuse(self, stop):
        self.num_tokens %= self.memory.shape[1]


class NeverMerges(FirstFit):
    def merge(self):
        pass


class MergesOnlyWithTheNext(FirstFit):
    def free(self, piece):
        if piece.start not in self.held:
            raise ValueError(piece)
        start, size = piece.start, self.held.pop(piece.start)
        for after in [p for p in self.free_pieces if p[0] == start + size]:
            self.free_pieces.remove(after)
            size += after[1]
        self.free_pieces = sorted([*self.free_pieces, (start, size)])


class BestFit(FirstFit):
    def allocate(self, slots):
        self.free_pieces.sort(key=lambda piece: (piece[1], piece[0]))
        piece = super().allocate(slots)
        self.free_pieces.sort()
        return piece


class FreesAnything(FirstFit):
    def free(self, piece):
        if piece.start in self.held:
            super().free(piece)


class FailsWithoutAWord(FirstFit):
    def free(self, piece):
        self.free_pieces.append((piece.start, self.held.pop(piece.start)))
        self.merge()


class RaisesAnotherError(FirstFit):
    def allocate(self, slots):
        try:
            return super().allocate(slots)
        except NoPiece:
            raise MemoryError from None


class FreesParts(FirstFit):
    def free(self, piece):
        if piece.start not in self.held:
            raise ValueError(piece)
        super().free(Piece(piece.start, self.held[piece.start]))


class HandsOutNumbers(FirstFit):
    def allocate(self, slots):
        return super().allocate(slots).start


class PowersOfTwo(FirstFit):
    def allocate(self, slots):
        return super().allocate(1 << (slots - 1).bit_length())


class ReturnsNothing(FirstFit):
    def allocate(self, slots):
        super().allocate(slots)


def unmasked(q, keys, values, block_ids, num_tokens):
    """Reads the last block to its end."""
    return attend(q, keys, values, block_ids, len(block_ids) * keys.shape[1])


def whatever_is_written(q, keys, values, block_ids, num_tokens):
    """Takes NaN for the mark of an end, and reads all that is no NaN."""
    written = ~keys.isnan().flatten(0, 1).flatten(1).any(1)
    k, v = (x.flatten(0, 1)[written][:, None] for x in (keys, values))
    return attend(q, k, v, list(range(len(k))), len(k))


def spoils_the_cache(q, keys, values, block_ids, num_tokens):
    """Writes zeros over the poison."""
    keys.nan_to_num_()
    return attend(q, keys, values, block_ids, num_tokens)


def writes_over_others(q, keys, values, block_ids, num_tokens):
    """Clears the rest of the last block."""
    keys[block_ids[-1], num_tokens % keys.shape[1] or keys.shape[1] :] = 0
    return attend(q, keys, values, block_ids, num_tokens)


def masked_too_late(q, keys, values, block_ids, num_tokens):
    """0 x NaN = NaN."""
    size = keys.shape[1]
    k, v = keys[block_ids].flatten(0, 1), values[block_ids].flatten(0, 1)
    k, v = (x.repeat_interleave(len(q) // keys.shape[2], 1) for x in (k, v))
    logits = torch.einsum("hd,thd->ht", q, k) / q.shape[1] ** 0.5
    unused = torch.arange(len(block_ids) * size) >= num_tokens
    weights = logits.masked_fill(unused, -torch.inf).softmax(-1)
    return torch.einsum("ht,thd->hd", weights, v)


WRONG = {
    **lesson1.WRONG,
    **lesson2.WRONG,
    **lesson3.WRONG,
    **lesson4.WRONG,
    **lesson5.WRONG,
    **lesson6.WRONG,
    **appendix_a.WRONG,
    **appendix_b.WRONG,
    **appendix_c.WRONG,
    "reserved_cache": [
        GrowsByConcatenation,
        *lesson1.MOVED,
        ReturnsEverySlot,
        ReturnsTheNewOnes,
        ReturnsKeysAlone,
        StartsAtZero,
        CountsWrites,
        StoresTheLastOnly,
        MixesKeysAndValues,
        MixesHeads,
        KeepsTheCallersTensors,
        ReturnsWhatCameIn,
        SharesItsMemory,
        NeverRefuses,
        RefusesTooEarly,
        RefusesTooLate,
        FillsBeforeItRefuses,
        WritesOverTheStart,
    ],
    "first_fit": [
        NeverMerges,
        MergesOnlyWithTheNext,
        BestFit,
        FreesAnything,
        FailsWithoutAWord,
        FreesParts,
        RaisesAnotherError,
        HandsOutNumbers,
        PowersOfTwo,
        ReturnsNothing,
        lambda num_slots: None,
    ],
    "position_of": [
        position_of_any,
        lambda block_ids, size, num_tokens, slot: slot,
        lambda block_ids, size, num_tokens, slot: block_ids.index(slot // size),
        lambda block_ids, size, num_tokens, slot: slot // size,
        lambda block_ids, size, num_tokens, slot: (
            position_of(block_ids, size, num_tokens, slot) or None
        ),
        lambda block_ids, size, num_tokens, slot: (
            position_of(block_ids, size, num_tokens, slot) or 0
        ),
        lambda block_ids, size, num_tokens, slot: position_of(
            block_ids, 4, num_tokens, slot
        ),
        lambda block_ids, size, num_tokens, slot: position_of(
            sorted(block_ids), size, num_tokens, slot
        ),
        lambda block_ids, size, num_tokens, slot: slot_of(
            block_ids, size, min(slot, num_tokens - 1)
        ),
        lambda *arguments: (position_of(*arguments), 0),
    ],
    "attend": [
        unmasked,
        masked_too_late,
        whatever_is_written,
        spoils_the_cache,
        writes_over_others,
        lambda q, k, v, ids, n: attend(q, k, v, sorted(ids), n),
        lambda q, k, v, ids, n: attend(q * 2, k, v, ids, n),
        lambda q, k, v, ids, n: attend(q, k, v, ids, n)[:1],
        lambda q, k, v, ids, n: attend(q, k, v, ids, n).tolist(),
        lambda q, k, v, ids, n: attend(q, k.flip(2), v.flip(2), ids, n),
        lambda q, k, v, ids, n: attend(q, k, k, ids, n),
        lambda q, k, v, ids, n: attend(q, k, v, ids, max(1, n - 1)),
    ],
}


def test_every_check_is_tried():
    assert set(RIGHT) == set(WRONG) == set(check.__all__)


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_attempt_is_accepted(capsys, name):
    assert "accepted" in verdict(capsys, name, RIGHT[name])


NAMED = [
    (name, *case)
    for lesson in LESSONS
    for name, cases in lesson.NAMED.items()
    for case in cases
]
TRIED = {(name, attempt) for name, attempt, _ in NAMED}


@pytest.mark.parametrize(
    ("name", "attempt"),
    [
        (name, wrong)
        for name in WRONG
        for wrong in WRONG[name]
        # The others are rejected by name, below.
        if THOROUGH or not INTERPRETED or (name, wrong) not in TRIED
    ],
)
def test_a_wrong_attempt_is_rejected_with_what_was_found(capsys, name, attempt):
    said = verdict(capsys, name, attempt)
    assert "rejected" in said and "accepted" not in said
    assert said.partition("\n")[2].strip()  # what was found


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


@pytest.mark.parametrize("name", RIGHT)
def test_a_stub_gets_a_nudge(capsys, name):
    stubs = {"first_fit": Stub, "reserved_cache": CacheStub, "prefix_index": IndexStub}
    attempt = stubs.get(name, stub)
    assert "not attempted" in verdict(capsys, name, attempt)


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize(
    "attempt", [None, 7, lambda: 1, lambda *a: 1 / 0, lambda *a: None]
)
def test_nonsense_is_rejected_and_never_raises(capsys, name, attempt):
    assert "rejected" in verdict(capsys, name, attempt)


class OnlyAllocates(FirstFit):
    def free(self, piece):
        raise NotImplementedError


def test_half_an_attempt_is_an_attempt(capsys):
    said = verdict(capsys, "first_fit", OnlyAllocates)
    assert "rejected" in said and "not written yet" in said
    said = verdict(capsys, "attend", lambda q, *rest: torch.arange(3).softmax(-1))
    assert "rejected" in said and "not implemented" in said


def test_the_answer_says_the_state(capsys):
    said = verdict(capsys, "position_of", lambda *a: None)
    assert "got None, expected 11; a token of this table lies there, or is" in said


def test_what_is_wrong_with_a_position_is_said(capsys):
    said = verdict(capsys, "position_of", lambda ids, size, n, slot: slot)
    assert "block_ids=" not in said and "ids=[8, 9, 10, 11, 7], size=4, n=18" in said
    assert "got 43, expected 11; that is the slot" in said
    said = verdict(capsys, "position_of", position_of_any)
    assert "got 18, expected None; the slot is in the last block, but empty" in said
    entry = verdict(
        capsys, "position_of", lambda ids, size, n, slot: ids.index(slot // size)
    )
    assert "got 2, expected 11; that is the entry in the table" in entry
    said = verdict(
        capsys, "position_of", lambda ids, size, n, slot: ids[slot // size] * size
    )
    assert "IndexError" in said and "look for the slot's block in it" in said


def without_groups(q, keys, values, block_ids, num_tokens):
    """As if every head had a KV head of its own."""
    k, v = (x[block_ids].flatten(0, 1)[:num_tokens] for x in (keys, values))
    logits = torch.einsum("hd,thd->ht", q, k) / q.shape[1] ** 0.5
    return torch.einsum("ht,thd->hd", logits.softmax(-1), v)


def test_what_is_wrong_with_attention_is_said(capsys):
    said = verdict(capsys, "attend", unmasked)
    assert "NaN; a slot was read that was never written" in said
    said = verdict(capsys, "attend", masked_too_late)
    assert "(a mask comes too late: 0 × NaN is NaN)" in said
    said = verdict(capsys, "attend", lambda q, *rest: attend(q * 4, *rest))
    assert "off by up to" in said and "it is right" not in said
    said = verdict(
        capsys, "attend", lambda q, *rest: attend(q * q.shape[1] ** 0.5, *rest)
    )
    assert "right but for the scale, which is 1" in said
    said = verdict(
        capsys, "attend", lambda q, *rest: attend(q * q.shape[1] ** -0.5, *rest)
    )
    assert "right but for the scale, which is 1 / head_dim" in said
    said = verdict(
        capsys, "attend", lambda q, k, v, ids, n: attend(q, k, v, ids, n - 1)
    )
    assert "right if the last token did not count" in said
    said = verdict(
        capsys, "attend", lambda q, k, v, ids, n: attend(q, k, v, sorted(ids), n)
    )
    assert "Read the blocks in the table's order" in said or "read by id" in said
    said = verdict(capsys, "attend", lambda q, k, v, *rest: attend(q, k, k, *rest))
    assert "right if keys were the values" in said
    said = verdict(capsys, "attend", without_groups)
    assert "6 heads share 2 KV heads" in said
    said = verdict(capsys, "attend", lambda *arguments: None)
    assert "got None, expected a tensor; is a return missing?" in said


def test_a_right_attempt_is_put_to_use(capsys):
    said = verdict(capsys, "first_fit", FirstFit)
    assert "51% of the memory holds tokens, 15% is external" in said
    assert "(with the buddy allocator: 39% and 35%)" in said
    said = verdict(capsys, "reserved_cache", ReservedCache)
    assert "A 65, B 8, C 26 of 72 slots; same tokens" in said


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (GrowsByConcatenation, "the keys lie elsewhere than after the first write"),
        (lesson1.MovesAndReturnsACopy, "they were copied"),
        (lesson1.KeepsPieces, "the keys lie elsewhere than after the first write"),
        (ReturnsEverySlot, "tensor[2, 12, 4]: all slots, but only 7 hold"),
        (ReturnsTheNewOnes, "tensor[2, 1, 4]: the 7 earlier tokens are missing"),
        (ReturnsKeysAlone, "not two tensors, all stored keys and all stored values"),
        (StartsAtZero, "token 0 is token 7: from which slot on must you write?"),
        (MixesKeysAndValues, "token 0 has keys and values mixed up"),
        (KeepsTheCallersTensors, "what came in was returned, only the new tokens"),
        (ReturnsWhatCameIn, "return all that is stored"),
        (SharesItsMemory, "two caches, written in turns: cache A"),
        (
            NeverRefuses,
            "2 more: expected a ValueError, got RuntimeError",
        ),
        (
            RefusesTooEarly,
            "writes of [12] tokens: write() raised ValueError: full; but",
        ),
        (
            FillsBeforeItRefuses,
            "refused, then 1 more: write() raised ValueError: full; but there is room; "
            "a refused write must change nothing",
        ),
    ],
)
def test_what_is_wrong_with_a_cache_is_said(capsys, attempt, words):
    assert words in verdict(capsys, "reserved_cache", attempt)


def test_what_is_wrong_with_contiguous_memory_is_said(capsys):
    said = verdict(capsys, "first_fit", RaisesAnotherError)
    assert "allocate(1) raised MemoryError: ; no slot is free: raise NoPiece" in said
    said = verdict(capsys, "first_fit", ReturnsNothing)
    assert "no slot is free" not in said
    said = verdict(capsys, "first_fit", NeverMerges)
    assert "(free neighbours become one): got 'NoPiece raised', expected 0" in said


@pytest.mark.parametrize(("name", "attempt", "words"), NAMED)
def test_a_check_names_the_mistake(capsys, name, attempt, words):
    if not INTERPRETED and name in KERNELS:
        pytest.skip("nobody looks on where a kernel is compiled")
    said = verdict(capsys, name, attempt)
    assert "rejected" in said and words in said


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


def test_what_is_wrong_with_a_window_is_said(capsys):
    def off_by(more):
        def attempt(q, read, num_tokens, width, size):
            return lesson5.window(q, read, num_tokens, max(1, width + more), size)

        return verdict(capsys, "window", attempt)

    assert "a window of 8, 3 heads" in off_by(1)
    assert "it is right for a window of 9" in off_by(1)
    assert "it is right for a window of 7" in off_by(-1)


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
    "attempt", lesson6.ALSO_RIGHT + appendix_c.ALSO_RIGHT, ids=lambda a: a[0]
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
