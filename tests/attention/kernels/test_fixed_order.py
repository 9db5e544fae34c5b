"""Chunks that several programs read are merged to the bits of a single program's."""

import pytest
import torch

from helpers.attention_cases import make_case, oracle, sinks_of
from minipaged.attention.kernels import fixed_order

DECODE = [(0, 1), (63, 1), (64, 1), (150, 1)]


pytestmark = pytest.mark.usefixtures("rows_alike")


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    """Else contexts would have to be long, and the interpreter is slow."""
    monkeypatch.setattr(fixed_order, "CHUNK", 64)


@pytest.mark.parametrize(
    "masking",
    [{}, {"sliding_window": 40}, {"softcap": 3.0}, {"sinks": sinks_of(4)}],
    ids=str,
)
def test_split_or_not_the_bits_are_the_same(masking):
    case = make_case(DECODE)

    def attend(num_splits):
        return case.attend(
            lambda *given: fixed_order.attend_in_fixed_order(
                *given, num_splits=num_splits
            ),
            **masking,
        )

    whole = attend(1)
    error = (whole.double() - oracle(case, **{"scale": 0.25, **masking})).abs()
    assert error.max() < 3e-5
    for num_splits in (2, 3, 100):
        assert torch.equal(attend(num_splits), whole)


def test_another_order_has_other_bits(monkeypatch):
    """Chunks of another size are other sums: else the test above would show nothing."""
    case = make_case(DECODE)
    whole = case.attend(fixed_order.fixed_order_kernels)
    monkeypatch.setattr(fixed_order, "CHUNK", 128)
    assert not torch.equal(case.attend(fixed_order.fixed_order_kernels), whole)
