"""Traces: made up, and read from files of others' forms."""

import json
from itertools import pairwise
from statistics import fmean, stdev

import pytest

from minipaged.lab import StepClock
from minipaged.lab.measure import traces as lesson_1
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.prefix_cache import PrefixCache
from minipaged.scheduling.scheduler import Scheduler
from minipaged.simulate import trace_files, traces
from minipaged.simulate.lengths import LogNormal
from minipaged.simulate.loop import simulate
from minipaged.simulate.script import BeamScript


@pytest.mark.parametrize(
    ("make", "prompt", "output"),
    [
        (traces.sharegpt_like, 161.31, 337.99),
        (traces.alpaca_like, 19.31, 58.45),
        (traces.wmt_like, 30.0, 40.0),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_means_are_the_paper_s(make, prompt, output, seed):
    lengths = make(2000, seed)
    assert fmean(one.prompt for one in lengths) == pytest.approx(prompt, rel=0.01)
    assert fmean(one.output for one in lengths) == pytest.approx(output, rel=0.01)
    assert max(map(sum, lengths)) <= 2048 and min(map(min, lengths)) >= 1
    assert make(2000, seed) == lengths != make(2000, seed + 5)


def test_long_answers_are_cut_and_the_mean_is_lower():
    lengths = traces.sharegpt_like(50_000)
    assert fmean(one.output for one in lengths) == pytest.approx(336.8, abs=0.3)


def test_lesson_1_draws_from_the_same_distributions():
    """Two generators of random numbers, and one law: means and spreads agree."""
    for name in ("sharegpt_like", "alpaca_like"):
        ours, theirs = getattr(traces, name)(4000), getattr(lesson_1, name)(4000)
        for at in (0, 1):
            both = [[one[at] for one in lengths] for lengths in (ours, theirs)]
            assert fmean(both[0]) == pytest.approx(fmean(both[1]), rel=0.01)
            assert stdev(both[0]) == pytest.approx(stdev(both[1]), rel=0.1)


def test_a_clipped_mean_is_right_and_quantiles_rise():
    law = LogNormal(300, 1.5, 500)
    assert fmean(law.at((at + 0.5) / 999) for at in range(999)) == pytest.approx(
        300, rel=0.01
    )
    assert law.at(0.1) < law.at(0.5) < law.at(0.9) <= 500


def test_chats_have_long_prompts_and_never_too_long_ones():
    chats = traces.chat_like(2000)
    prompts = [chat.prompt for chat in chats]
    assert len(chats) == 2000 and max(prompts) == 1024 == max(c.output for c in chats)
    assert sum(prompt == 1024 for prompt in prompts) > 1000


def test_arrivals_come_at_the_rate_and_stretch():
    slow, fast = (
        traces.poisson_trace(traces.wmt_like(3000), rate) for rate in (2.0, 8.0)
    )
    assert slow[-1].arrival == pytest.approx(1500, rel=0.05)
    assert [one.arrival for one in slow] == pytest.approx(
        [4 * one.arrival for one in fast]
    )
    gaps = [after.arrival - before.arrival for before, after in pairwise(slow)]
    assert stdev(gaps) == pytest.approx(fmean(gaps), rel=0.1)  # as Poisson's are


def test_prompts_share_their_prefix_and_nothing_else():
    trace = traces.poisson_trace(traces.wmt_like(50), 5.0, prefix=80)
    assert all(one.prompt[:80] == trace[0].prompt[:80] for one in trace)
    assert len({one.prompt[80] for one in trace}) == 50
    pool = BlockPool(2000, 16)
    cached = simulate(
        Scheduler(pool, PrefixCache(pool)), traces.arrivals(trace), StepClock()
    )
    assert sorted(one.cached for one in cached.served) == [0] + [80] * 49


def test_a_conversation_s_next_prompt_is_found_in_the_cache():
    trace = traces.conversations(8, 0.1)
    pool = BlockPool(20_000, 16)
    report = simulate(
        Scheduler(pool, PrefixCache(pool)), traces.arrivals(trace), StepClock(0.01)
    )
    found = sum(one.cached for one in report.served)
    said = {one.prompt[0] for one in trace}  # the conversations
    repeated = [one for one in trace if one.prompt[0] != one.prompt[-1]]
    assert len(said) + len(repeated) == len(trace) and repeated
    # All that was said before, but for parts of blocks.
    before = sum(len(one.prompt) - one.prompt.count(one.prompt[-1]) for one in repeated)
    assert 0.9 * before < found <= before
    assert max(len(one.prompt) + one.lengths[0] for one in trace) <= 2048


def test_conversations_begin_at_the_rate_and_keep_to_the_model_s_length():
    for max_length in (500, 2048, 5000):
        trace = traces.conversations(300, 2.0, max_length=max_length)
        first = {}
        for one in trace:
            first.setdefault(one.prompt[0], one.arrival)
        assert max(first.values()) == pytest.approx(150, rel=0.1)
        assert len(first) > 150
        longest = max(len(one.prompt) + one.lengths[0] for one in trace)
        assert 0.9 * max_length < longest <= max_length


def test_samples_and_beams():
    trace = traces.poisson_trace(traces.wmt_like(3), 1.0)
    samples, beams = traces.with_samples(trace, 3), traces.with_beams(trace, 4)
    assert samples[0].lengths == trace[0].lengths * 3
    request = beams[1].arrive().request
    assert isinstance(request.strategy, BeamScript) and request.num_parallel == 4
    assert beams[1].arrive().request is not request


def test_a_trace_that_comes_faster_is_read_no_further_than_needed():
    trace = iter(traces.poisson_trace(traces.wmt_like(300), rate=1.0))
    taken = traces.faster(trace, times=4.0, minutes=0.5)
    slow = traces.poisson_trace(traces.wmt_like(300), rate=4.0)
    assert taken == [asked for asked in slow if asked.arrival < 30]
    assert len(taken) + 1 + len([*trace]) == 300


# --- files; the rows are our own, in the form of the published ones -------------------


def test_azure(tmp_path):
    path = tmp_path / "azure.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:17:03.9799600,310,40\n"
        "2023-11-16 18:17:04.0319600,420,90\n"
        "2023-11-16 18:18:04.4799600,5,0\n"
    )
    first, second = trace_files.azure(path)
    assert (first.arrival, len(first.prompt), first.lengths) == (0.0, 310, (40,))
    assert second.arrival == pytest.approx(0.052) and second.lengths == (90,)
    assert first.prompt[0] != second.prompt[0]


def test_burstgpt_leaves_failures_out(tmp_path):
    path = tmp_path / "burst.csv"
    path.write_text(
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,472,18,490,Conversation log\n"
        "45,ChatGPT,1087,0,1087,Conversation log\n"
        "118,GPT-4,417,276,693,API log\n"
    )
    trace = trace_files.burstgpt(path)
    assert [(one.arrival, len(one.prompt), one.lengths) for one in trace] == [
        (0.0, 472, (18,)),
        (113.0, 417, (276,)),
    ]


def test_mooncake_spreads_batches_and_shares_blocks(tmp_path):
    rows = [
        (0, 1100, 52, [0, 1, 2]),
        (0, 700, 9, [0, 3]),
        (3000, 512, 1, [0]),
    ]
    names = "timestamp input_length output_length hash_ids".split()
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(lines) + "\n")
    trace = [*trace_files.mooncake(path)]
    assert [one.arrival for one in trace] == [0.0, 1.5, 3.0]
    assert trace[0].prompt == [0] * 512 + [1] * 512 + [2] * 76
    assert trace[1].prompt == [0] * 512 + [3] * 188
    assert [one.lengths for one in trace] == [(52,), (9,), (1,)]


def test_spread():
    assert trace_files.spread([0, 0, 0, 3, 3]) == [0, 1, 2, 3, 4.5]
    assert trace_files.spread([]) == [] and trace_files.spread([7, 7]) == [7, 7]
