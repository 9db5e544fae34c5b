"""Appendix G's drawings: a request's way, and what a server's page tells."""

from pytest import approx

from helpers.drawn import texts
from helpers.readable import readable_in_all_themes
from minipaged.draw.marks import Box
from minipaged.lab.plots.leaving import plot_leaving
from minipaged.lab.plots.served_pool import plot_served_pool, tables_told
from minipaged.lab.plots.way import plot_way
from minipaged.lab.pool.snapshot import FrozenTable

MOVES = [("event loop", "add"), ("engine", "step 1"), ("engine", "step 2")]
MOVES += [("event loop", "token 1")]
CAUSES = [("add", "step 1"), ("step 1", "step 2"), ("step 1", "token 1")]
MESSAGES = [
    {"tables": [[3, 0, 40, 0, 41, 0, [1, 2, 4]]]},
    {"tables": [[3, 0, 40, 0, 42, 3, []], [4, 0, 40, 32, 49, 0, [1, 2, 5, 6]]]},
    {"tables": [[4, 0, 40, 32, 65, 4, [7]]]},
    {"tables": [[4, 0, 40, 0, 5, 0, [9]]]},  # it has started anew
]

DRAWINGS = {
    "way": lambda: plot_way(MOVES, CAUSES, "title"),
    "leaving": lambda: plot_leaving(
        {"A": 2, "B": 5},
        {
            "nobody is told": [{"A": a, "B": a} for a in (1, 1, 2, 2, 3)],
            "abort": [{"A": step < 2, "B": 1} for step in range(5)],
        },
        "title",
    ),
    "a server's pool": lambda: plot_served_pool(
        tables_told(MESSAGES)[1], 12, 16, "title", columns=4
    ),
}
test_it_can_be_read = readable_in_all_themes(DRAWINGS)


def test_each_move_is_in_its_thread_s_row_and_arrows_lead_from_causes():
    scene = DRAWINGS["way"]().scene
    assert [row.label for row in scene.rows] == ["event loop", "engine"]
    loop, engine = [row.words for row in scene.rows]
    assert loop == ["add", "", "", "token 1"]
    assert engine == ["", "step 1", "step 2", ""]
    assert [(link.source, link.target) for link in scene.links] == [
        ("event loop", "engine"),
        ("engine", "engine"),
        ("engine", "event loop"),
    ]


def test_tables_are_put_together_from_what_has_changed():
    first, second, third, anew = tables_told(MESSAGES)
    assert first == {3: FrozenTable((1, 2, 4), 41)}
    assert second[4] == FrozenTable((1, 2, 5, 6), 49)
    assert third == {4: FrozenTable((1, 2, 5, 6, 7), 65)}
    assert anew == {4: FrozenTable((9,), 5)}


def test_two_users_are_seen_sharing():
    said = texts(DRAWINGS["a server's pool"]())
    assert {"block 1: A B", "block 4: A", "block 6: B", "several holders"} <= {*said}


def test_blocks_are_hatched_from_the_step_in_which_their_client_has_left():
    figure = DRAWINGS["leaving"]()
    assert {"at last 6 blocks", "at last 1 block", "A reads"} <= {*texts(figure)}
    boxes = [one for one in figure.scene.all if isinstance(one, Box)]
    hatched = [box for box in boxes if box.pattern]
    # Of A: two blocks in two steps, then three; with an abort, none.
    # Then the legend. B leaves after the last step.
    *of_a, _legend = hatched
    assert len(of_a) == 2
    two, three = of_a
    assert three.height == approx(1.5 * two.height)
    assert two.width == approx(2 * three.width)


def test_a_full_block_of_many_columns_is_one_box():
    """Side by side, thin boxes would show seams where their hatches meet."""
    scene = plot_served_pool(tables_told(MESSAGES)[1], 12, 16, "t", columns=10).scene
    hatched = [one for one in scene.all if getattr(one, "pattern", "")]
    assert len(hatched) == 2 + 1  # blocks 1 and 2, and the legend
