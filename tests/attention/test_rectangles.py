"""Attention in rectangles: as by the loop; what is padded, and how little."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.attention_cases import make_case, sinks_of
from helpers.thorough import often
from minipaged.attention.gathered import attend_gathered
from minipaged.attention.rectangles import (
    attend_in_rectangles,
    gathered_attention,
    gathered_in_turns,
    pad_to_rectangles,
)
from minipaged.lab import operations_of
from minipaged.lab.measure.peak import peak_extra_bytes


@settings(max_examples=often(60), deadline=None)
@given(
    lengths=st.lists(
        st.tuples(st.integers(0, 400), st.integers(1, 40)), min_size=1, max_size=9
    ),
    sliding_window=st.none() | st.integers(1, 40),
    softcap=st.none() | st.just(3.0),
    sinks=st.none() | st.just(sinks_of(4)),
    bytes_together=st.just(2**30) | st.integers(0, 10**6),
)
def test_the_loop_computes_the_same(
    lengths, sliding_window, softcap, sinks, bytes_together
):
    ways = partial(attend_in_rectangles, bytes_together=bytes_together), attend_gathered
    case = make_case(lengths, value_dim=12, dtype=torch.float64)
    options = {"sliding_window": sliding_window, "softcap": softcap, "sinks": sinks}
    ours, loop = (case.attend(each, **options) for each in ways)
    assert torch.allclose(ours, loop, rtol=0, atol=1e-12)


@pytest.mark.parametrize("new", [1, 5])
@pytest.mark.parametrize("sliding_window", [None, 6])
@pytest.mark.parametrize("blocks", [(3, 4, 5, 6), (3, 5, 4, 6), (6, 5, 4, 3)])
def test_blocks_that_follow_each_other_are_read_where_they_lie(
    blocks, new, sliding_window
):
    lengths = [(15 - new, new)]
    case = make_case(lengths, dtype=torch.float64, first_blocks=blocks)
    assert case.batch.block_tables.tolist() == [[*blocks]]
    ours, loop = (
        case.attend(each, sliding_window=sliding_window)
        for each in (gathered_attention, attend_gathered)
    )
    assert torch.allclose(ours, loop, rtol=0, atol=1e-12)
    calls = operations_of(lambda: case.attend(gathered_attention))
    copies = sum(call.name == "index_select" for call in calls)
    assert copies == (0 if blocks == (3, 4, 5, 6) else 2)


def test_no_more_is_gathered_at_once_than_was_said():
    case = make_case([(999, 1)] * 16, key_dim=64)
    a_sequence = 2 * 1000 * case.keys[0, 0].nbytes
    few = partial(attend_in_rectangles, bytes_together=3 * a_sequence)
    peaks = [
        peak_extra_bytes(lambda each=each: case.attend(each))
        for each in (few, gathered_attention)
    ]
    assert 3 * a_sequence < peaks[0] < 4 * a_sequence < 16 * a_sequence < peaks[1]


@pytest.mark.parametrize("num_threads", [1, 2])
def test_the_package_gathers_two_megabytes_a_thread_at_once(monkeypatch, num_threads):
    monkeypatch.setattr(torch, "get_num_threads", lambda: num_threads)
    case = make_case([(999, 1)] * 64, key_dim=64)
    assert 64 * 2 * 1000 * case.keys[0, 0].nbytes > 2**25
    peak = peak_extra_bytes(lambda: case.attend(gathered_in_turns))
    assert 2**20 * num_threads < peak < 2**21 * (num_threads + 1)


def test_a_long_prompt_beside_single_tokens_is_not_padded_to_a_rectangle():
    case = make_case([(0, 500), *[(40, 1)] * 31])
    rectangles, _ = pad_to_rectangles(case.batch)
    assert sum(each.tokens.numel() for each in rectangles) == len(case.q)


@settings(max_examples=often(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 900), st.integers(1, 40)), min_size=1, max_size=9)
)
def test_rectangles_hold_every_token_and_little_else(lengths):
    batch = make_case(lengths, num_heads=1, num_kv_heads=1, key_dim=1).batch
    rectangles, row_of_token = pad_to_rectangles(batch)
    tokens = torch.cat([each.tokens.flatten() for each in rectangles])
    assert torch.equal(tokens[row_of_token], torch.arange(len(batch.tokens)))
    assert len(tokens) <= 2 * len(batch.tokens)
    sequences = torch.cat([each.sequences for each in rectangles])
    assert sequences.sort().values.tolist() == list(range(len(lengths)))
    for sequences, tokens, positions in rectangles:
        assert torch.equal(positions, batch.positions[tokens])
        contexts = batch.context_lengths[sequences]
        assert torch.equal(contexts, contexts.sort(descending=True).values)
        assert torch.equal(positions[:, -1], contexts - 1)
        lengths_here = batch.query_starts.diff()[sequences].tolist()
        for row, length in zip(tokens.tolist(), lengths_here, strict=True):
            assert row[:length] == list(range(row[0], row[0] + length))
            assert row[length:] == [row[length - 1]] * (len(row) - length)
            assert 2 * length >= len(row)


def num_parts(attention, case):
    calls = operations_of(lambda: case.attend(attention))
    return sum("scaled_dot_product" in call.name for call in calls)


def test_a_long_context_beside_short_ones_does_not_make_them_long():
    case = make_case([(1000, 1), *[(40, 1)] * 31])
    assert num_parts(gathered_attention, case) == 2


@pytest.mark.parametrize(("padding", "parts"), [(8, 20), (300, 3), (1200, 2)])
def test_contexts_of_many_lengths_are_read_at_once_while_padding_is_cheap(
    padding, parts
):
    case = make_case([(length, 1) for length in range(40, 240, 10)])
    most = 8 * padding * 2 * case.keys[0, 0].nbytes
    assert num_parts(partial(attend_in_rectangles, bytes_together=most), case) == parts


def test_layers_of_one_kind_gather_into_the_same_memory():
    case = make_case([(99, 1)] * 8)
    gathered = 2 * 8 * 100 * case.keys[0, 0].nbytes  # K and V of 8 contexts of 100
    first, second = (
        peak_extra_bytes(lambda: case.attend(gathered_attention)) for _ in range(2)
    )
    assert first >= second + gathered and 4 * second < gathered
