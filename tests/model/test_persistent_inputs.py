"""Inputs from arrays that are kept: at every step the same as those built anew."""

from dataclasses import fields

import pytest
import torch
from transformers import GenerationConfig

import minipaged as mp
from benchmarks.random_prompts import random_prompts
from helpers.tiny_models import tiny_model
from minipaged.decoding.options import resolve_options
from minipaged.engine.arguments import make_request
from minipaged.engine.loop import step
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.model.inputs import RaggedBatch
from minipaged.model.persistent_inputs import Pending, PersistentInputs
from minipaged.model.runner import Runner
from minipaged.scheduling.plan import Plan, Work
from minipaged.scheduling.sequence import Sequence

LONG = {"max_new_tokens": 9, "eos_token_id": [5, 9], "pad_token_id": 0}
CONFIGS = [
    GenerationConfig(**LONG),
    GenerationConfig(**LONG, do_sample=True, num_return_sequences=3),
    GenerationConfig(**LONG, num_beams=4, num_return_sequences=2),
]


class Checked:
    """Builds each batch in both ways, and compares; notes what there was to compare."""

    def __init__(self):
        self.kept, self.seen = PersistentInputs(), []

    def build(self, plan, pending=None):
        new, kept = RaggedBatch.of_plan(plan), self.kept.build(plan)
        for field in fields(RaggedBatch):
            ours, theirs = getattr(kept, field.name), getattr(new, field.name)
            if field.name == "block_tables":  # behind a table's end is anything
                lengths = [len(work.sequence.table.block_ids) for work in plan.works]
                used = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
                assert ours.shape == theirs.shape
                ours, theirs = ours[used], theirs[used]
            if isinstance(theirs, torch.Tensor):
                assert ours.dtype == theirs.dtype, field.name
                assert torch.equal(ours, theirs), field.name
            else:
                assert ours == theirs, field.name
        self.seen.append((len(plan.works), plan.num_tokens, len(plan.copies)))
        return kept

    def arrays(self, plan, pending=None):
        self.build(plan)
        return self.kept.arrays(plan, pending)


def run(checked, interrupted=(), **budget):
    """Requests of all kinds through one engine, step by step; their outputs."""
    paged = mp.PagedModel(tiny_model("qwen3"), num_blocks=64, block_size=3)
    scheduler = mp.Scheduler(paged.pool, mp.PrefixCache(paged.pool), **budget)
    stem, *tails = random_prompts(9, 1, 20, 120)
    requests = []
    for index, tail in enumerate(tails):
        prompt, config = [*stem[: 3 * index], *tail], CONFIGS[index % len(CONFIGS)]
        options = resolve_options(paged.model, config, prompt)
        generator = torch.Generator().manual_seed(index)
        requests.append(make_request(prompt, options, generator))
        scheduler.add(requests[-1])
    number, forward, runner = 0, paged.forward, paged
    if checked is not None:
        runner = Runner(paged)
        runner.inputs = checked
    while scheduler.waiting or scheduler.running:
        number += 1
        paged.forward = forward if number not in interrupted else None  # not callable
        try:
            step(runner, scheduler)
        except TypeError:
            assert number in interrupted
    return [request.strategy.output(request).sequences for request in requests]


@pytest.mark.parametrize("budget", [{}, {"max_prompt_tokens": 4}, {"max_tokens": 9}])
def test_every_batch_is_the_same(budget):
    checked = Checked()
    assert run(checked, **budget) == run(None)
    seqs, tokens, copies = zip(*checked.seen, strict=True)
    assert max(seqs) > 4 and sum(copies) > 5
    assert any(t > s for s, t in zip(seqs, tokens, strict=True))


def test_also_after_interruptions_when_all_tables_are_new():
    checked = Checked()
    assert run(checked, interrupted={3, 6, 7, 11}) == run(None)


def test_a_table_that_was_cut_and_has_grown_again():
    pool, kept = mp.BlockPool(num_blocks=16, block_size=2), Checked()
    sequence = mp.Sequence([*range(12)], mp.BlockTable(pool))
    other = mp.BlockTable(pool)
    for cut, grown in ((0, 7), (7, 9), (3, 8), (8, 9), (0, 12), (5, 6)):
        sequence.table.truncate(cut)
        other.append(3)  # takes what was given back
        sequence.table.append(grown - cut)
        kept.build(mp.Plan([mp.Work(None, sequence, cut, grown, 1)]))


def test_rows_are_used_again():
    pool, kept = mp.BlockPool(num_blocks=8, block_size=2), Checked()
    for start in range(50):
        sequences = [mp.Sequence([start] * n, mp.BlockTable(pool)) for n in (3, 1)]
        for sequence in sequences:
            sequence.table.append(sequence.num_prompt_tokens)
        kept.build(mp.Plan([mp.Work(None, s, 0, s.num_tokens, 1) for s in sequences]))
        for sequence in sequences:
            sequence.free()
    assert len(kept.kept._tables) <= 4


def forgets_copies(inputs, sequence):
    """Wrong: looks at the length of a table only."""
    row = inputs._rows.get(sequence) or inputs._new_row(sequence)
    block_ids = sequence.table.block_ids
    if row.length != len(block_ids):
        UPDATE(inputs, sequence)
    return row


UPDATE = PersistentInputs._update


def sequence_of(num_tokens, num_room, block_size=4):
    """A sequence whose table has room for more tokens than it has."""
    table = BlockTable(BlockPool(8, block_size))
    table.append(num_room)
    return Sequence(list(range(num_tokens)), table)


def test_a_token_may_lie_before_the_last_block_of_its_table():
    """As the guesses of a small model do: the table has room for all of them."""
    sequence = sequence_of(11, 11)
    arrays = PersistentInputs().arrays(Plan([Work(None, sequence, 5, 6, 1)]))
    assert arrays.slots.tolist() == sequence.table.slots(5, 6)


def test_a_negative_number_stands_for_a_pending_token():
    sequence, other = sequence_of(7, 7), sequence_of(3, 3)
    sequence.tokens[6] = -1
    works = [Work(None, other, 2, 3, 1), Work(None, sequence, 6, 7, 1)]
    pending = Pending((torch.tensor([50, 60]),), {sequence: [1], other: [0]})
    batch = PersistentInputs().build(Plan(works), pending)
    assert batch.tokens.tolist() == [2, 60]


def test_each_token_of_a_step_may_have_a_row():
    """The example of its docstring, beside a sequence that decodes."""
    sequence, other = sequence_of(9, 9), sequence_of(2, 2)
    works = [Work(None, sequence, 6, 9, 3), Work(None, other, 1, 2, 1)]
    whole = PersistentInputs().arrays(Plan(works))
    rows = whole.with_a_row_for_each_token()
    assert rows.context_lengths.tolist() == [7, 8, 9, 2]
    assert rows.query_starts.tolist() == [0, 1, 2, 3, 4]
    tables = whole.block_tables.tolist()
    assert rows.block_tables.tolist() == [*[tables[0]] * 3, tables[1]]
    assert (rows.max_query_length, rows.min_context_length) == (1, 2)
    for name in ("tokens", "positions", "slots", "logits_at"):
        assert getattr(rows, name) is getattr(whole, name)


def test_the_comparison_would_notice(monkeypatch):
    monkeypatch.setattr(PersistentInputs, "_update", forgets_copies)
    with pytest.raises(AssertionError, match=r"block_tables|slots"):
        run(Checked())
