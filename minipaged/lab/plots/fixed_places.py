"""Lab: a step that was filled up to the size of a graph, as the graph reads it."""

import torch

from minipaged.draw.letters import counted, signed
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import KEPT, Tone, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.model.inputs import RaggedBatch


def plot_fixed_places(batch: RaggedBatch, num_sequences: int, title: str) -> Figure:
    """Each place of the batch that is for a token or a row; padding is hatched.

    batch: with padding, as `FixedInputs.batch` makes it. num_sequences: its first rows
    are sequences, all others are padding. Of a table, only blocks with tokens are
    drawn.
    """
    picture = Picture(title)
    starts = batch.query_starts
    token = torch.arange(len(batch.tokens))
    row_of = torch.searchsorted(starts, token, right=True) - 1
    num_rows = len(batch.context_lengths)
    num_tokens = int(starts[num_sequences])
    of_tokens = {
        "tokens": batch.tokens,
        "positions": batch.positions,
        "slots": batch.slots,
    }
    remark = f"{num_tokens} of {len(token)}"
    for name, numbers in of_tokens.items():
        owners = zip(numbers.tolist(), row_of.tolist(), strict=True)
        cells = [Cell(signed(n, 0), _tone(row, num_sequences)) for n, row in owners]
        picture.row(name, remark, cells, is_bold=True)
    remark = f"{num_sequences} of {num_rows}"
    lengths = batch.context_lengths.tolist()
    block_size = batch.max_context_length // batch.block_tables.shape[1]
    held = [-(-length // block_size) for length in lengths]
    tables = zip(batch.block_tables.tolist(), held, strict=True)
    of_rows = {
        "context_lengths": [signed(length, 0) for length in lengths],
        "block_tables": [" ".join(map(str, table[:count])) for table, count in tables],
    }
    for name, words in of_rows.items():
        pairs = enumerate(words)
        cells = [Cell(word, _tone(row, num_sequences)) for row, word in pairs]
        picture.row(name, remark, cells, is_bold=True)
    sequences = counted(num_sequences, "sequence")
    picture.legend((strong(0), f"of {sequences}"), (KEPT, "padding"))
    return render(picture.scene())


def _tone(row: int, num_sequences: int) -> Tone:
    return strong(row) if row < num_sequences else KEPT
