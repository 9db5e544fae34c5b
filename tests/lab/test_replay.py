"""A recorded run: true to the run, without a trace on it, and shown frame by frame."""

import re

import pytest
from transformers import GenerationConfig

import minipaged as mp
from helpers.serving import add_all, check, config, make
from helpers.shown_blocks import Page, shown_blocks
from helpers.tiny_models import tiny_model
from minipaged.lab.measure.step_clock import StepClock
from minipaged.lab.measure.watch import watch
from minipaged.lab.pool import lanes
from minipaged.lab.pool import words as pool_words
from minipaged.lab.pool.guide import Guide
from minipaged.lab.pool.lane_words import joined
from minipaged.lab.pool.lanes import Reached
from minipaged.lab.pool.replay import Recorder, record, tell_run
from minipaged.lab.pool.replay_widget import ReplayWidget
from minipaged.lab.pool.sandbox import Sandbox
from minipaged.lab.pool.scenes_of_appendix_b import COME, STEP
from minipaged.lab.pool.served_board import ServedBoard, Serving

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


def test_the_text_for_pages_without_widgets_fits_into_their_width(run):
    _, frames, _, _ = run
    lines = tell_run(frames).splitlines()
    most = max(frame.snapshot.num_held for frame in frames)
    assert " ".join(lines).startswith(
        f"{len(frames) - 1} forwards, at most {most} of 64 blocks held"
    )
    assert max(map(len, lines)) <= 76
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


class Looking(mp.Observer):
    """Whom the scheduler has where, step by step, in the test's own words."""

    def __init__(self):
        self.engine, self.steps, self.first = None, [], {}
        self.reached, self.num_again, self.preempted_as = {}, 0, []

    def letter(self, request):
        return self.first[request.prompt[0]]

    def planned(self, plan):
        scheduler, line = self.engine.scheduler, self.engine.scheduler.waiting
        away = [request for request in line if request.swapped is not None]
        self.steps.append(
            {
                "running": list(map(self.letter, scheduler.running)),
                "waiting": [self.letter(one) for one in line if one not in away],
                "swapped": [
                    (self.letter(one), {p for own in one.swapped.places for p in own})
                    for one in away
                ],
            }
        )
        for work in plan.works:
            before = self.reached.get(work.sequence, 0)
            self.num_again += max(0, min(before, work.stop) - work.start)
            self.reached[work.sequence] = max(before, work.stop)

    def preempted(self, request):
        how = "moved to the CPU" if request.swapped is not None else "dropped"
        self.preempted_as.append((self.letter(request), how))


# Prompt and answer of A, B, C, D, and the step before which each comes.
FOUR = [(9, 8, 0), (6, 9, 0), (7, 7, 0), (10, 3, 2)]


def serve(mode, cache=False, num_steps=None):
    """Four requests on eight blocks: one is preempted, one has to wait."""
    paged = mp.PagedModel(tiny_model("qwen3"), num_blocks=8, block_size=4)
    prefix = mp.PrefixCache(paged.pool) if cache else None
    clock, looking = StepClock(), Looking()
    limits = {"max_tokens": 16, "max_sequences": 8, "preemption": mode}
    observers = [clock, looking]
    engine = mp.Engine(paged, prefix, **limits, clock=clock, observers=observers)
    looking.engine = engine
    for number, (num_tokens, num_new, arrival) in enumerate(FOUR):
        prompt = list(range(10 * number + 3, 10 * number + 3 + num_tokens))
        looking.first[prompt[0]] = "ABCD"[number]
        engine.add(prompt, config(num_new), arrival=arrival)
    return engine, looking


@pytest.fixture(scope="module", params=["recompute", "swap", "cached"])
def served(request):
    """A recorded run with a preemption."""
    mode = "swap" if request.param == "swap" else "recompute"
    engine, looking = serve(mode, request.param == "cached")
    with record(engine.paged) as frames:
        outputs = engine.run()
    return request.param, frames, looking, outputs


def check_lanes(frames, looking):
    """Every frame has in its lanes whom the scheduler had there."""
    assert len(frames) == len(looking.steps) + 1
    for frame, step in zip(frames, looking.steps, strict=False):
        lanes = frame.snapshot.lanes
        assert [card.names[0] for card in lanes.running] == step["running"]
        assert [card.names[0] for card in lanes.waiting] == step["waiting"]
        swapped = [
            (card.names[0], {p for t in card.tables.values() for p in t.block_ids})
            for card in lanes.swapped
        ]
        assert swapped == step["swapped"]
        num = sum(s.stop - s.start for card in lanes.running for s in card.spans)
        assert num == frame.num_computed
    spans = [
        span
        for frame in frames
        for card in frame.snapshot.lanes.running
        for span in card.spans
    ]
    assert sum(span.num_again for span in spans) == looking.num_again
    preempted = re.findall(r"^(\w+) is preempted.* are (.*?):", told(frames), re.M)
    assert preempted == looking.preempted_as
    assert len(re.findall("^. ends: ", told(frames), re.M)) == len(FOUR)


def test_the_lanes_are_those_of_the_scheduler(served):
    mode, frames, looking, _ = served
    check_lanes(frames, looking)
    assert any(step["waiting"] for step in looking.steps)
    assert any(step["swapped"] for step in looking.steps) == (mode == "swap")
    assert looking.num_again == {"recompute": 8, "swap": 0, "cached": 8}[mode]
    assert not frames[-1].snapshot.lanes.names


FAULTS = {
    "who is preempted is said to end": (pool_words, "heads", lambda before, after: {}),
    "nothing is known to be lost": (Reached, "committed", lambda self, plan: None),
    "one lane is forgotten": (lanes, "_spans", lambda *arguments: ()),
    "those in line are not seen": (Recorder, "planned", lambda self, plan: None),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_noticed(monkeypatch, fault):
    engine, looking = serve("recompute")
    monkeypatch.setattr(*FAULTS[fault])
    with record(engine.paged) as frames:
        engine.run()
    with pytest.raises(AssertionError):
        check_lanes(frames, looking)


def test_recording_an_engine_changes_nothing(served):
    mode, _, _, recorded = served
    engine, _ = serve("swap" if mode == "swap" else "recompute", mode == "cached")
    assert engine.run() == recorded and not engine.paged.observers


def test_who_begins_and_computes_at_once_keeps_the_place_of_the_arrival():
    lines = [f"{name} arrives and begins, with no block yet" for name in "ABC"]
    lines.append("A computes its 9 prompt tokens")
    told = joined(lines)
    assert told == [
        "A arrives and begins, and computes its 9 prompt tokens",
        *lines[1:3],
    ]


def test_each_event_is_told_once_and_in_order(served):
    mode, frames, _, _ = served
    text = told(frames)
    order = [
        "A arrives and begins, and computes its 9 prompt tokens: takes blocks 0 to 2",
        "C arrives and begins, and computes 1 of its 7 prompt tokens: takes block 5",
        "C computes the last 6 of its 7 prompt tokens: takes block 6",
        "D arrives with a prompt of 10 tokens, and waits",
    ]
    order += {
        "recompute": [
            "C is preempted, and K and V of 8 tokens are dropped: blocks 5 and 6 are "
            "free",
            "A ends: blocks 0 to 2 and 6 are free",
            "C starts again, and computes 9 tokens, 8 of them again: takes blocks 0 "
            "to 2",
        ],
        "swap": [
            "C is preempted, and K and V of 8 tokens are moved to the CPU: blocks 5 "
            "and 6 are free",
            "C comes back from the CPU with 8 tokens: takes blocks 0 and 1",
            "C gets 1 token: takes block 2, because block 1 is full",
        ],
        "cached": [
            "C is preempted, and K and V of 8 tokens are dropped: blocks 5 and 6 are "
            "free, and can still be found",
            "every free block can still be found: block 6, unused for longest, is "
            "handed out, and what was there is forgotten",
            "C starts again, and computes 9 tokens, 8 of them again: takes blocks",
        ],
    }[mode]
    order += ["D begins, and computes its 10 prompt tokens: takes blocks", "C ends: "]
    places = [text.index(line) for line in order]
    assert places == sorted(places)
    assert all(text.count(line) == 1 for line in order)
    assert "A begins" not in text and "C begins" not in text


def test_the_words_of_the_present_step_stand_in_its_frame(served):
    _, frames, looking, _ = served
    for frame, step in zip(frames, looking.steps, strict=False):
        for line in frame.words:
            name = line[0]
            if re.match(r". (is preempted|arrives with)", line):
                away = [letter for letter, _ in step["swapped"]]
                assert name in step["waiting"] + away
            elif re.match(r". (arrives and|begins|starts|comes|computes|gets)", line):
                assert name in step["running"]
            elif " ends: " in line:
                assert name not in step["running"] + step["waiting"]


def test_the_widget_draws_the_lanes_and_keeps_their_place(served):
    mode, frames, _, _ = served
    widget = ReplayWidget(frames, Words())
    sizes = set()
    for number, frame in enumerate(frames):
        widget.slider.value = number
        page, lanes = Page(widget.stage.value), frame.snapshot.lanes
        cards = [one for one in page.all if "mp-card" in one.kinds]
        sizes.add((len(cards), sum("mp-box" in one.kinds for one in page.all)))
        shown = [one.attributes["data-card"] for one in cards if "mp-h" in one.kinds]
        line = (*lanes.waiting, *lanes.swapped, *lanes.running)
        assert shown == [card.names[0] for card in line]
        places = [one for one in page.with_attribute("data-place")]
        held = [t.block_ids for card in lanes.swapped for t in card.tables.values()]
        assert [int(one.text) for one in places] == [p for own in held for p in own]
        for place in places:
            assert place.title.startswith(f"place {place.text}: position")
            assert "mp-c2" in place.kinds  # C's colour
        texts = widget.answers.value
        for name in frame.growing:
            assert f'data-sequence="{name}"' in texts
        if lanes.waiting and lanes.waiting[0].num_lost:
            assert "K and V" in told(frames[: number + 1])
            assert "computed before, and lost" in widget.story.value
    assert len(sizes) == 1
    assert ("Swapped" in widget.stage.value) == (mode == "swap")


def test_a_table_of_a_preempted_one_is_not_said_to_have_ended(served):
    widget, frames = ReplayWidget(served[1], Words()), served[1]
    (number,) = (n for n, f in enumerate(frames) if "is preempted" in str(f.words))
    widget.slider.value = number
    assert "is preempted; its table is gone" in widget.stage.value
    assert "has ended" not in widget.stage.value


def test_an_engine_run_reads_as_a_story_where_no_widgets_run(served):
    mode, frames, _, _ = served
    text = ReplayWidget(frames, Words())._repr_mimebundle_()["text/plain"]
    lines = text.splitlines()
    assert max(map(len, lines)) <= 76
    text = " ".join(text.split())
    assert text.startswith("13 forwards, at most 8 of 8 blocks held (run the cell")
    away = "waiting: D; in the CPU's memory: C" if mode == "swap" else "waiting: C, D"
    assert f"forward 3 computes 2 tokens (running: A, B; {away}) C is preem" in text
    for line in told(frames).splitlines():
        is_told = not re.search("^[A-Z] gets|from now on$", line)
        assert (line in text) == is_told, line


def test_a_group_is_preempted_and_comes_back_together():
    """Beams and samples, among others; and nobody is forked by coming back."""
    for mode in ("recompute", "swap"):
        engine = make(20, preemption=mode)
        forks = []
        engine.paged.observers.append(Forks(forks))
        with record(engine) as frames:
            add_all(engine)
            check(engine.run())
        assert engine.stats.num_preemptions >= 3
        text = told(frames)
        back = "comes back from the CPU" if mode == "swap" else "starts again"
        names = re.findall(rf"^(\w+) {back}", text, re.M)
        lost = re.findall(r"^(\w+) is preempted", text, re.M)
        assert sorted(names) == sorted(lost) and len(lost) > 2 + len(set(lost)) // 2
        pairs = re.findall(r"(\d+) more holders? for", text)
        assert sum(map(int, pairs)) <= len(forks)
        groups = [
            card.names
            for frame in frames
            for card in (*frame.snapshot.lanes.waiting, *frame.snapshot.lanes.swapped)
            if card.num_restarts and len(card.names) > 1
        ]
        assert groups and all(group == tuple(sorted(group)) for group in groups)
        widget = ReplayWidget(frames, Words())
        for number in range(len(frames)):
            widget.slider.value = number
            shown = shown_blocks(widget.stage.value)
            holders = tuple(block.holders for block in shown.values())
            assert holders == frames[number].snapshot.refcounts


class Forks(mp.Observer):
    """Counts them."""

    def __init__(self, seen):
        self.seen = seen

    def forked(self, parent, child):
        self.seen.append(child)


def test_what_ran_before_the_recording_is_no_news():
    engine, _ = serve("recompute")
    for _ in range(3):
        engine.step()
    with record(engine) as frames:
        engine.run()
    text = told(frames)
    assert "arrives" not in text and "A begins" not in text
    assert text.splitlines()[0].startswith("C is preempted")
    assert [card.names for card in frames[0].snapshot.lanes.running] == [("A",), ("B",)]


def test_who_leaves_the_line_is_told():
    engine, looking = serve("recompute")
    with record(engine) as frames:
        for _ in range(4):
            engine.step()
        waiting = [s for s in engine.streams if looking.letter(s) in "CD"]
        for request in waiting:
            engine.abort(engine.streams[request])
        engine.run()
    text = told(frames)
    assert "C leaves, and waits no longer\nD leaves, and waits no longer" in text
    assert "C ends" not in text


def test_generate_after_an_engine_has_no_lanes():
    engine, _ = serve("recompute")
    with record(engine) as frames:
        engine.run()
        mp.generate(engine.paged, PROMPTS[2:3], CONFIGS[3])
    assert frames[0].snapshot.lanes is not None
    assert frames[-2].snapshot.lanes is None
    assert "E begins, with no block yet\nE gets 1 token: takes block 0" in told(
        frames[-4:]
    )


def test_the_lanes_of_many_requests_stay_small():
    paged = mp.PagedModel(tiny_model("qwen3"), num_blocks=8, block_size=4)
    engine = mp.Engine(paged, max_sequences=2)
    for number in range(30):
        engine.add([5 + number, 6], config(2))
    with record(engine) as frames:
        engine.run()
    widget = ReplayWidget(frames, Words())
    cards = [one for one in Page(widget.stage.value).all if "mp-card" in one.kinds]
    assert len(cards) == 8 + 2 and "and 21 requests" in widget.stage.value
    text = " ".join(tell_run(frames).split())
    assert "arrive, and wait" in text
    assert "C, D, E, F, G, H, I, J and 20 more" in text


def moments(scene):
    """The frames of a scene, each with the pool, and what was told in its step."""
    guide = Guide(Sandbox())
    guide.begin(scene)
    while True:
        turn = guide.sandbox.turns[-1]
        yield guide.frames[-1], guide.sandbox.board.snapshot(), "\n".join(turn.words)
        if guide.next_step is None:
            return
        guide.go_on()


def test_what_the_scenes_say_is_what_the_scheduler_does():
    _, full, ended, waited, back = moments("recompute")
    assert full[1].num_held == 8 and "C gets 1 token: takes block 7" in full[2]
    assert (
        "C is preempted, and K and V of 9 tokens are dropped: blocks 5 to 7 are"
        in (ended[2])
    )
    assert ended[1].num_held == 6 and waited[1].num_held == 8
    assert waited[2].count("A gets 1 token") == waited[2].count("B gets 1 token") == 4
    assert "C computes 10 tokens, 9 of them again" in back[2]
    assert "A ends: blocks 0 to 2 and 6 are free" in back[2]
    _, moved, _, back = moments("swap")
    assert moved[1].lanes.swapped[0].num_places == 3
    assert "C comes back from the CPU with 10 tokens: takes blocks 0 to 2" in back[2]
    assert [len(card.spans) for card in back[1].lanes.running] == [1, 1]


def test_free_blocks_while_c_waits_are_as_the_scene_says():
    board = ServedBoard(8, 4, Serving())
    free = []
    for move in (*COME, *[STEP] * 7):
        getattr(board, move[0])(*move[1:])
        free.append(board.pool.num_free)
    assert free[-5:] == [2, 1, 1, 1, 0]  # two at first, then one, then none


def test_nobody_moves_by_hand_what_a_scheduler_moves():
    board = ServedBoard(8, 4, Serving())
    for move in (("start", 3), ("append", "A", 1), ("fork", "A", 1), ("free", "A")):
        with pytest.raises(ValueError, match="by the scheduler alone"):
            getattr(board, move[0])(*move[1:])
