"""The pictures: they show the live state, and can be read by everybody."""

from base64 import b64decode
from io import BytesIO
from itertools import combinations, pairwise

import matplotlib.pyplot as plt
import pytest

import minipaged as mp
from helpers.readable import readable_in_all_themes
from minipaged.draw import palette, tones
from minipaged.draw.marks import Words
from minipaged.draw.tones import FOUND, free, kind_of_slot, others, soft, strong
from minipaged.lab.plots.charts import plot_histogram, plot_lines, plot_waste
from minipaged.lab.plots.contiguous import plot_memory_over_time
from minipaged.lab.plots.display import encode
from minipaged.lab.plots.pool import plot_pool
from minipaged.memory.contiguous import RequestLengths, reserve_max
from minipaged.memory.paged_waste import simulate_paged
from minipaged.memory.waste import memory_map, simulate


@pytest.fixture
def shared():
    """A of 6 tokens, its fork B, and a block of somebody else, among seven of 4."""
    pool = mp.BlockPool(num_blocks=7, block_size=4)
    a = mp.BlockTable(pool)
    a.append(6)
    b = a.fork()
    pool.allocate()
    return pool, {"A": a, "B": b}


def said(figure):
    return [words.text for words in figure.scene.of(Words)]


def test_a_pool_is_drawn_as_it_is(shared):
    pool, tables = shared
    figure = plot_pool(pool, tables, "title", {"A": "a b c d e f".split()})
    first, second, third, *entries = figure.scene.rows
    mine = tones.shared(strong("A"), "A")
    assert first.tones == [mine] * 6 + [free(), others()]
    assert "".join(first.words) == "abcdef"
    assert second.tones + third.tones == [free()] * 4
    captions = [words for words in said(figure) if words.startswith("block ")]
    assert captions == [
        "block 0: A B", "block 1: A B", "block 2: others",
        *(f"block {block_id}" for block_id in range(3, 7)),
    ]  # fmt: skip
    assert [(row.label, row.remark, row.words) for row in entries] == [
        ("A", "6 tokens", ["0", "1"]), ("B", "6 tokens", ["0", "1"]),
    ]  # fmt: skip
    assert {"several holders", "held by others", "empty"} <= set(said(figure))


def test_the_picture_follows_the_pool(shared):
    """B keeps its colour when A has ended, and nothing is shared any more."""
    pool, tables = shared
    tables.pop("A").free()
    tables["B"].append(3)
    first, second, _, entries = plot_pool(pool, tables, "title").scene.rows
    assert first.tones == [strong("B")] * 8 + [others()]
    assert second.tones == [strong("B"), *[free()] * 3]
    assert entries.remark == "9 tokens"


def test_a_cached_block_is_marked_while_it_is_free(shared):
    figure = plot_pool(*shared, "title", cached=[0, 5])
    assert [row.tones.count(FOUND) for row in figure.scene.rows] == [0, 1, 0, 0, 0]
    assert {"block 5: cached", "can still be found"} <= set(said(figure))


def test_what_is_new_in_a_pool_is_strong():
    pool = mp.BlockPool(num_blocks=3, block_size=4)
    table = mp.BlockTable(pool)
    table.append(9)
    figure = plot_pool(pool, {"A": table}, "title", before={"A": 7})
    blocks, entries = figure.scene.rows
    assert blocks.tones == [soft("A")] * 7 + [strong("A")] * 2 + [free()]
    assert entries.tones == [soft("A"), soft("A"), strong("A")]
    assert {"new", "there before"} <= set(said(figure))


def test_of_a_long_table_the_last_entries_are_counted():
    pool = mp.BlockPool(64, 16)
    table = mp.BlockTable(pool)
    table.append(570)
    figure = plot_pool(pool, {"A": table}, "title", columns=8)
    assert figure.scene.rows[-1].aside == "and 20 more"


def test_memory_over_time_shows_the_kinds_that_are_there():
    chats = [RequestLengths(10, 30)] * 6
    report = simulate(chats, reserve_max, num_slots=150, max_length=64)
    figure = plot_memory_over_time(report, 150, range(1, 31), "title")
    (image,) = figure.axes[0].images
    rows = image.get_array()
    assert rows.shape == (30, 700)
    for iteration in (1, 30):
        seen = {list(palette.KINDS_OF_SLOTS)[kind] for kind in rows[iteration - 1]}
        spans = memory_map(report.stays, 150, iteration)
        kinds = {kind for _, _, kind, _ in spans}
        assert {"external" if kind == "rounded_up" else kind for kind in seen} == kinds


def waste(report):
    """Of the bar of waste: its cells' widths by their tones, its words, its values."""
    (row,) = plot_waste({"a": report}, "title").scene.rows
    return dict(zip(row.tones, row.words, strict=True)), row.values


def labels(figure):
    """What is said in the map, and the point that each arrow leads to."""
    return {text.get_text(): text.xy for text in figure.axes[0].texts}


def test_a_chat_that_is_seen_whole_says_what_its_wedge_means():
    report = simulate([RequestLengths(10, 30)] * 6, reserve_max, 150, 64)
    figure = plot_memory_over_time(report, 150, range(0, 40), "title")
    found, (stay, *_) = labels(figure), report.stays
    assert stay.piece.start == stay.admitted == 0
    assert list(found) == ["starts, as wide as its prompt", "one token a step", "ends"]
    assert found["one token a step"] == (10 + 15, 1 + 15)
    corners = {"starts, as wide as its prompt": (10, 1), "ends": (40, 31)}
    for words, (x, y) in found.items():
        near = corners.get(words, (x, y))
        assert (x, y) == pytest.approx(near, abs=1), words
    part = plot_memory_over_time(report, 150, range(5, 25), "title")
    assert not labels(part)  # nobody begins and ends in it
    drawn = [text.get_window_extent() for text in figure.axes[0].texts]
    figure.draw_without_rendering()
    assert not any(a.overlaps(b) for a, b in pairwise(drawn))


def test_time_runs_downwards():
    report = simulate([RequestLengths(10, 30)] * 6, reserve_max, 150, 64)
    figure = plot_memory_over_time(report, 150, range(5, 25), "title")
    (image,) = figure.axes[0].images
    assert tuple(image.get_extent()) == (0, 150, 25, 5)


def test_what_is_rounded_up_is_told_apart_from_gaps():
    report = simulate([RequestLengths(1, 19)], reserve_max, 64, max_length=20)
    figure = plot_memory_over_time(report, 64, range(1, 3), "title")
    rows = figure.axes[0].images[0].get_array()
    kinds = list(palette.KINDS_OF_SLOTS)
    seen = {kinds[kind] for kind in rows[0]}
    assert seen == {"token_states", "reserved", "rounded_up", "external"}
    assert legend(figure) == {palette.KINDS_OF_SLOTS[kind][2] for kind in seen}


def legend(figure):
    """What the legend says."""
    (box,) = figure.legends
    return {text.get_text() for text in box.get_texts()}


def test_bars_of_waste_say_every_share_and_tell_what_is_rounded_up_apart():
    report = simulate([RequestLengths(1, 19)] * 3, reserve_max, 64, max_length=20)
    shares, _ = waste(report)
    kinds = palette.KINDS_OF_SLOTS
    found = {kind: 100 * getattr(report, kind) for kind in kinds}
    found["external"] -= found["rounded_up"]
    expected = {
        kind_of_slot(kind): f"{found[kind]:.1f}" if found[kind] >= 5 else ""
        for kind in kinds
        if found[kind]
    }
    assert shares == expected and kind_of_slot("rounded_up") in shares


def test_a_share_too_small_for_its_bar_is_said_beside_it():
    chats = [RequestLengths(prompt, 50) for prompt in range(100, 400)]
    report = simulate_paged(chats, num_slots=8192, block_size=16)
    shares, (beside,) = waste(report)
    assert shares[kind_of_slot("token_states")] == f"{100 * report.token_states:.1f}"
    assert shares[kind_of_slot("reserved")] == ""
    assert f"{100 * report.reserved:.1f} reserved" in beside.split(", ")


DRAWINGS = {
    "waste": lambda: plot_waste(
        {"max": simulate([RequestLengths(10, 30)] * 3, reserve_max, 150, 64)}, "title"
    ),
    "histogram": lambda: plot_histogram([170] * 9 + [180] * 9 + [600], "title", "x"),
    "lines": lambda: plot_lines(
        [1, 2, 4], {"one": [1, 2, 3], "two": [3, 2, 1]}, "title", "x", "y"
    ),
    "lines over even axes": lambda: plot_lines(
        range(30), {"one": range(30)}, "title", "x", "y", logarithmic=False
    ),
    "lines with crosses": lambda: plot_lines(
        [1, 2], {"one": [1, 900]}, "t", "", "", y_is_logarithmic=True, crosses=[[2, 8]]
    ),
}


test_it_can_be_read = readable_in_all_themes(DRAWINGS)


def test_lines_are_the_values_and_crosses_lie_in_the_line_s_colour():
    lines = {"one": [1, 2, 3], "two": [3, 2, 1]}
    crosses = [[2, 2, 2], [1, 1, 1]]
    figure = plot_lines([1, 2, 4], lines, "title", "x", "y", crosses=crosses)
    found = [
        (curve.name, curve.series, [y for _, y in curve.points], curve.marker == "x")
        for curve in figure.scene.curves
    ]
    assert found == [
        ("one", 0, [1, 2, 3], False),
        ("two", 1, [3, 2, 1], False),
        ("", 0, [2, 2, 2], True),
        ("", 1, [1, 1, 1], True),
    ]


def test_a_histogram_marks_the_mean():
    assert "mean 197" in said(DRAWINGS["histogram"]())


@pytest.mark.parametrize("name", palette.THEMES)
def test_a_picture_of_memory_over_time_can_be_drawn_in_every_theme(monkeypatch, name):
    monkeypatch.setenv("MINIPAGED_THEME", name)
    report = simulate([RequestLengths(10, 30)] * 3, reserve_max, 150, 64)
    figure = plot_memory_over_time(report, 150, range(1, 5), "title")
    figure.canvas.draw()
    look = palette.THEMES[name]
    assert figure.patch.get_visible() == (look.ground != "none")
    assert figure.axes[0].xaxis.label.get_color() == look.ink


def contrast(one, other):
    light, dark = sorted(map(palette.relative_luminance, (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


PAGES = "#FFFFFF", "#0D1117"


@pytest.mark.parametrize("look", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
def test_text_can_be_read(look):
    """WCAG: 4.5 to 1 for text; 3 to 1 for what is not text, here frames."""
    for ground in (look.ground, look.free):
        assert contrast(look.ink, ground) > 7
    assert contrast(look.quiet, look.ground) > 4.5
    assert contrast(look.rim, look.ground) > 3
    for colour in palette.SEQUENCE_COLOURS:
        assert contrast(palette.ink_on(colour), colour) > 4.5


@pytest.mark.parametrize("page", PAGES)
def test_without_a_theme_text_can_be_read_on_light_pages_and_dark_ones(page):
    """One ink cannot have 4.5 to 1 on both; it has 4."""
    look = palette.theme()
    assert look is palette.BOTH and look.ground == "none"
    pale = over(look.free, page)
    for ink in (look.ink, look.quiet, palette.BAD, palette.GOOD):
        assert contrast(ink, page) >= 4
    assert contrast(look.ink, pale) >= 4
    assert contrast(look.rim, page) > 3
    for kind, (colour, _, _) in palette.KINDS_OF_SLOTS.items():
        least = 4.5 if len(colour) == 7 else 4
        assert contrast(palette.ink_on(colour), over(colour, page)) >= least, kind


def over(colour, page):
    """A colour, perhaps with an alpha ("#RRGGBBAA"), laid on a page."""
    return palette.mix(colour[:7], page, int(colour[7:] or "FF", 16) / 255)


@pytest.mark.parametrize("page", PAGES)
def test_kinds_of_slots_can_be_told_apart_in_grey(page):
    colours = [over(colour, page) for colour, _, _ in palette.KINDS_OF_SLOTS.values()]
    for one, other in combinations(colours, 2):
        assert contrast(one, other) > 1.3


def test_no_kind_of_slot_has_the_colour_of_a_user():
    """In the same lesson, blue is A."""
    users = {palette.sequence_colour(name) for name in "ABC"}
    assert not users & {colour for colour, _, _ in palette.KINDS_OF_SLOTS.values()}


def test_sequences_have_colours_of_their_own():
    names = "ABCDEFGH"
    assert len({palette.sequence_colour(name) for name in names}) == len(names)
    assert palette.sequence_colour("B") == palette.sequence_colour(1)
    assert palette.sequence_colour("user 7") == palette.sequence_colour("user 7")


def test_an_unknown_theme_says_which_there_are():
    with pytest.raises(ValueError, match="choose from"):
        palette.theme("neon")


def test_holders_that_are_not_drawn_are_counted(shared):
    pool, tables = shared
    captions = said(plot_pool(pool, {"B": tables["B"]}, "title"))
    assert "block 0: B · 2 holders" in captions
    assert "0: B ×2" in said(plot_pool(pool, {"B": tables["B"]}, "title", columns=7))


def test_a_long_title_goes_on_below():
    title = "A picture has one message, and its title says this message in full " * 2
    figure = plot_histogram([1, 2, 3], title.strip(), "x")
    figure.draw_without_rendering()
    (said,) = figure.texts
    assert said.get_text().count("\n") == 1
    assert said.get_window_extent().x1 < figure.bbox.x1


# --- in a notebook --------------------------------------------------------------------


@pytest.fixture
def shell():
    """IPython, as a notebook has it."""
    from IPython.core.interactiveshell import InteractiveShell

    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def test_a_notebook_stores_two_pixels_for_one(shell):
    figure = plot_histogram([1, 2, 3], "title", "x")
    data, metadata = shell.display_formatter.format(figure, include=["image/png"])
    width, height = size_of(b64decode(data["image/png"]))
    assert metadata["image/png"] == {"width": 760, "alt": "title"}
    assert width == 2 * 760
    assert height == pytest.approx(200 * figure.get_size_inches()[1], abs=1)


def test_figures_of_others_are_shown_as_ever(shell):
    plot_histogram([1, 2, 3], "title", "x")
    figure, _ = plt.subplots()
    data, metadata = shell.display_formatter.format(figure)
    assert "image/png" not in metadata and "image/png" not in data


def size_of(png):
    """Width and height of a PNG file, in pixels (its first chunk says so)."""
    assert png[12:16] == b"IHDR"
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


def test_what_stands_out_makes_the_picture_wider_and_is_not_lost():
    figure = plot_histogram([1, 2, 3], "title", "x")
    figure.text(1.01, 0.5, "beside it")
    data, metadata = encode(figure)
    width, _ = size_of(b64decode(data))
    assert metadata["width"] > 780 and abs(width - 2 * metadata["width"]) <= 1


def test_jupyter_lays_no_ground_under_a_picture():
    """It would, in white, if the figure said that it is transparent."""
    figure = plot_histogram([1, 2, 3], "title", "x")
    assert figure.get_facecolor()[3] == 1 and not figure.patch.get_visible()
    data, _ = encode(figure)
    corner = plt.imread(BytesIO(b64decode(data)))[0, 0]
    assert corner[3] == 0
