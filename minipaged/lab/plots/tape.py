"""Lab: what a tape reads and writes, and a tensor that is not on it."""

from collections.abc import Mapping

from torch import Tensor
from torch.utils._pytree import tree_leaves

from minipaged.draw.picture import Cell, Picture
from minipaged.draw.rows import Row
from minipaged.draw.tones import free, soft, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.lab.tour.tape import Tape


def plot_tape(tape: Tape, tensors: Mapping[str, Tensor], title: str) -> Figure:
    """A row for each of these tensors, and for each call on tape, with its result.

    An arrow leads from what a call reads to what it writes. A tensor that no call reads
    is pale, and stands first. All are short and have one dimension, or none.
    """
    picture, rows = Picture(title), {}
    calls = [(func, tree_leaves(args), out) for func, args, _, out in tape.calls]
    read = {leaf.data_ptr() for _, leaves, _ in calls for leaf in _tensors(leaves)}
    for name in sorted(tensors, key=lambda name: tensors[name].data_ptr() in read):
        tensor = tensors[name]
        is_read = tensor.data_ptr() in read
        remark = "read on tape" if is_read else "not on tape"
        row = _row(picture, name, remark, tensor, soft(0) if is_read else free())
        rows[tensor.data_ptr()] = row
    for number, (func, leaves, out) in enumerate(calls, start=1):
        name = func.__name__.split(".")[0]
        row = _row(picture, name, f"call {number}", out, strong(0))
        for leaf in _tensors(leaves):
            if leaf.data_ptr() in rows:
                picture.link(_all_of(rows[leaf.data_ptr()]), _all_of(row))
        rows[out.data_ptr()] = row
    picture.legend((strong(0), "written by each replay"), (free(), "never read"))
    return render(picture.scene())


def _tensors(leaves: list) -> list[Tensor]:
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def _row(picture: Picture, name: str, remark: str, tensor: Tensor, tone) -> Row:
    cells = [Cell(f"{n:g}", tone) for n in tensor.reshape(-1).tolist()]
    return picture.row(name, remark, cells, is_bold=True)


def _all_of(row: Row):
    return row[0 : len(row.cells)]
