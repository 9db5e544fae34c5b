"""Appendix H's drawings: what each rank holds, and where the ranks must wait."""

import minipaged as mp
from helpers.drawn import texts
from helpers.readable import readable_in_all_themes
from minipaged.lab.plots.on_ranks import (
    plot_halves,
    plot_heads_on_ranks,
    plot_ranks_apart,
    plot_table_on_ranks,
)


def a_table():
    """In blocks 1, 2 and 4 of twelve; 0 and 3 are another's."""
    pool = mp.BlockPool(num_blocks=12, block_size=16)
    a, b = mp.BlockTable(pool), mp.BlockTable(pool)
    for table, count in ((b, 10), (a, 21), (b, 20), (a, 20)):
        table.append(count)
    return a, b


DRAWINGS = {
    "heads": lambda: plot_heads_on_ranks([3, 3], [1, 1], "title"),
    "halves": lambda: plot_halves(192, 576, 2, "title"),
    "a table": lambda: plot_table_on_ranks(a_table()[0], [[0], [1]], "title"),
    "a table on four ranks": lambda: plot_table_on_ranks(
        a_table()[0], [[0, 1], [2, 3], [4, 5], [6, 7]], "title"
    ),
    "apart": lambda: plot_ranks_apart([8, 8], [True, False], "title"),
}
test_it_can_be_read = readable_in_all_themes(DRAWINGS)


def links(name):
    return [link[:4] for link in DRAWINGS[name]().scene.links]


def test_each_query_head_leads_to_the_kv_head_that_it_reads():
    assert links("heads") == [
        ("query heads", head, "KV heads", head // 3) for head in range(6)
    ]


def test_each_rank_has_its_share_of_the_numbers_within_and_all_terms():
    said = texts(DRAWINGS["halves"]())
    assert {"rank 0: 288 of 576", "rank 1's terms of 192", "+"} <= {*said}


def test_a_table_leads_to_the_same_blocks_on_each_rank():
    found = links("a table")
    for rank in range(2):
        own = [link for link in found if link[2] == f"rank {rank}'s blocks"]
        assert [link[3] for link in own] == [1, 2, 4]
    four = DRAWINGS["a table on four ranks"]().scene.rows
    assert [row.label for row in four].index("block table") == 2


def test_a_rank_that_waits_has_begun_a_step_that_the_other_has_not():
    first, second = DRAWINGS["apart"]().scene.rows
    assert first.words == ["step 6", "step 7", "step 8", "step 9: waits for the others"]
    assert second.words == ["step 6", "step 7", "step 8", "computes no more"]
    assert len(links("apart")) == 2 * 3  # there and back
