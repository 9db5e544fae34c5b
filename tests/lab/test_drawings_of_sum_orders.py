"""Sums in several orders: each is the sum that torch makes, step by step."""

import torch

from helpers.readable import readable_in_all_themes
from minipaged.lab import plot_sum_orders

TERMS = torch.tensor([1.0, 0.003, 0.003, 0.003, 0.003], dtype=torch.bfloat16)


def drawn():
    return plot_sum_orders(TERMS, {"one": [], "two": [2], "three": [1, 3]}, "title")


test_it_can_be_read = readable_in_all_themes({"orders": drawn})


def test_the_sums_are_those_of_the_type():
    scene = drawn().scene
    rows = [[word for word in row.words if word] for row in scene.rows]
    assert rows[0] == ["1.0000"] + ["0.0030"] * 4
    assert rows[1] == ["1.0000"] * 5 and rows[2] == ["1.0000"]
    a, *_, b = TERMS
    cut = (a + b) + ((b + b) + b)
    assert rows[3] == ["1.0000"] * 2 + [f"{n * 0.003:.4f}" for n in (1, 2, 3)]
    assert rows[4] == [f"{cut:.4f}"] == ["1.0078"]
    assert rows[6] == [f"{a + (b + b) + (b + b):.4f}"] == ["1.0156"]
    assert len(scene.links) == 1 + 2 + 3
