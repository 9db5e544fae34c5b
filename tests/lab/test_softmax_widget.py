"""The stepper over m, s and o: its numbers are those of softmax, and it says so."""

import re

import pytest
import torch

from minipaged.lab import SoftmaxWidget
from minipaged.lab.pool.softmax_widget import walk

LOGITS = torch.tensor([0.3, 1.2, 0.1, 0.8, 0.9, 2.4, 1.6, 0.3, 1.3, 0.5, 2.0])
VALUES = torch.linspace(-1, 2, 11)
SIZES = [4, 4, 3]
RIGHT = (LOGITS.double().softmax(0) @ VALUES.double()).item()


def parts():
    return LOGITS.split(SIZES), VALUES.split(SIZES)


@pytest.fixture
def widget():
    words = ["<|user|> What", " is the", " capital"]
    return SoftmaxWidget(*parts(), "C", [2, 5, 17], words)


def read_all(widget):
    for _ in SIZES:
        widget.next.click()


def test_any_order_gives_the_softmax_over_all():
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        states = walk(*parts(), order, scaled=True)
        assert states[-1].result == pytest.approx(RIGHT)
        shares = LOGITS.softmax(0).split(SIZES)
        total = sum(states[-1].weights.values())
        for block, share in enumerate(shares):
            weight = states[-1].weights[block]
            assert weight / total == pytest.approx(share.sum().item())


def test_without_the_factor_the_order_decides():
    ends = {
        round(walk(*parts(), order, scaled=False)[-1].result, 6)
        for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2])
    }
    assert len(ends) > 1


def test_buttons_read_go_back_and_end(widget):
    assert "Nothing is read yet" in widget.said.value and widget.back.disabled
    assert widget.stage.value.count("not read") == 3
    widget.next.click()
    assert "block 2: 100 %" in widget.stage.value and not widget.back.disabled
    widget.next.click()
    widget.next.click()
    assert widget.next.disabled and "right." in widget.said.value
    assert f"{RIGHT:.3f}" in widget.said.value
    widget.back.click()
    assert widget.num_read == 2 and not widget.next.disabled


def test_the_factor_is_told_and_can_be_left_out(widget):
    read_all(widget)
    widget.back.click()
    assert "e^(1.20 − 2.40) = 0.30" in widget.said.value
    widget.next.click()
    widget.without.value = True
    shown = widget.said.value.split("mp-unseen")[0]
    assert f"wrong, {RIGHT:.3f} is right" in shown and "left out" not in shown
    widget.back.click()
    assert "left out" in widget.said.value.split("mp-unseen")[0]


def test_another_order_keeps_what_was_read(widget):
    read_all(widget)
    widget.other.click()
    assert widget.num_read == 3
    assert re.findall(r"block (\d+):", widget.stage.value) == ["2", "17", "5"]
    assert "right." in widget.said.value.split("mp-unseen")[0]


def test_bars_are_as_long_as_the_weights(widget):
    """A token's weight is at most 1, so a block's is at most its number of tokens."""
    read_all(widget)
    weights = walk(*parts(), [0, 1, 2], scaled=True)[-1].weights
    widths = [float(x) for x in re.findall(r"width:([\d.]+)%", widget.stage.value)]
    assert widths == pytest.approx([25 * weights[at] for at in range(3)], abs=0.06)


def test_texts_are_escaped(widget):
    assert "&lt;|user|&gt; What" in widget.stage.value
    assert "<|user|>" not in widget.stage.value


def test_pages_without_widgets_get_all_orders(widget):
    told = widget._repr_mimebundle_()["text/plain"].splitlines()
    assert len(told) == 2 + 6
    for line in told[2:]:
        assert line.split()[-2] == f"{RIGHT:.3f}"
    assert len({line.split()[-1] for line in told[2:]}) > 1


def test_a_single_block_is_right_without_a_factor():
    widget = SoftmaxWidget([LOGITS], [VALUES])
    widget.without.value = True
    widget.next.click()
    assert "right." in widget.said.value and "left out" not in widget.said.value
