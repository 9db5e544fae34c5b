"""The widget shows what the pool is, after every click."""

import random
import re
import subprocess
import sys

import ipywidgets
import pytest

from helpers.shown_blocks import shown_blocks
from minipaged.lab.plots.palette import sequence_colour
from minipaged.lab.pool import html as pool_html
from minipaged.lab.pool.sandbox import Sandbox
from minipaged.lab.pool.scenes import SCENES
from minipaged.lab.pool.widget import PoolWidget


def check_shown(widget):
    """What the page says is what the live pool and its tables say."""
    board = widget.sandbox.board
    shown = shown_blocks(widget.grid.value)
    tables = {name: one.table for name, one in board.sequences.items()}
    assert list(shown) == list(range(board.pool.num_blocks))
    for block_id, block in shown.items():
        owners = [n for n, table in tables.items() if block_id in table.block_ids]
        assert block.holders == board.pool.refcount(block_id) == len(owners)
        assert ("mp-shared" in block.kinds) == (len(owners) > 1)
        cached = board.pool.is_cached(block_id) and not owners
        assert ("mp-cached" in block.kinds) == cached
        if owners:
            table = tables[owners[0]]
            used = table.num_tokens - table.block_ids.index(block_id) * 16
            used = max(0, min(16, used))
            assert block.filled == f"{100 * used / 16:.4g}%"
            assert block.title.startswith(f"block {block_id}: held by {owners[0]}")
            assert f"×{len(owners)}" in block.text or len(owners) == 1
            colour = pool_html.SEQUENCE_COLOURS.index(sequence_colour(owners[0]))
            assert f"mp-c{colour}" in block.kinds
        else:
            assert block.title.startswith(f"block {block_id}: free")
            assert block.filled == "0%"
    num_held = board.pool.num_blocks - board.pool.num_free
    assert f"<b>{num_held} of 64</b> blocks held" in widget.figures.value
    rows = [row.name for row in widget.sequences.children]
    assert rows == list(tables)
    for row in widget.sequences.children:
        table = tables[row.name]
        tokens, blocks = table.num_tokens, len(table.block_ids)
        length = f"{tokens} token{'s' * (tokens > 1)}, {blocks} block"
        assert row.label.value.count(length + "s" * (blocks > 1)) == 1
    for name, table in tables.items():
        cells = "".join(f"<td>{block_id}</td>" for block_id in table.block_ids)
        assert f">{name}</th>" in widget.pages.tables.value
        assert cells in widget.pages.tables.value


def random_click(rng, widget):
    """Press one of the buttons that are there, and now and then change a number."""
    tools = widget.tools
    if rng.random() < 0.3:
        tools.length.value = rng.randint(1, 300)
        tools.tokens.value, tools.forks.value = rng.randint(1, 40), rng.randint(1, 4)
        tools.shared.value, tools.cached.value = rng.random() < 0.5, rng.random() < 0.7
    buttons = [tools.start, tools.start, tools.undo]
    for row in widget.sequences.children:
        buttons += [row.append, row.fork, row.write, row.free]
    rng.choice(buttons).click()


def test_a_random_walk_of_1000_clicks_and_all_of_it_undone():
    widget, rng = PoolWidget(), random.Random(0)
    num_refused = 0
    for _ in range(1000):
        random_click(rng, widget)
        check_shown(widget)
        num_refused += "mp-wrong" in widget.story.value
    assert 10 < num_refused < 500
    while widget.sandbox.turns:
        widget.tools.undo.click()
    check_shown(widget)
    fresh = PoolWidget()
    assert widget.grid.value == fresh.grid.value
    assert widget.sequences.children == ()
    widget.tools.undo.click()
    assert "there is nothing to undo" in widget.story.value


def test_the_walk_would_notice_a_click_that_is_not_shown(monkeypatch):
    widget, rng = PoolWidget(), random.Random(0)
    monkeypatch.setattr(widget, "draw", lambda wrong="": None)
    with pytest.raises(AssertionError):
        for _ in range(20):
            random_click(rng, widget)
            check_shown(widget)


def test_the_beam_scene_by_clicks():
    widget = PoolWidget(scene="beams")
    guide = widget.guide
    guide.next.click()
    guide.next.click()
    assert guide.guess in guide.choices.children
    assert "How many blocks will be held in all?" in guide.text.value
    guide.guess.value = 12
    guide.next.click()
    check_shown(widget)
    assert "It is 8; you said 12." in guide.text.value
    assert guide.choices.children == ()
    holders = [block.holders for block in shown_blocks(widget.grid.value).values()]
    assert holders[:9] == [4, 4, 4, 4, 1, 1, 1, 1, 0]
    assert "<b>8 of 64</b>" in widget.figures.value
    assert "<b>20</b> blocks if nothing were shared" in widget.figures.value
    assert "<b>64</b> blocks if each reserved 256 tokens" in widget.figures.value
    assert "<b>24 (19 %)</b> slots held but empty" in widget.figures.value
    widget.tools.undo.click()
    assert "How many blocks will be held in all?" in guide.text.value


def test_running_out_is_shown_and_loses_nothing():
    widget = PoolWidget()
    widget.tools.length.value = 1000
    widget.tools.start.click()
    before = widget.grid.value
    widget.tools.start.click()
    assert widget.grid.value == before
    assert "wanted 63 blocks, 1 free of 64" in widget.story.value
    assert "mp-wrong" in widget.story.value
    row = widget.sequences.children[0]
    row.append.click()  # ten tokens: the last one needs the last block
    row.append.click()
    assert "mp-wrong" not in widget.story.value
    check_shown(widget)
    widget.tools.undo.click()
    widget.tools.forks.value = 26
    row.fork.click()
    assert "at most 26 sequences" in widget.story.value
    check_shown(widget)


def test_a_position_is_translated_and_pointed_at():
    widget = PoolWidget()
    widget.tools.start.click()
    assert "mp-here" not in widget.grid.value
    widget.pages.name.value = "A"
    widget.pages.position.value = 37
    assert "37 = 2 × 16 + 5: entry 2 of its table is block 2" in (
        widget.pages.answer.value
    )
    assert "slot 37" in widget.pages.answer.value
    shown = shown_blocks(widget.grid.value)
    assert [id_ for id_, one in shown.items() if "mp-here" in one.kinds] == [2]
    assert '<td class="mp-here">2</td>' in widget.pages.tables.value
    widget.pages.position.value = 64
    assert "append() first to have more" in widget.pages.answer.value
    widget.sequences.children[0].free.click()
    assert widget.pages.name.value == "–" and not widget.pages.answer.value
    assert "mp-here" not in widget.grid.value


def test_a_cached_block_shows_its_hash():
    widget = PoolWidget()
    widget.tools.length.value = 16
    widget.tools.start.click()
    content = widget.sandbox.board.prefix_cache.content(0)
    widget.sequences.children[0].free.click()
    shown = shown_blocks(widget.grid.value)[0]
    assert f"{content.chain_hash:016x}"[:4] in shown.text
    assert shown.kinds >= {"mp-cached"} and "can still be found" in shown.title


def test_clear_and_undo():
    widget = PoolWidget(scene="full")
    widget.tools.clear.click()
    assert len(shown_blocks(widget.grid.value)) == 64
    widget.tools.undo.click()
    assert len(shown_blocks(widget.grid.value)) == 8


def test_a_large_pool_is_drawn_without_writing():
    widget = PoolWidget(num_blocks=1024)
    widget.tools.length.value = 5000
    widget.tools.start.click()
    shown = shown_blocks(widget.grid.value)
    assert len(shown) == 1024 and not any(block.text for block in shown.values())
    assert sum(block.holders for block in shown.values()) == 313
    assert "<b>313</b> blocks if each reserved 5000 tokens" in widget.figures.value
    widget.sequences.children[0].free.click()
    shown = shown_blocks(widget.grid.value).values()
    assert sum("mp-cached" in block.kinds for block in shown) == 312


def test_what_a_contiguous_cache_would_reserve():
    widget = PoolWidget(num_blocks=8, block_size=4)
    widget.tools.length.value = 9
    widget.tools.start.click()
    assert "<b>3</b> blocks if each reserved 9 tokens" in widget.figures.value
    widget.sequences.children[0].free.click()
    widget.tools.length.value = 1
    for _ in range(2):
        widget.tools.start.click()
    assert "<b>4</b> blocks if each reserved 8 tokens" in widget.figures.value


def test_the_latest_turn_is_told_first_and_each_in_its_order():
    widget = PoolWidget(scene="copy")
    for _ in range(3):
        widget.guide.next.click()
    lines = re.findall(r"<p>(.*?)</p>", widget.story.value)
    assert [line[-8:] for line in lines[:3]] == ["A writes", "B writes", "C writes"]
    assert lines[-1] == "an empty pool of 16 blocks of 4 tokens"


def test_a_guess_is_not_kept_for_the_next_question():
    widget = PoolWidget(scene="copy")
    for _ in range(2):
        widget.guide.next.click()
    widget.guide.guess.value = 4
    widget.guide.next.click()
    assert "It is 3; you said 4." in widget.guide.text.value
    assert widget.guide.guess.value == 0


def test_to_clear_ends_the_scene():
    widget = PoolWidget(scene="copy")
    widget.tools.clear.click()
    assert widget.guide.choices.children == () and not widget.guide.text.value
    widget.tools.undo.click()
    assert "A prompt of 6 tokens comes." in widget.guide.text.value


def test_a_picture_goes_when_the_pool_changes():
    widget = PoolWidget(num_blocks=4)
    widget.tools.picture.click()
    assert widget.tools.saved.value
    widget.tools.start.click()
    assert not widget.tools.saved.value


def test_without_a_prefix_cache_nothing_is_found():
    widget = PoolWidget(prefix_cache=False)
    widget.tools.start.click()
    widget.sequences.children[0].free.click()
    assert "found" not in widget.story.value and "mp-cached" not in widget.grid.value


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
    for _ in range(2):
        widget.guide.next.click()
    controls = list(every_control(widget))
    assert {one._model_module for one in controls} <= {
        "@jupyter-widgets/controls",
        "@jupyter-widgets/base",
    }
    named = [one for one in controls if hasattr(one, "description")]
    names = [one.description for one in named if not isinstance(one, ipywidgets.HTML)]
    assert all(names) and len(names) == len(set(names)) > 20


def test_the_text_for_pages_without_widgets():
    text = PoolWidget(scene="beams")._repr_mimebundle_()["text/plain"]
    assert "takes block 7, for block 3 is full" in text and "It is 8." in text
    plain = PoolWidget(num_blocks=5)._repr_mimebundle_()["text/plain"]
    assert plain == "BlockPool(5 free of 5 blocks, 16 tokens each)"


def test_a_picture_can_be_saved():
    widget = PoolWidget(scene="beams")
    for _ in range(3):
        widget.guide.next.click()
    widget.tools.picture.click()
    link = widget.tools.saved.value
    assert 'download="block-pool.png"' in link
    assert "data:image/png;base64,iVBORw0KGgo" in link


def test_words_of_the_page_are_escaped():
    assert "<script>" not in pool_html.events(["<script>", "refused<script>"])
    nasty = ["<script>"] * 3
    assert "<script>" not in pool_html.prose(nasty[0], head=nasty[1], bold=nasty[2])


def test_the_widget_needs_no_torch():
    code = (
        "import sys; from minipaged.lab import PoolWidget; w = PoolWidget();"
        "w.tools.start.click(); w.sequences.children[0].fork.click();"
        "print({'torch', 'transformers', 'matplotlib'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"


def test_colours_are_those_of_the_pictures():
    for index, colour in enumerate(pool_html.SEQUENCE_COLOURS):
        assert re.search(rf"\.mp-c{index}{{--c:{colour};--i:#", pool_html.STYLE)


@pytest.mark.parametrize("name", SCENES)
def test_every_scene_can_be_clicked_through(name):
    widget = PoolWidget()
    widget.guide.scene.value = name
    widget.guide.begin.click()
    while widget.guide.choices.children:
        refused = widget.sandbox.mark.next_step.fails
        widget.guide.next.click()
        latest, *_ = widget.story.value.split("</p>")
        assert ("mp-wrong" in latest) == refused
    assert SCENES[name].end.split(".")[0].split(",")[0] in widget.guide.text.value


def test_a_snapshot_is_drawn_as_the_pool_it_was_taken_of(capsys):
    from minipaged.lab.plots.pool import print_pool

    sandbox = Sandbox(6, 4)
    sandbox.play(("start", 6, False, False), ("fork", "A", 1))
    now = sandbox.board.snapshot()
    print_pool(now, now.tables)
    kept = capsys.readouterr().out.replace("(0, 1)", "[0, 1]")
    tables = {name: one.table for name, one in sandbox.board.sequences.items()}
    print_pool(sandbox.board.pool, tables)
    assert kept == capsys.readouterr().out


def test_the_middle_of_a_long_table_is_left_out_but_not_what_is_pointed_at():
    widget = PoolWidget(num_blocks=128, block_size=4)
    widget.tools.length.value = 400
    widget.tools.start.click()
    widget.pages.name.value = "A"
    widget.pages.position.value = 4 * 50 + 1
    entries = re.findall(r'<th scope="col">(\d+)</th>', widget.pages.tables.value)
    assert entries == [*map(str, range(8)), "50", *map(str, range(92, 100))]
    assert widget.pages.tables.value.count("<td>…</td>") == 2
    assert '<td class="mp-here">50</td>' in widget.pages.tables.value
