"""The widget of appendix F: each choice is simulated once, and shown."""

import pytest

from minipaged.lab import ServerWidget
from minipaged.lab.measure.one_server import Outcome, serve_minute
from minipaged.lab.pool import server_widget


@pytest.fixture
def served(monkeypatch):
    """What is asked of a server that needs no time."""
    asked = []

    def serve(system, rate, block_size=16):
        asked.append((system, rate, block_size))
        filled = 0.0 if rate == 1 else 0.5
        return Outcome(filled, 7.5, 1234.0 / block_size, 0.02 * rate, 3)

    monkeypatch.setattr(server_widget, "serve_minute", serve)
    return asked


def test_a_choice_is_served_and_shown(served):
    widget = ServerWidget()
    assert served == [("vLLM", 4, 16)]
    assert "vLLM, blocks of 16, 4 a second: 0.080 seconds a token" in widget.said.value
    for words in ("50%", "7.5", "77"):
        assert f">{words}<" in widget.stage.value
    widget.rows["rate"].value = 1
    assert "nobody ever waits" in widget.said.value
    widget.rows["system"].value = 3
    assert "Orca (Max), 1 a second" in widget.said.value
    assert served[-1] == ("Orca (Max)", 1, 16)


def test_what_was_tried_is_not_served_again(served):
    widget = ServerWidget()
    for size in (64, 256, 16):
        widget.rows["block_size"].value = size
    assert len(served) == len(widget.tried) == 3
    assert widget.history.value.count("blocks of") == 3
    assert "blocks of 16, 4 a second" in widget.said.value


def test_its_text_is_of_the_first_choice(served):
    widget = ServerWidget()
    text = widget.tell()
    widget.rows["rate"].value = 8
    assert widget.tell() == text and "4 a second" in text and "77" in text


def test_a_minute_of_a_real_server():
    """More of the memory is filled in smaller blocks, and by vLLM."""
    small, large = (serve_minute("vLLM", 6, size) for size in (16, 256))
    orca = serve_minute("Orca (Max)", 6)
    assert 0.9 < small.filled <= 1 and orca.filled < 0.3
    assert orca.tokens_per_second < large.tokens_per_second < small.tokens_per_second
    assert large.filled < small.filled and orca.running < large.running
    assert small.preemptions > 0 == orca.preemptions
