"""The pictures: they show the live state, and can be read by everybody."""

import re
from base64 import b64decode
from io import BytesIO
from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import minipaged as mp
from helpers.readable import PAGES, contrast, edges_of, readable_in_all_themes
from minipaged.draw import palette, tones
from minipaged.draw.marks import Area, Box, Dots, Scene, Stroke, Words
from minipaged.draw.tones import FOUND, free, kind_of_slot, others, soft, strong
from minipaged.lab.plots import render as render_module
from minipaged.lab.plots.charts import plot_histogram, plot_lines, plot_waste
from minipaged.lab.plots.contiguous import plot_memory_over_time
from minipaged.lab.plots.display import encode
from minipaged.lab.plots.pool import plot_pool
from minipaged.lab.plots.render import render
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
    figure = plot_pool(pool, tables, "title")
    first, second, third, numbers, *entries = figure.scene.rows
    assert numbers.label == "entry" and numbers.below == ["0", "1"]
    mine = tones.shared(strong("A"), "A")
    assert first.tones == [mine] * 6 + [free(), others()]
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
    first, second, _, _, entries = plot_pool(pool, tables, "title").scene.rows
    assert first.tones == [strong("B")] * 8 + [others()]
    assert second.tones == [strong("B"), *[free()] * 3]
    assert entries.remark == "9 tokens"


def test_a_cached_block_is_marked_while_it_is_free(shared):
    figure = plot_pool(*shared, "title", cached=[0, 5])
    assert [row.tones.count(FOUND) for row in figure.scene.rows] == [0, 1, 0, 0, 0, 0]
    assert {"block 5: cached", "can still be found"} <= set(said(figure))


def test_what_is_new_in_a_pool_is_strong():
    pool = mp.BlockPool(num_blocks=3, block_size=4)
    table = mp.BlockTable(pool)
    table.append(9)
    figure = plot_pool(pool, {"A": table}, "title", before={"A": 7})
    blocks, _, entries = figure.scene.rows
    assert blocks.tones == [soft("A")] * 7 + [strong("A")] * 2 + [free()]
    assert entries.tones == [soft("A"), soft("A"), strong("A")]
    assert {"new", "there before"} <= set(said(figure))


def test_of_a_long_table_the_last_entries_are_counted():
    pool = mp.BlockPool(64, 16)
    table = mp.BlockTable(pool)
    table.append(570)
    figure = plot_pool(pool, {"A": table}, "title", columns=8)
    assert figure.scene.rows[-1].aside == "and 20 more"


def stayed(iterations=range(1, 31)):
    """Three chats at a time, of 10 + 30 tokens, in pieces of 64 slots of 150."""
    report = simulate([RequestLengths(10, 30)] * 6, reserve_max, 150, 64)
    return report, plot_memory_over_time(report, 150, iterations, "title")


def where(scene):
    """The memory on the picture: its left and upper edge, a slot, a step."""
    rim = next(box for box in scene.of(Box) if box.rim != "none")
    return rim.x, rim.y, rim.width / 150, rim.height


@pytest.mark.parametrize("iteration", [3, 15, 30])
def test_memory_over_time_shows_what_each_slot_is_used_for(iteration):
    """At the first and last slot of every span of a moment's map: what lies on top."""
    report, figure = stayed(range(3, 31))
    scene = figure.scene
    left, top, slot, high = where(scene)
    y = top + (iteration - 3 + 0.01) * high / 28
    wedges = [area.corners for area in scene.of(Area)]
    for low, stop, kind, owner in memory_map(report.stays, 150, iteration):
        kind = "rounded_up" if kind == "external" and owner is not None else kind
        for x in (left + slot * (low + 0.5), left + slot * (stop - 0.5)):
            faces = [b.face for b in scene.of(Box) if b.face != "none" if b.holds(x, y)]
            if any(holds(corners, x, y) for corners in wedges):
                faces.append(kind_of_slot("token_states").face)
            assert faces[-1] == kind_of_slot(kind).face, (low, stop, kind)


def test_steps_and_addresses_are_written_alike():
    report = simulate([RequestLengths(10, 3000)], reserve_max, 8000, 3100)
    figure = plot_memory_over_time(report, 8000, range(2000, 3000), "title")
    assert said(figure).count("2,000") == 2


def holds(corners, x, y):
    """Is the place in a wedge: its right edge goes evenly down?"""
    (left, top), (first, _), (last, bottom), _ = corners
    edge = first + (last - first) * (y - top) / (bottom - top)
    return top <= y <= bottom and left <= x <= edge


def waste(report):
    """Of the bar of waste: its cells' widths by their tones, its words, its values."""
    (row,) = plot_waste({"a": report}, "title").scene.rows
    return dict(zip(row.tones, row.words, strict=True)), row.values


def test_a_chat_that_is_seen_whole_says_what_its_wedge_means():
    """Its arrows lead to the right edge of its tokens, which are 10 and then 40."""
    report, figure = stayed(range(0, 40))
    stay, scene = report.stays[0], figure.scene
    assert stay.piece.start == stay.admitted == 0
    left, top, slot, high = where(scene)
    ends = [arrow.points[1] for arrow in scene.of(Stroke) if arrow.head]
    for (x, y), share in zip(ends, (0.0, 0.5, 1.0), strict=True):
        assert x == pytest.approx(left + slot * (10 + 30 * share), abs=slot)
        assert y == pytest.approx(top + high / 40 * (1 + 30 * share), abs=high / 40)
    words = {"starts, as wide as its prompt", "one token a step", "ends"}
    assert words <= set(said(figure))
    assert not words & set(said(stayed(range(5, 25))[1]))  # nobody begins and ends


def test_time_runs_downwards():
    _, figure = stayed(range(5, 25))
    ticks = {w.text: w.y for w in figure.scene.of(Words) if w.ha == "right"}
    assert ticks["10"] < ticks["15"] < ticks["20"]


@pytest.mark.parametrize("has_gap", [True, False])
def test_what_is_rounded_up_is_told_apart_from_gaps(has_gap):
    report = simulate([RequestLengths(1, 19)], reserve_max, 64, 20 if has_gap else 32)
    figure = plot_memory_over_time(report, 64, range(1, 3), "title")
    kinds = palette.KINDS_OF_SLOTS
    seen = {kind for kind in kinds if kinds[kind][2] in said(figure)}
    always = {"token_states", "reserved", "external"}
    assert seen == always | {"rounded_up" if has_gap else "internal"}


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
    "memory over time": lambda: stayed()[1],
    "memory over time, a wedge": lambda: stayed(range(0, 40))[1],
    "waste": lambda: plot_waste(
        {"max": simulate([RequestLengths(10, 30)] * 3, reserve_max, 150, 64)}, "title"
    ),
    "histogram": lambda: plot_histogram([170] * 9 + [180] * 9 + [600], "title", "x"),
    "lines": lambda: plot_lines(
        [1, 2, 4], {"one": [1, 2, 3], "two": [3, 2, 1]}, "title", "x", "y"
    ),
    "lines and a point": lambda: plot_lines(
        [1, 2],
        {"one": [1, 2], "a point": [None, 9]},
        "t",
        "",
        "",
        y_is_logarithmic=True,
    ),
    "lines over even axes": lambda: plot_lines(
        range(30), {"one": range(30)}, "title", "x", "y", logarithmic=False
    ),
    "lines up to a height": lambda: plot_lines(
        [1, 2], {"one": [40, 100]}, "t", "", "", logarithmic=False, highest=104
    ),
    "lines with crosses": lambda: plot_lines(
        [1, 2], {"one": [1, 900]}, "t", "", "", y_is_logarithmic=True, crosses=[[2, 8]]
    ),
}


test_it_can_be_read = readable_in_all_themes(DRAWINGS)


def test_what_is_not_known_is_left_out():
    _, point = DRAWINGS["lines and a point"]().scene.curves
    assert point.points == ((2, 9),)


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


def test_the_axis_ends_where_it_shall():
    """So a point at 100 is nearer to the top if the axis ends at 104 than at 200."""

    def height_of_100(highest):
        lines = {"one": [0, 100]}
        figure = plot_lines([1, 2], lines, "t", "x", "y", False, highest=highest)
        return figure.scene.of(Dots)[0].places[-1][1]

    assert height_of_100(104) < height_of_100(200)


def test_a_histogram_marks_the_mean():
    assert "mean 197" in said(DRAWINGS["histogram"]())


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
    (said,) = figure.texts
    assert said.get_text().count("\n") == 1
    assert said.get_window_extent().x1 < figure.bbox.x1


@pytest.mark.parametrize(
    "style",
    [
        {},
        {"ha": "right", "va": "top", "weight": "bold"},
        {"ha": "center", "va": "bottom", "family": "monospace"},
        {"rotation": 90.0},
        {"rotation": 30.0, "ha": "center", "va": "top"},
    ],
)
def test_letters_are_as_wide_as_tests_and_layouts_take_them(pens, style):
    """What tests measure in a scene is the room that matplotlib gives to words."""
    words = Words(300.0, 100.0, "play (p) × 12 → {lp}", 10.0, "#000000", **style)
    figure = render(Scene("title", 744.0, 200.0, marks=[words]))
    (text,) = figure.axes[0].texts
    (x0, y1), (x1, y0) = (
        figure.axes[0]
        .transData.inverted()
        .transform(text.get_window_extent().get_points())
    )
    assert edges_of(words) == pytest.approx((x0, y0, x1, y1), abs=4)


def test_pictures_know_matplotlib_through_one_module_only():
    """Else one of them could draw what is in no scene, and no page would show it."""
    plots = Path(render_module.__file__).parent
    imports = re.compile("^(from|import) matplotlib", re.M)
    found = {p.name for p in plots.glob("*.py") if imports.search(p.read_text())}
    assert found == {"render.py", "display.py"}


# --- in a notebook --------------------------------------------------------------------


@pytest.fixture
def shell():
    """IPython, as a notebook has it."""
    from IPython.core.interactiveshell import InteractiveShell

    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def test_a_notebook_stores_two_pixels_for_one(pens, shell):
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


def test_what_stands_out_makes_the_picture_wider_and_is_not_lost(pens):
    figure = plot_histogram([1, 2, 3], "title", "x")
    figure.text(1.01, 0.5, "beside it")
    data, metadata = encode(figure)
    width, _ = size_of(b64decode(data))
    assert metadata["width"] > 780 and abs(width - 2 * metadata["width"]) <= 1


def test_jupyter_lays_no_ground_under_a_picture(pens):
    """It would, in white, if the figure said that it is transparent."""
    figure = plot_histogram([1, 2, 3], "title", "x")
    assert figure.get_facecolor()[3] == 1 and not figure.patch.get_visible()
    data, _ = encode(figure)
    corner = plt.imread(BytesIO(b64decode(data)))[0, 0]
    assert corner[3] == 0
