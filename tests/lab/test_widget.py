"""The widget shows what the pool is, after every click."""

import random
import re
import subprocess
import sys
from itertools import pairwise

import ipywidgets
import pytest

from helpers.shown_blocks import Page, shown_blocks, shown_pieces, shown_tables
from helpers.thorough import all_or
from minipaged.draw.palette import DARK, LIGHT, sequence_colour
from minipaged.lab.pool.guide import Frame, Verdict, rehearse
from minipaged.lab.pool.html import story
from minipaged.lab.pool.html.style import SEQUENCE_COLOURS, STYLE, rim_on
from minipaged.lab.pool.sandbox import Sandbox
from minipaged.lab.pool.scene_text import tell_scene
from minipaged.lab.pool.scenes import SCENES
from minipaged.lab.pool.snapshot import read_contents
from minipaged.lab.pool.widget import PoolWidget
from minipaged.lab.pool.words import name_slots, tell_twin


def check_shown(widget):
    """What the page says is what the live pool, its tables and its twin say."""
    board = widget.sandbox.board
    pool, size = board.pool, board.pool.block_size
    shown = shown_blocks(widget.stage.value)
    tables = {name: one.table for name, one in board.sequences.items()}
    assert list(shown) == list(range(pool.num_blocks))
    for block_id, block in shown.items():
        what = f"block {block_id}: {name_slots(block_id, size)}"
        owners = sorted(n for n, one in tables.items() if block_id in one.block_ids)
        assert block.holders == pool.refcount(block_id) == len(owners)
        assert ("mp-shared" in block.kinds) == (len(owners) > 1)
        assert ("mp-held" in block.kinds) == bool(owners)
        cached = pool.is_cached(block_id) and not owners
        assert ("mp-cached" in block.kinds) == cached
        if owners:
            table = tables[owners[0]]
            used = table.num_tokens - table.block_ids.index(block_id) * size
            used = max(0, min(size, used))
            assert block.filled == f"{100 * used / size:.4g}%"
            assert block.title.startswith(f"{what}; held by {owners[0]}")
            colour = SEQUENCE_COLOURS.index(sequence_colour(owners[0]))
            assert f"mp-c{colour}" in block.kinds
            full = [one.text for one in block.inside if "mp-full" in one.kinds]
            first = table.block_ids.index(block_id) * size
            assert full in ([], [str(first + at) for at in range(used)])
        else:
            assert block.title.startswith(f"{what}; free")
            assert block.filled == "0%"
    num_held = pool.num_blocks - pool.num_free
    assert f"<b>{num_held} <small>of {pool.num_blocks}</small></b>" in (
        widget.story.value
    )
    ids = {name: table.block_ids for name, table in tables.items()}
    shown = shown_tables(widget.stage.value)
    for name, entries in shown.items():
        if None not in entries:
            assert entries == ids[name]
    assert set(shown) == set(tables)
    check_rows(widget, tables)
    check_twin(widget)


def rows_in(widget):
    """The rows that are seen: those of sequences that have ended are hidden."""
    rows = widget.play.sequences.children
    return [row for row in rows if row.layout.display is None]


def check_rows(widget, tables):
    if widget.guide.next_step is not None or widget.guide.is_served:
        assert widget.play.layout.display == "none"
        return
    assert [row.name for row in rows_in(widget)] == list(tables)
    for row in rows_in(widget):
        table = tables[row.name]
        tokens, blocks = table.num_tokens, len(table.block_ids)
        length = f"{tokens:,} token{'s' * (tokens > 1)}, {blocks} block"
        assert row.label.value.count(length + "s" * (blocks > 1)) == 1
    assert widget.play.undo.disabled == (not widget.guide.is_by_hand)
    assert widget.play.redo.disabled == (not widget.sandbox.undone)


def check_twin(widget):
    """Contiguous memory, slot by slot: each belongs to one sequence, or is free."""
    twin = widget.sandbox.board.twin
    if twin is None:
        assert not widget.twin.value
        return
    state, owners = twin.look(), [""] * twin.look().num_slots
    sequences = widget.sandbox.board.sequences
    assert {n: one.num_tokens for n, one in state.residents.items()} == {
        name: len(one.tokens) for name, one in sequences.items()
    }
    for name, start, size in shown_pieces(widget.twin.value):
        if name:
            assert owners[start : start + size] == [""] * size
            owners[start : start + size] = [name] * size
    held = [(n, one.wanted) for n, one in state.residents.items() if one.piece]
    assert sorted(held) == sorted({(n, owners.count(n)) for n in owners if n})
    free = re.findall("0+", "".join("1" if name else "0" for name in owners))
    assert [len(run) for run in free] == [piece.size for piece in state.free_pieces]
    for one in list(state.waiting.values())[:1]:  # whoever is first fits nowhere
        assert max(map(len, free), default=0) < one.wanted
    assert ("does not fit" in widget.twin.value) == bool(state.waiting)


def random_click(rng, widget):
    """Press one of the buttons that are there, and now and then change a number."""
    play, head, lookup = widget.play, widget.head, widget.lookup
    if rng.random() < 0.3:
        many = widget.sandbox.board.pool.num_blocks * 5
        play.length.value = rng.randint(1, many)
        play.tokens.value, play.forks.value = rng.randint(1, 40), rng.randint(1, 4)
        play.shared.value, play.cached.value = rng.random() < 0.5, rng.random() < 0.7
        lookup.position.value = rng.randint(0, 70)
        lookup.name.value = rng.choice(lookup.name.options)
    if rng.random() < 0.02:
        head.scene.value = rng.choice([value for _, value in head.scene.options])
    buttons = [head.next] * 4 + [head.back] if widget.guide.name else []
    if widget.guide.next_step is None:
        buttons += [play.start, play.start, play.undo, play.undo, play.redo]
        for row in rows_in(widget):
            buttons += row.buttons.values()
    elif widget.guide.next_step.ask:
        widget.band.guess.value = rng.choice(["0", "4", "", "x"])
        buttons.append(widget.band.button)
    enabled = [button for button in buttons if not button.disabled]
    rng.choice(enabled).click()


def test_a_random_walk_of_500_clicks_and_all_of_it_undone():
    widget, rng = PoolWidget(), random.Random(0)
    num_refused = 0
    for _ in range(500):
        random_click(rng, widget)
        check_shown(widget)
        num_refused += bool(widget.play.wrong.value)
    assert 10 < num_refused < 250
    widget.head.scene.value = "beams"
    widget.head.scene.value = ""
    fresh = PoolWidget()
    assert shown_blocks(widget.stage.value) == shown_blocks(fresh.stage.value)
    assert widget.play.sequences.children == ()


@pytest.mark.parametrize(
    "scene, lesson", all_or([("holes", 2), ("prefix", 3), ("copy", 4)], [("copy", 4)])
)
def test_a_random_walk_through_a_lessons_scenes_and_beyond(scene, lesson):
    widget, rng = PoolWidget(scene=scene), random.Random(lesson)
    has_waited = set()
    for _ in range(200):
        random_click(rng, widget)
        check_shown(widget)
        if widget.sandbox.board.twin:
            has_waited.add(bool(widget.sandbox.board.twin.look().waiting))
    assert has_waited == ({True, False} if scene == "holes" else set())


def test_the_walk_would_notice_a_click_that_is_not_shown(monkeypatch):
    widget, rng = PoolWidget(), random.Random(0)
    monkeypatch.setattr(widget, "draw", lambda wrong="", is_still=False: None)
    with pytest.raises(AssertionError):
        for _ in range(20):
            random_click(rng, widget)
            check_shown(widget)


def test_the_walk_would_notice_a_twin_that_is_not_shown(monkeypatch):
    monkeypatch.setattr("minipaged.lab.pool.widget.twin", lambda *_: "does not fit")
    widget = PoolWidget(scene="holes")
    with pytest.raises(AssertionError):
        check_shown(widget)


def test_all_that_was_done_by_hand_is_undone_and_done_again():
    widget, rng = PoolWidget(), random.Random(5)
    for _ in range(30):
        buttons = [widget.play.start]
        for row in rows_in(widget):
            buttons += row.buttons.values()
        rng.choice(buttons).click()
    last, turns = widget.stage.value, len(widget.sandbox.turns)
    while not widget.play.undo.disabled:
        widget.play.undo.click()
        check_shown(widget)
    assert not widget.sandbox.turns and len(widget.sandbox.undone) == turns
    widget.play.undo.click()
    assert "there is nothing to undo" in widget.play.wrong.value
    while not widget.play.redo.disabled:
        widget.play.redo.click()
    assert shown_blocks(widget.stage.value) == shown_blocks(
        re.sub("mp-tip-[0-9]+", "", last)
    )


def press(widget, times):
    for _ in range(times):
        widget.head.next.click()


def test_the_scene_of_the_holes_by_clicks():
    widget = PoolWidget(scene="holes")
    press(widget, 3)
    check_shown(widget)
    assert "A</b> ends: blocks 0, 2 and 4 are free" in widget.said.value
    freed = [
        id_
        for id_, block in shown_blocks(widget.stage.value).items()
        if "mp-freed" in block.kinds
    ]
    assert freed == [0, 2, 4]
    assert "In which block will its position 9 lie?" in widget.band.question.value
    widget.band.guess.value = "2"
    widget.band.button.click()
    check_shown(widget)
    assert "You said block 2. It is block 4." in widget.band.text.value
    assert "2 is the entry" in widget.band.text.value
    assert shown_tables(widget.stage.value)["C"] == [0, 2, 4, 6]
    assert "<b>4</b> <small>block" in widget.lookup.answer.value
    terms = re.findall(r"<b[^>]*>(\d+)</b> <small>slot", widget.lookup.answer.value)
    assert terms == ["17"]
    said = "C does not fit. C reserves 24 slots in a row (13 now, the rest for its "
    said += "answer). 36 are free, but in pieces of 20 and 16: wherever C is tried, it "
    assert f"{said}runs into B." in widget.twin.value
    press(widget, 1)
    assert "In which slot will it lie?" in widget.band.question.value
    widget.band.guess.value = "28"
    widget.band.button.click()
    assert "✓ Right: slot 28." in widget.band.text.value
    assert widget.head.next.disabled and widget.play.layout.display is None


def test_what_changed_in_the_last_step_is_marked_and_nothing_else():
    widget = PoolWidget(scene="holes")
    press(widget, 4)
    shown = shown_blocks(widget.stage.value)
    changed = [id_ for id_, block in shown.items() if "mp-changed" in block.kinds]
    assert changed == [0, 2, 4, 6]
    assert [len(shown[id_].inside) for id_ in changed] == [len(shown[0].inside)] * 4
    poured = [one for one in shown[4].inside if "mp-in" in one.kinds]
    assert [one.text for one in poured] == ["8", "9", "10", "11"]
    before = widget.stage.value
    widget.lookup.position.value = 5  # a look is no step
    shown = shown_blocks(widget.stage.value)
    assert changed == [id_ for id_, b in shown.items() if "mp-changed" in b.kinds]
    assert "mp-still" in widget.stage.value and "mp-still" not in before


def test_entries_blocks_and_lines_are_linked():
    widget = PoolWidget(scene="holes")
    press(widget, 4)
    page = Page(widget.stage.value)
    entries = [one for one in page.all if "mp-entry" in one.kinds]
    assert all(one.attributes["tabindex"] == "0" for one in entries)
    linked = [one.attributes["data-b"] for one in entries]
    lines = [one for one in page.all if "mp-line" in one.kinds]
    assert sorted(one.attributes["data-b"] for one in lines) == sorted(linked * 2)
    for block in range(64):
        link = f":has(.mp-k{block}:is(:hover,:focus-visible)) .mp-k{block}"
        assert f"{link}," in STYLE
    for one in (*entries, *lines):
        assert f"mp-k{one.attributes['data-b']}" in one.kinds
    letters = {one.text for one in page.all if "mp-handle" in one.kinds}
    assert letters == {"B", "C"}


def test_the_beam_scene_by_clicks():
    widget = PoolWidget(scene="beams")
    press(widget, 1)
    assert "How many blocks are held then" in widget.band.question.value
    widget.band.guess.value = "12"
    widget.band.button.click()
    check_shown(widget)
    assert "You said 12. It is 8." in widget.band.text.value
    assert widget.band.asking.layout.display == "none"
    holders = [block.holders for block in shown_blocks(widget.stage.value).values()]
    assert holders[:9] == [4, 4, 4, 4, 1, 1, 1, 1, 0]
    assert "<b>8 <small>of 64</small></b>" in widget.story.value
    assert "<b>20</b> <span>if nothing were shared" in widget.story.value
    assert "<b>24 <small>19 %</small></b>" in widget.story.value
    widget.head.back.click()
    assert "How many blocks are held then" in widget.band.question.value


def test_a_guess_of_zero_is_a_guess_and_an_empty_one_is_none():
    widget = PoolWidget(scene="prefix")
    press(widget, 1)
    for nothing in ("", "three"):
        widget.band.guess.value = nothing
        widget.band.button.click()
        assert len(widget.guide.frames) == 2 and widget.band.guess.value == ""
        assert "A number, please." in widget.band.question.value
    widget.band.guess.value = "0"
    widget.band.button.click()
    assert "please" not in widget.band.question.value
    assert "You said 0. It is 3." in widget.band.text.value
    widget.head.back.click()
    widget.head.next.click()  # skipped
    assert '<b class="mp-verdict">It is 3.' in widget.band.text.value


def test_the_enter_key_is_a_guess():
    widget = PoolWidget(scene="prefix")
    press(widget, 1)
    widget.band.guess.value = "3"
    widget.band.guess._handle_custom_msg({"event": "submit"}, [])
    assert "✓ Right: 3." in widget.band.text.value


def test_undo_stops_at_the_end_of_the_scene_and_back_brings_there():
    widget = PoolWidget(scene="holes")
    press(widget, 6)
    end = widget.stage.value
    for _ in range(3):
        widget.play.start.click()
    assert "D</b> <span>begins with 8 tokens" in widget.story.value
    assert widget.band.text.value.startswith(
        '<div class="mp-stack mp-band"><div><span class="mp-quiet">The scene is over'
    )
    for _ in range(5):
        widget.play.undo.click()
        check_shown(widget)
    assert len(widget.guide.frames) == 7 and widget.play.undo.disabled
    assert shown_blocks(widget.stage.value) == shown_blocks(end)
    for _ in range(3):
        widget.play.redo.click()
    widget.head.back.click()  # first to the end of the scene
    assert len(widget.guide.frames) == 7 == len(widget.sandbox.turns)
    widget.play.redo.click()
    assert len(widget.sandbox.turns) == 8
    widget.head.back.click()
    widget.head.back.click()
    assert len(widget.guide.frames) == 6 and widget.play.layout.display == "none"
    for _ in range(9):
        widget.head.back.click()
    assert len(widget.guide.frames) == 1 and widget.head.back.disabled
    check_shown(widget)


CONTROLS = {
    "holes": ("append", "free"),
    "full": ("append", "free"),
    "prefix": ("append", "free"),
    "eviction": ("append", "free"),
    "beams": ("append", "fork", "write", "free"),
    "copy": ("append", "fork", "write", "free"),
}


@pytest.mark.parametrize("scene", SCENES)
def test_only_the_lessons_own_controls(scene):
    widget, lesson = PoolWidget(scene=scene), SCENES[scene].lesson
    press(widget, 9)
    for row in widget.play.sequences.children:
        assert tuple(row.buttons) == CONTROLS[scene]
    play = widget.play
    has_cache = [part.layout.display is None for part in (play.shared, play.cached)]
    assert has_cache == [lesson == 3] * 2
    assert (play.forks.layout.display is None) == (lesson >= 4)
    assert play.cached.value == (lesson == 3)
    offered = [name for _, name in widget.head.scene.options]
    same = [name for name, one in SCENES.items() if one.lesson == lesson]
    assert offered == [*same, ""]
    has_shared = lesson >= 4 and SCENES[scene].serving is None
    assert ("shared" in widget.story.value) == has_shared
    assert ("can still be found" in widget.story.value) == (lesson == 3)


def test_without_a_scene_there_is_everything_unless_a_lesson_is_named():
    everything = PoolWidget()
    assert everything.play.actions == CONTROLS["beams"] and everything.play.cached.value
    assert len(everything.head.scene.options) == len(SCENES) + 1
    assert PoolWidget(lesson=2).play.actions == ("append", "free")


@pytest.mark.parametrize("size", [(8, 4), (10, 4), (16, 4), (64, 16), (1, 1)])
def test_what_is_proposed_fits_the_pool(size):
    widget = PoolWidget(*size)
    assert widget.play.length.value <= size[0] * size[1]
    widget.play.start.click()
    assert not widget.play.wrong.value
    if size == (64, 16):
        assert widget.play.length.value == 64
    for scene in SCENES:
        widget.head.scene.value = scene
        press(widget, 9)
        slots = SCENES[scene].num_blocks * SCENES[scene].block_size
        assert widget.play.length.value <= slots // 4


def test_running_out_is_shown_and_loses_nothing():
    widget = PoolWidget()
    widget.play.length.value = 1000
    widget.play.start.click()
    before = shown_blocks(widget.stage.value)
    widget.play.start.click()
    assert shown_blocks(widget.stage.value) == before
    assert "wanted 63 blocks, 1 free of 64" in widget.play.wrong.value
    assert 'role="alert"' in widget.play.wrong.value
    row = widget.play.sequences.children[0]
    row.buttons["append"].click()  # ten tokens: the last one needs the last block
    row.buttons["append"].click()
    assert not widget.play.wrong.value
    check_shown(widget)
    widget.play.undo.click()
    widget.play.forks.value = 26
    row.buttons["fork"].click()
    assert "at most 26 sequences" in widget.play.wrong.value
    check_shown(widget)


def test_a_position_is_translated_and_pointed_at():
    widget = PoolWidget()
    widget.play.start.click()
    widget.lookup.position.value = 37
    answer = re.sub("<[^>]*>", "", widget.lookup.answer.value)
    assert "37 position = 2 entry × 16 + 5 offset" in answer
    assert "2 entry → 2 block" in answer and "2 block × 16 + 5 offset = 37 slot" in (
        answer
    )
    shown = shown_blocks(widget.stage.value)
    assert [id_ for id_, one in shown.items() if "mp-here" in one.kinds] == [2]
    lines = [one for one in Page(widget.stage.value).all if "mp-line" in one.kinds]
    here = {one.attributes["data-b"] for one in lines if "mp-here" in one.kinds}
    assert here == {"2"}
    widget.lookup.position.value = 64
    assert "A has the positions 0 to 63." in widget.lookup.answer.value
    widget.play.sequences.children[0].buttons["free"].click()
    assert "There is no sequence." in widget.lookup.answer.value
    assert "mp-here" not in widget.stage.value


def test_a_cached_block_shows_its_hash():
    widget = PoolWidget()
    widget.play.length.value = 16
    widget.play.start.click()
    content = widget.sandbox.board.prefix_cache.content(0)
    widget.play.sequences.children[0].buttons["free"].click()
    shown = shown_blocks(widget.stage.value)[0]
    assert f"{content.chain_hash:016x}"[:4] in shown.text
    assert shown.kinds >= {"mp-cached"} and "can still be found" in shown.title


def test_256_blocks_have_their_numbers_and_more_are_drawn_without():
    for num_blocks in (65, 256, 1024):
        widget = PoolWidget(num_blocks=num_blocks)
        widget.play.length.value = num_blocks * 16 * 3 // 4
        widget.play.start.click()
        assert "mp-compact" in widget.stage.value and "<svg" not in widget.stage.value
        shown = shown_blocks(widget.stage.value)
        texts = [block.text for block in shown.values()]
        numbers = list(map(str, shown)) if num_blocks <= 256 else [""] * num_blocks
        assert texts == numbers
        held = sum(block.holders for block in shown.values())
        assert held == -(-(num_blocks * 16 * 3 // 4) // 16)
        widget.play.sequences.children[0].buttons["free"].click()
        shown = shown_blocks(widget.stage.value).values()
        full = num_blocks * 16 * 3 // 4 // 16
        assert sum("mp-cached" in block.kinds for block in shown) == full
    assert "mp-compact" not in PoolWidget(num_blocks=64).stage.value


def test_a_stage_that_would_be_too_high_is_drawn_compact():
    widget = PoolWidget()
    widget.play.forks.value = 12
    widget.play.start.click()
    assert "mp-compact" not in widget.stage.value
    widget.play.rows["A"].buttons["fork"].click()
    assert "mp-compact" in widget.stage.value
    check_shown(widget)


def test_the_latest_turn_is_told_first_and_each_in_its_order():
    widget = PoolWidget(scene="copy")
    press(widget, 2)
    log, _, _ = widget.story.value.partition('<div class="mp-figures">')
    lines = re.findall(r"<li.*?</b> <span>(.*?)</span>", log)
    assert [line[-8:] for line in lines[:3]] == ["A writes", "B writes", "C writes"]
    last = re.findall(r"<li[^>]*>(.*?)</li>", log)[-1]
    assert (
        re.sub("<[^>]*>", "", last)
        == "A begins with 6 tokens: takes blocks 0 and 1 step 1"
    )


def test_nothing_that_is_shown_moves_when_the_text_changes():
    """Each place holds, unseen, all texts that the scene will ever show there."""
    for name, scene in SCENES.items():
        widget = PoolWidget(scene=name)
        for _ in scene.steps:
            for part in (widget.said, widget.band.text):
                for frame in rehearse(name):
                    bare = re.sub("<[^>]*>", "", part.value)
                    assert frame.sub.split("'")[0] in bare or part is widget.band.text
            for step in scene.steps:
                if step.ask:
                    asked = step.ask.question.split("'")[0]
                    assert asked in widget.band.text.value
            widget.head.next.click()


@pytest.mark.parametrize("name", SCENES)
def test_no_two_questions_follow_each_other(name):
    """Else a verdict and a question would want one place."""
    steps = SCENES[name].steps
    assert steps[0].ask is None
    for one, other in pairwise(steps):
        assert not (one.ask and other.ask)


def test_a_guess_is_not_kept_for_the_next_question():
    widget = PoolWidget(scene="eviction")
    press(widget, 2)
    widget.band.guess.value = "4"
    widget.band.button.click()
    assert "You said block 4. It is block 3." in widget.band.text.value
    press(widget, 1)
    assert widget.band.guess.value == "" and "does D find" in (
        widget.band.question.value
    )


def test_a_picture_can_be_saved_and_goes_when_the_pool_changes():
    widget = PoolWidget(scene="beams")
    press(widget, 4)
    widget.play.picture.click()
    link = widget.play.saved.value
    assert 'download="block-pool.png"' in link
    assert "data:image/png;base64,iVBORw0KGgo" in link
    widget.play.start.click()
    assert not widget.play.saved.value


def test_without_a_prefix_cache_nothing_is_found():
    widget = PoolWidget(prefix_cache=False)
    widget.play.start.click()
    widget.play.sequences.children[0].buttons["free"].click()
    assert "mp-cached" not in widget.stage.value and "found" not in widget.said.value


def test_why_a_full_block_of_a_shared_prompt_is_not_found_is_told():
    """With 8 tokens in blocks of 4: the second block has the last token."""
    widget = PoolWidget(16, 4)
    play = widget.play
    assert play.about.layout.display == "none"
    play.shared.value = True
    assert play.about.layout.display is None and "last token" in play.about.value
    play.start.click()
    play.start.click()
    assert "block 0 found in the cache; takes block 2" in widget.said.value
    play.shared.value = False
    assert play.about.layout.display == "none"


def test_an_unknown_scene_is_refused():
    with pytest.raises(ValueError, match="choose from"):
        PoolWidget(scene="beam")


def every_control(widget):
    yield widget
    for child in getattr(widget, "children", ()):
        yield from every_control(child)


def test_every_control_is_a_core_widget_with_a_name_of_its_own():
    """The name is what a screen reader says."""
    widget = PoolWidget(scene="beams")
    press(widget, 4)
    controls = list(every_control(widget))
    assert {one._model_module for one in controls} <= {
        "@jupyter-widgets/controls",
        "@jupyter-widgets/base",
    }
    named = [one for one in controls if hasattr(one, "description")]
    named = [one for one in named if not isinstance(one, ipywidgets.HTML)]
    names = [one.description or one.tooltip for one in named]
    assert all(names) and len(names) == len(set(names)) > 20


@pytest.mark.parametrize("name", SCENES)
def test_the_text_for_pages_without_widgets_fits_into_their_width(name):
    text = PoolWidget(scene=name)._repr_mimebundle_()["text/plain"]
    assert text == tell_scene(name)
    assert all(len(line) <= 76 for line in text.splitlines())
    assert " ".join(text.split()).startswith(SCENES[name].title)


@pytest.mark.parametrize("name", SCENES)
def test_the_text_asks_first_and_answers_at_its_end(name):
    story, answers = tell_scene(name).split("\n\nAnswers\n")
    story, answers = " ".join(story.split()), " ".join(answers.split())
    steps, frames = SCENES[name].steps, rehearse(name)
    for number, (step, frame) in enumerate(zip(steps, frames, strict=True), start=1):
        big = re.sub("[{}]", "", frame.big)
        if step.ask:
            assert f" {number}. {step.ask.question}" in story
            assert big not in story and big in answers
            told = frame.verdict.head.split(". ", 1)[1].removesuffix(".")
            assert f"{number}. {told}" in answers and frame.verdict.why in answers
        else:
            assert f" {number}. {big}." in story


@pytest.mark.parametrize("name", SCENES)
def test_each_sign_in_the_text_is_explained(name):
    head, *rest = tell_scene(name).split("\n\n")
    rows = [line for line in "\n".join(rest).splitlines() if line.startswith(" " * 8)]
    signs = set("".join(rows)) - set(" .]")
    signs = {"A" if one.isalpha() else "4" if one.isdigit() else one for one in signs}
    meant = {"A": "A is held by A", "4": "4 has four", "[": "[ ] has changed"}
    meant |= {"·": "· is free", "○": "○ is free and"}
    head = " ".join(head.split())
    assert {sign for sign, words in meant.items() if words in head} == signs


def test_the_text_shows_the_pool_as_it_is_at_each_step():
    rows = re.findall(r"^ {9}(.*)$", tell_scene("holes"), re.MULTILINE)
    rows = [re.sub(r"[ \[\]]", "", row)[:8] for row in rows]
    assert rows == [
        "AB······",
        "ABAB····",
        "ABABAB··",
        "·B·B·B··",
        "CBCBCBC·",
        "CBCBCBCB",
    ]
    assert "[4][4][4][4]" in tell_scene("beams") and "[○][○]" in tell_scene("prefix")


def test_the_text_tells_where_contiguous_memory_fails():
    text = " ".join(tell_scene("holes").split())
    assert (
        "position 9 lie? In contiguous memory: C does not fit. C reserves 24 slots in "
        "a row (13 now, the rest for its answer). 36 are free, but in pieces of 20 and "
        "16: wherever C is tried, it runs into B. 6. B gets 2 tokens"
    ) in text
    assert text.count("contiguous") == 1
    assert "It is block 4: slots 16–19." in text
    plain = PoolWidget(num_blocks=5)._repr_mimebundle_()["text/plain"]
    assert plain == "BlockPool(5 free of 5 blocks, 16 tokens each)"


def test_words_of_the_page_are_escaped():
    nasty = "<script>"
    made = [
        story.log([[nasty, f"refused{nasty}"]]),
        story.say(Frame(nasty, nasty)),
        story.band(story.quiet(nasty), [], [(nasty, nasty)]),
        story.verdict(Verdict(False, nasty, nasty)),
        story.coming(nasty),
        story.refusal(nasty),
        story.written({"A": nasty, nasty: ""}, Sandbox(2, 2).board.snapshot()),
    ]
    assert not any(nasty in one for one in made)


def test_the_widget_needs_no_torch():
    code = (
        "import sys; from minipaged.lab import PoolWidget; w = PoolWidget();"
        "w.play.start.click(); w.play.rows['A'].buttons['fork'].click();"
        "print({'torch', 'transformers', 'matplotlib'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"


def test_colours_are_those_of_the_pictures():
    for index, colour in enumerate(SEQUENCE_COLOURS):
        assert re.search(rf"\.mp-c{index}{{--c:{colour};--i:#", STYLE)
    for name in ("ground", "ink", "quiet", "free"):
        both = f"light-dark({getattr(LIGHT, name)},{getattr(DARK, name)})"
        assert re.findall(rf"--{name}: *([^;]+);", STYLE) == [both]
    assert rim_on("#0072B2", "#FFFFFF") == "#0072B2"  # it is dark enough
    assert rim_on("#F0E442", "#FFFFFF") != "#F0E442" == rim_on("#F0E442", "#14181D")


@pytest.mark.parametrize("name", SCENES)
def test_every_scene_can_be_clicked_through(name):
    widget = PoolWidget()
    widget.head.scene.value = name
    while widget.guide.next_step is not None:
        refused = widget.guide.next_step.fails
        widget.head.next.click()
        check_shown(widget)
        latest, *_ = widget.story.value.split("</li>")
        assert ("mp-wrong" in latest) == refused
    assert SCENES[name].steps[-1].sub.split("'")[0] in widget.said.value


def test_a_snapshot_is_read_as_the_pool_it_was_taken_of():
    sandbox = Sandbox(6, 4)
    sandbox.play(("start", 6), ("fork", "A", 1))
    now = sandbox.board.snapshot()
    tables = {name: one.table for name, one in sandbox.board.sequences.items()}
    live = read_contents(sandbox.board.pool, tables, {})
    assert read_contents(now, now.tables, {}) == live
    assert live.owners[0] == ["A", "B"]
    sandbox.play(("append", "A", 1))
    assert read_contents(now, now.tables, {}) == live  # it stays as it was


def test_the_middle_of_a_long_table_is_left_out_but_not_what_is_pointed_at():
    widget = PoolWidget(num_blocks=128, block_size=4)
    widget.play.length.value = 400
    widget.play.start.click()
    widget.lookup.position.value = 4 * 50 + 1
    entries = shown_tables(widget.stage.value)["A"]
    assert entries == [*range(8), None, 50, None, *range(92, 100)]
    here = [one for one in Page(widget.stage.value).all if "mp-here" in one.kinds]
    assert ["mp-k50" in one.kinds for one in here] == [True, True]


def test_contiguous_memory_in_words():
    sandbox = Sandbox()
    sandbox.reset(16, 4, SCENES["holes"].reservations)
    states = [sandbox.board.snapshot().twin]
    for move in (
        ("start", 3),
        ("start", 30),
        ("append", "A", 20),
        ("free", "A"),
        ("start", 30),
        ("free", "B"),
    ):
        sandbox.play(move)
        states.append(sandbox.board.snapshot().twin)
    words = [tell_twin(*pair) for pair in zip(states, [None, *states], strict=False)]
    assert words == [
        "All 64 slots are free.",
        "Each reserves, in one piece, all that it may ever need. 17 slots are "
        "reserved and empty.",
        "Each reserves, in one piece, all that it may ever need. 17 slots are "
        "reserved and empty.",
        "A has filled its 20 slots: no place for 3 tokens.",
        "A's whole reservation is free: 34 slots in all, in pieces of 20 and 14.",
        "C does not fit. C reserves 30 slots in a row. 34 are free, but in pieces of "
        "20 and 14: wherever C is tried, it runs into B.",
        "B's whole reservation is free: 34 slots in all.",
    ]
    assert states[-1].residents["C"].piece.start == 0  # who waited is placed
