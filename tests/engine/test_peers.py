"""HuggingFace's continuous batching beside the engine: who waits for its answers."""

from types import SimpleNamespace

import pytest

from benchmarks.gpu.huggingface_engine import _answers
from benchmarks.gpu.workloads import Asked

TRACE = [Asked([1, 2], 3), Asked([4], 1), Asked([5, 6, 7], 2)]


class Manager:
    """What `init_continuous_batching` gives: answers the latest request first."""

    def __init__(self, too_few: int = 0, lost: int = 0, error: str | None = None):
        self.asked, self.too_few, self.lost, self.error = [], too_few, lost, error

    def add_request(self, prompt, max_new_tokens):
        self.asked.append((len(self.asked), max_new_tokens))
        return self.asked[-1][0]

    def is_running(self):
        return False

    def get_result(self, timeout):
        if len(self.asked) == self.lost:
            return None
        number, length = self.asked.pop()
        tokens = [0] * (length - self.too_few * (number == 0))
        return SimpleNamespace(
            request_id=number, generated_tokens=tokens, error=self.error
        )


def test_all_answers_are_waited_for():
    manager = Manager()
    _answers(manager, TRACE)
    assert manager.asked == []


@pytest.mark.parametrize(
    ("manager", "said"),
    [
        (Manager(too_few=1), "2 tokens, not 3"),
        (Manager(lost=2), "2 requests have no answer"),
        (Manager(error="no room"), "no room"),
    ],
)
def test_an_answer_that_is_short_or_never_comes_is_no_measurement(manager, said):
    with pytest.raises(RuntimeError, match=said):
        _answers(manager, TRACE)
