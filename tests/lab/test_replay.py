"""A recorded run: true to the run, without a trace on it, and shown frame by frame."""

import re

import pytest
from transformers import GenerationConfig

import minipaged as mp
from helpers.shown_blocks import shown_blocks
from helpers.tiny_models import tiny_model
from minipaged.lab.measure.watch import watch
from minipaged.lab.pool.replay import record, tell_run
from minipaged.lab.pool.replay_widget import ReplayWidget

PROMPTS = [[5, 6, 7, 8, 9, 10], [5, 6, 7, 8, 11], [12], [5, 6, 7, 8, 9, 10, 13]]
CONFIGS = [
    GenerationConfig(max_new_tokens=12, num_beams=3, num_return_sequences=2),
    GenerationConfig(max_new_tokens=9, eos_token_id=list(range(30))),
    GenerationConfig(max_new_tokens=7, do_sample=True, num_return_sequences=3),
    GenerationConfig(max_new_tokens=3),
]


class Words:
    """In place of a tokenizer: token 5 is "5"."""

    def decode(self, ids):
        return " ".join(map(str, ids))


def told(frames):
    """All sentences of all frames."""
    return "\n".join(line for frame in frames for line in frame.words)


@pytest.fixture(scope="module")
def run():
    """A mixed batch with a prefix cache, recorded and watched."""
    paged = mp.PagedModel(tiny_model("qwen3"), num_blocks=64, block_size=4)
    prefix = mp.PrefixCache(paged.pool)
    with watch(paged) as moments, record(paged) as frames:
        outputs = mp.generate(paged, PROMPTS, CONFIGS, seed=3, prefix_cache=prefix)
    return paged, frames, moments, outputs


def test_recording_changes_nothing(run):
    paged, _, _, recorded = run
    plain = mp.PagedModel(tiny_model("qwen3"), num_blocks=64, block_size=4)
    prefix = mp.PrefixCache(plain.pool)
    assert mp.generate(plain, PROMPTS, CONFIGS, seed=3, prefix_cache=prefix) == recorded
    assert paged.pool.num_free == 64


def test_nothing_is_left_that_watches(run):
    paged, frames, _, _ = run
    assert not paged.observers
    num_frames = len(frames)
    mp.generate(paged, PROMPTS[:1], CONFIGS[3])
    assert len(frames) == num_frames


def test_a_frame_for_every_forward_and_one_for_the_end(run):
    _, frames, moments, _ = run
    assert len(frames) == len(moments) + 1
    for frame, moment in zip(frames, moments, strict=False):
        assert frame.num_computed == moment.num_tokens
        assert frame.snapshot.num_held == moment.num_blocks
        assert frame.snapshot.num_unshared == moment.num_unshared
        assert len(frame.snapshot.tables) == moment.num_sequences
        copied = [line for line in frame.words if ": copied to " in line]
        assert len(copied) == moment.num_copies
    assert sum(moment.num_copies for moment in moments) > 5
    assert frames[-1].num_computed == frames[-1].snapshot.num_held == 0


def test_the_tokens_are_those_that_are_returned(run):
    _, frames, _, outputs = run
    ended = frames[-1].ended
    best = [ended[f"beam {rank}"] for rank in (1, 2)]
    others = sorted(tokens for name, tokens in ended.items() if "beam" not in name)
    assert best == outputs[0].sequences
    assert others == sorted(s for out in outputs[1:] for s in out.sequences)
    before, known = {}, {}
    for frame in frames:
        for name, tokens in frame.growing.items():
            assert name not in frame.ended
            assert tokens[: len(before.get(name, []))] == before.get(name, [])
        assert known.items() <= frame.ended.items()
        before.update(frame.growing)
        known = dict(frame.ended)
    assert not frames[0].ended


def test_the_words_tell_of_forks_hits_and_ends(run):
    _, frames, _, _ = run
    text = told(frames)
    for words in ("is forked into", "found in the cache", "ends: ", "can be found"):
        assert words in text


def test_the_text_for_pages_without_widgets_is_short(run):
    _, frames, _, _ = run
    lines = tell_run(frames).splitlines()
    most = max(frame.snapshot.num_held for frame in frames)
    assert " ".join(lines).startswith(
        f"{len(frames) - 1} forwards, at most {most} of 64 blocks held"
    )
    assert len(lines) <= 16 and max(map(len, lines)) <= 76
    assert "forward 0: A begins" in "\n".join(lines) and "more" in lines[-1]


def test_another_model_is_not_recorded(run):
    other = mp.PagedModel(tiny_model("qwen3"), num_blocks=16, block_size=4)
    with record(run[0]) as frames, record(other) as others:
        mp.generate(other, PROMPTS[2:3], CONFIGS[3])
    assert [frame.num_computed for frame in frames] == [0]
    assert not frames[0].words and not frames[0].ended
    assert [frame.num_computed for frame in others] == [1, 1, 1, 0]


def greedy(num_tokens):
    return GenerationConfig(max_new_tokens=num_tokens, eos_token_id=127)


def test_sequences_with_equal_tables_are_not_taken_for_forks():
    paged = mp.PagedModel(tiny_model("qwen3"), num_blocks=6, block_size=4)
    prompts = [[5, 6], *[list(range(5, 14))] * 3]
    with record(paged) as frames:
        mp.generate(paged, prompts, greedy(1), max_prompt_tokens=2)
    assert "forked" not in told(frames)
    paged = mp.PagedModel(tiny_model("qwen3"), num_blocks=32, block_size=4)
    with record(paged) as frames:
        prefix = mp.PrefixCache(paged.pool)
        mp.generate(paged, prompts, greedy(3), prefix_cache=prefix)
    assert "forked" not in told(frames)
    assert "blocks 1 and 2 found in the cache" in told(frames)


def test_a_cache_that_is_warm_already_is_known():
    paged = mp.PagedModel(tiny_model("qwen3"), num_blocks=16, block_size=4)
    prefix, prompt = mp.PrefixCache(paged.pool), list(range(5, 14))
    mp.generate(paged, [prompt], greedy(1), prefix_cache=prefix)
    with record(paged) as frames:
        mp.generate(paged, [prompt], greedy(1), prefix_cache=prefix)
        mp.generate(paged, [[70]], greedy(1))
    text = told(frames)
    assert "A begins with 8 tokens: blocks 0 and 1 found in the cache" in text
    assert "from now on" not in text and "forgotten" not in text


def test_every_answer_is_kept_however_many_there_are():
    paged = mp.PagedModel(tiny_model("qwen3"), num_blocks=64, block_size=4)
    often = GenerationConfig(
        max_new_tokens=5,
        do_sample=True,
        num_return_sequences=4,
        eos_token_id=list(range(3, 60)),  # some end as they are forked
    )
    prompts = [[5 + n, 6, 7] for n in range(10)]
    with record(paged) as frames:
        outputs = mp.generate(paged, prompts, often, seed=1)
    kept = sorted(frames[-1].ended.values())
    assert kept == sorted(answer for out in outputs for answer in out.sequences)
    assert any(len(answer) == 1 for answer in kept) and len(kept) == 40


def test_an_error_in_the_run_passes_through_and_nothing_watches_afterwards():
    def broken(*arguments, **options):
        raise RuntimeError("broken")

    paged = mp.PagedModel(tiny_model("qwen3"), num_blocks=16, block_size=4)
    paged.attention = broken
    with pytest.raises(RuntimeError, match="broken"), record(paged) as frames:
        mp.generate(paged, [[5]], CONFIGS[3])
    assert frames[-1].words[0] == "the run was interrupted: RuntimeError('broken')"
    assert frames[-1].snapshot.num_held == 0
    assert not paged.observers


def test_the_widget_shows_the_frame_at_which_the_slider_stands(run):
    _, frames, _, _ = run
    widget = ReplayWidget(frames, Words())
    for number, frame in enumerate(frames):
        widget.slider.value = number
        shown = shown_blocks(widget.stage.value)
        holders = tuple(block.holders for block in shown.values())
        assert holders == frame.snapshot.refcounts
        for tokens in (*frame.growing.values(), *frame.ended.values()):
            assert Words().decode(tokens) in widget.answers.value
        said = re.sub("<[^>]*>", "", widget.story.value)
        assert all(word in said for word in frame.words)
        changed = {id_ for id_, one in shown.items() if "mp-changed" in one.kinds}
        assert changed == differing(frames[max(0, number - 1)], frame)
    widget.next.click()
    assert widget.slider.value == len(frames) - 1
    widget.back.click()
    assert widget.slider.value == len(frames) - 2
    assert widget._repr_mimebundle_()["text/plain"] == tell_run(frames)


def differing(one, other):
    """Blocks whose holders or filled slots are others than they were."""
    both = one.snapshot, other.snapshot
    return {
        block_id
        for block_id in range(both[0].num_blocks)
        if len(
            {
                (
                    tuple(sorted(s.contents.owners.get(block_id, ()))),
                    s.refcounts[block_id],
                    s.contents.filled.get(block_id, 0),
                )
                for s in both
            }
        )
        > 1
    }


def test_all_frames_are_drawn_in_one_way(run):
    """Else the page would jump as the slider moves."""
    widget = ReplayWidget(run[1], Words())
    ways = set()
    for number in range(len(run[1])):
        widget.slider.value = number
        ways.add("mp-compact" in widget.stage.value)
    assert len(ways) == 1


def test_an_empty_recording_is_refused():
    with pytest.raises(ValueError, match="inside the with block"):
        ReplayWidget([], Words())


def test_the_frames_would_notice_a_lost_block(monkeypatch):
    """Wrong: a table that forgets to let go is still seen to hold its blocks."""
    monkeypatch.setattr(mp.BlockTable, "free", lambda self: None)
    paged = mp.PagedModel(tiny_model("qwen3"), num_blocks=16, block_size=4)
    with record(paged) as frames:
        mp.generate(paged, [[5, 6]], CONFIGS[3])
    assert frames[-1].snapshot.num_held > 0
