"""The pictures: they show the live state, and can be read by everybody."""

from itertools import combinations

import matplotlib
import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

import minipaged as mp
from minipaged.lab.plots import palette
from minipaged.lab.plots.charts import plot_histogram, plot_lines, plot_waste
from minipaged.lab.plots.contiguous import plot_memory_over_time
from minipaged.lab.plots.kernels import plot_rates
from minipaged.lab.plots.pool import plot_pool, print_pool
from minipaged.memory.contiguous import RequestLengths, reserve_max
from minipaged.memory.waste import KINDS, memory_map, simulate

matplotlib.use("agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture
def shared():
    """A of 6 tokens, its fork B, and a block of somebody else, among seven of 4."""
    pool = mp.BlockPool(num_blocks=7, block_size=4)
    a = mp.BlockTable(pool)
    a.append(6)
    b = a.fork()
    pool.allocate()
    return pool, {"A": a, "B": b}


def texts(figure):
    (axes,) = figure.axes
    return [text.get_text() for text in axes.texts]


def slots(figure):
    """(colour, hatch) of every drawn slot: the filled boxes as wide as one."""
    (axes,) = figure.axes
    boxes = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    return [
        (to_hex(box.get_facecolor()).upper(), box.get_hatch())
        for box in boxes
        if box.get_fill() and box.get_width() == 1
    ]


def test_a_pool_is_drawn_as_it_is(shared):
    pool, tables = shared
    figure = plot_pool(pool, tables, "title", {"A": "a b c d e f".split()})
    blue, look = palette.sequence_colour("A"), palette.theme()
    drawn = slots(figure)
    assert len(drawn) == 7 * 4
    assert drawn.count((blue, palette.SHARED_HATCH)) == 6
    assert drawn.count((look.others, None)) == 4
    assert drawn.count((look.free, None)) == 2 + 4 * 4
    said = texts(figure)
    assert "block 0 · A B" in said
    assert "block 2 · others" in said
    assert "block 3" in said
    assert "A: 6 tokens" in said and "entry 1 → block 1, 2 filled" in said
    assert [word for word in said if len(word) == 1] == list("abcdef")


def test_the_picture_follows_the_pool(shared):
    pool, tables = shared
    tables.pop("B").free()
    tables["A"].append(3)
    figure = plot_pool(pool, tables, "title")
    blue = palette.sequence_colour("A")
    assert slots(figure).count((blue, None)) == 9
    assert "block 0 · A" in texts(figure)


def test_a_sequence_keeps_its_colour_when_others_end(shared):
    pool, tables = shared
    tables.pop("A").free()
    drawn = slots(plot_pool(pool, tables, "title"))
    assert drawn.count((palette.sequence_colour("B"), None)) == 6


def test_a_cached_block_is_marked_while_it_is_free(shared):
    pool, tables = shared
    figure = plot_pool(pool, tables, "title", cached=[0, 5])
    assert "block 5 · cached" in texts(figure)
    assert not any("block 0" in text and "cached" in text for text in texts(figure))
    rims = [p for p in figure.axes[0].patches if p.get_linestyle() == "--"]
    assert [to_hex(p.get_edgecolor()).upper() for p in rims] == [palette.CACHED_RIM]


def test_a_large_pool_fits(shared):
    pool = mp.BlockPool(64, 16)
    table = mp.BlockTable(pool)
    table.append(70)
    figure = plot_pool(pool, {"A": table}, "title", columns=8)
    assert "A: 70 tokens, 5 blocks" in texts(figure)
    assert figure.get_size_inches()[1] < 8


def test_a_pool_in_text(shared, capsys):
    print_pool(*shared)
    assert capsys.readouterr().out == (
        "0:AB 4/4   1:AB 2/4   2:?   3:.   4:.   5:.   6:.\n"
        "A: 6 tokens in blocks [0, 1]\n"
        "B: 6 tokens in blocks [0, 1]\n"
    )


def test_memory_over_time_shows_the_kinds_that_are_there():
    chats = [RequestLengths(10, 30)] * 6
    report = simulate(chats, reserve_max, num_slots=150, max_length=64)
    figure = plot_memory_over_time(report, 150, range(1, 31), "title")
    (image,) = figure.axes[0].images
    rows = image.get_array()
    assert rows.shape == (30, 700)
    for iteration in (1, 30):
        seen = {[*KINDS, "external"][kind] for kind in rows[iteration - 1].tolist()}
        spans = memory_map(report.stays, 150, iteration)
        assert seen == {kind for _, _, kind, _ in spans}


def test_bars_of_waste_lie_end_to_end():
    report = simulate([RequestLengths(10, 30)] * 3, reserve_max, 150, 64)
    bars = plot_waste({"max": report}, "title").axes[0].patches
    ends = [bar.get_x() + bar.get_width() for bar in bars]
    assert [bar.get_x() for bar in bars] == pytest.approx([0, *ends[:-1]])
    assert ends[-1] == pytest.approx(100)
    widths = [100 * getattr(report, kind) for kind in KINDS]
    assert [bar.get_width() for bar in bars] == pytest.approx(widths)


def test_time_runs_downwards():
    report = simulate([RequestLengths(10, 30)] * 6, reserve_max, 150, 64)
    figure = plot_memory_over_time(report, 150, range(5, 25), "title")
    (image,) = figure.axes[0].images
    assert tuple(image.get_extent()) == (0, 150, 25, 5)


def test_what_is_rounded_up_is_told_apart_from_gaps():
    report = simulate([RequestLengths(1, 19)], reserve_max, 64, max_length=20)
    figure = plot_memory_over_time(report, 64, range(1, 3), "title")
    rows = figure.axes[0].images[0].get_array()
    assert set(rows[0].tolist()) == {
        KINDS.index("token_states"),
        KINDS.index("reserved"),
        KINDS.index("external"),
        len(KINDS),
    }
    legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert "external: rounded up" in legend


@pytest.mark.parametrize("name", palette.THEMES)
def test_every_picture_can_be_drawn_in_every_theme(monkeypatch, name, shared):
    monkeypatch.setenv("MINIPAGED_THEME", name)
    look = palette.THEMES[name]
    report = simulate([RequestLengths(10, 30)] * 3, reserve_max, 150, 64)
    figures = [
        plot_pool(*shared, "title"),
        plot_waste({"max": report}, "title"),
        plot_histogram([1, 2, 3], "title", "x"),
        plot_lines([1, 2, 4], {"one": [1, 2, 3], "two": [3, 2, 1]}, "title", "x", "y"),
        plot_memory_over_time(report, 150, range(1, 5), "title"),
    ]
    for figure in figures:
        figure.canvas.draw()
        assert to_hex(figure.get_facecolor()).upper() == look.ground
        assert figure.axes[0].get_title(loc="left") == "title"
        ink = figure.axes[0].title.get_color(), figure.axes[0].xaxis.label.get_color()
        assert look.ink in ink


def contrast(one, other):
    light, dark = sorted(map(palette.relative_luminance, (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("look", palette.THEMES.values(), ids=palette.THEMES)
def test_text_can_be_read(look):
    """WCAG: 4.5 to 1 for text; 3 to 1 for what is not text, here frames."""
    for ground in (look.ground, look.free):
        assert contrast(look.ink, ground) > 7
    assert contrast(look.quiet, look.ground) > 4.5
    for colour in palette.SEQUENCE_COLOURS:
        assert contrast(palette.ink_on(colour), colour) > 4.5


def test_kinds_of_slots_can_be_told_apart_in_grey():
    colours = [colour for colour, _, _ in palette.KINDS_OF_SLOTS.values()]
    for one, other in combinations(colours, 2):
        assert contrast(one, other) > 1.3


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
    said = texts(plot_pool(pool, {"B": tables["B"]}, "title"))
    assert "block 0 · B · 2 holders" in said


def test_rates_are_drawn_as_they_are_beside_the_ceiling():
    rates = {"few": {"slow": 10.0, "fast": 1500.0}, "many": {"slow": 60, "fast": 1900}}
    figure = plot_rates(rates, 2000, "title", "on a desk")
    (axes,) = figure.axes
    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert [bar.get_width() for bar in bars] == [10, 1500, 60, 1900]
    assert len({bar.get_hatch() for bar in bars}) == 2
    assert {"10", "1,500", "reading alone: 2,000"} <= set(texts(figure))
    (ceiling,) = axes.lines
    assert set(ceiling.get_xdata()) == {2000} and "desk" in axes.get_xlabel()


def test_no_number_touches_the_ceiling():
    values = 1000.0, 1759.0, 1761.0, 1990.0, 2000.0, 2010.0
    rates = {"series": {f"{value}": value for value in values}}
    figure = plot_rates(rates, 2000, "title", "on a desk")
    figure.canvas.draw()
    (axes,) = figure.axes
    (line,) = axes.lines
    ceiling = line.get_window_extent().x0
    numbers = [text.get_window_extent() for text in axes.texts[: len(values)]]
    assert all(box.x1 < ceiling - 3 or box.x0 > ceiling + 3 for box in numbers)
    assert max(box.x1 for box in numbers) < figure.bbox.x1
