"""Lab: what becomes of numbers that are stored in 8 bits: written, and read again."""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import torch

from minipaged.draw.palette import BAD
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import soft, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.eight_bits import from_eight_bits, to_eight_bits


def plot_written(
    numbers: Sequence[float], scale: float, title: str, name: str = "K"
) -> Figure:
    """From a head's numbers to its bytes and back, a column for each number.

    What is off by more than a sixteenth when it is read is told in colour: it was too
    large for the largest number, or too small for the steps between numbers.
    """
    given = torch.tensor(numbers, dtype=torch.float32)
    of_head = torch.tensor([scale])
    stored = to_eight_bits(given[:, None, None], of_head)[:, 0, 0]
    read = from_eight_bits(stored[None, :, None], of_head, torch.float32)[0, :, 0]
    is_bad = ((read - given).abs() > given.abs() / 16).tolist()
    by = Fraction(scale)
    picture = Picture(title, widest=88.0)
    rows = {
        (name, "in the model's type"): map(short, given.tolist()),
        (f"÷ {by}", "divided by the scale"): map(short, (given / scale).tolist()),
        ("e4m3", "rounded"): map(short, stored.float().tolist()),
        ("byte", "stored"): map(in_bits, stored.view(torch.uint8).tolist()),
        (f"× {by}", "read"): map(short, read.tolist()),
    }
    above = None
    for (label, remark), words in rows.items():
        tone = strong(0) if label == "byte" else soft(0)
        cells = [
            Cell(word, tone, rim=BAD if bad else "none")
            for word, bad in zip(words, is_bad, strict=True)
        ]
        row = picture.row(label, remark, cells, height=24, apart=14)
        if above is not None:
            for one, other in zip(above, row, strict=True):
                picture.link(one, other, is_straight=True)
        above = list(row)
    picture.legend((strong(0), "what the cache holds"))
    return render(picture.scene())


def short(number: float) -> str:
    """A number in four digits, without an exponent."""
    return f"{Decimal(f'{number:.4g}'):f}"


def in_bits(byte: int) -> str:
    """Sign, exponent and mantissa of a byte that is e4m3: 0 1011 010."""
    bits = f"{byte:08b}"
    return f"{bits[0]} {bits[1:5]} {bits[5:]}"
