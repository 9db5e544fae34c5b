"""The record of operations: what moves is counted once, what does not, never."""

import pytest
import torch

from minipaged.lab.measure.operations import operations_of

NUMBERS = 1024
BYTES = 4 * NUMBERS
TABLE = torch.arange(100.0 * 8).view(100, 8)
ROWS = torch.tensor([3, 3, 90])  # of the table


def rows_into():
    torch.index_select(TABLE, 0, ROWS, out=torch.empty(3, 8))


@pytest.mark.parametrize(
    ("compute", "name", "read", "written"),
    [
        (lambda: torch.ones(NUMBERS) + 1, "add", BYTES, BYTES),
        (lambda: torch.ones(NUMBERS).exp_(), "exp_", BYTES, BYTES),
        (lambda: torch.ones(NUMBERS).amax(), "amax", BYTES, 4),
        (lambda: TABLE[ROWS], "index", 3 * 32 + 3 * 8, 3 * 32),
        (lambda: TABLE.index_select(0, ROWS), "index_select", 3 * 40, 3 * 32),
        (rows_into, "index_select", 3 * 40, 3 * 32),
        (lambda: TABLE.new_empty(9), "new_empty", 0, 0),
        (lambda: TABLE.new_zeros(9), "new_zeros", 0, 36),
        (lambda: torch.zeros(9).fill_(1), "fill_", 0, 36),
        (lambda: torch.ones(2, 8).copy_(TABLE[0]), "copy_", 32, 64),
        (lambda: torch.ones(1).expand(NUMBERS) + 1, "add", 4, BYTES),
    ],
)
def test_what_an_operation_moves(compute, name, read, written):
    assert operations_of(compute)[-1] == (name, read, written)


def test_operations_are_in_order_and_views_are_left_out():
    found = operations_of(lambda: TABLE.view(-1)[:NUMBERS].exp().view(4, -1).mT.sum())
    assert [operation.name for operation in found] == ["exp", "sum"]


def test_inference_mode_changes_nothing():
    with torch.inference_mode():
        found = operations_of(lambda: TABLE.exp().view(-1) + 1)
    assert [operation.name for operation in found] == ["exp", "add"]


def test_outside_nothing_is_noted():
    found = operations_of(lambda: TABLE + 1)
    TABLE.exp()
    assert len(found) == 1


@pytest.mark.parametrize("inference", [False, True])
def test_a_copy_that_says_that_it_is_a_view_is_counted(inference):
    with torch.inference_mode(inference):
        x = torch.ones(2, 3)
        found = operations_of(lambda: (x.to(torch.float64), x.t().reshape(6)))
        copies = [one.written for one in found if one.name != "_unsafe_view"]
        assert copies == [6 * 8, 6 * 4]
        assert not operations_of(lambda: (x.to(x.dtype), x.reshape(6), x.split(1)))
