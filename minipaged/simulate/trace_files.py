"""Appendix F: traces that others have published; to be downloaded by the reader.

Requests are made one by one, in the order of the file, because all prompts of a trace
together would take gigabytes. Moments count from the first request.
"""

import csv
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from pathlib import Path

from minipaged.simulate.traces import Asked

MOONCAKE_BLOCK = 512  # tokens of a hashed block


def azure(path: str | Path) -> Iterator[Asked]:
    """Azure's LLM inference trace of 2023: a CSV file.

    Columns: TIMESTAMP, ContextTokens, GeneratedTokens.
    Source: github.com/Azure/AzurePublicDataset (CC-BY); Patel et al., Splitwise, 2024.
    """
    return _trace(
        (
            # Seven fractional digits, which strptime refuses.
            datetime.fromisoformat(row["TIMESTAMP"].strip()).timestamp(),
            int(row["ContextTokens"]),
            int(row["GeneratedTokens"]),
        )
        for row in _rows(path)
    )


def burstgpt(path: str | Path) -> Iterator[Asked]:
    """BurstGPT: a CSV file. Rows with 0 response tokens are failures, and left out.

    Columns: Timestamp (seconds), Request tokens, Response tokens, and others.
    Source: github.com/HPMLL/BurstGPT; Wang et al., 2024.
    """
    return _trace(
        (
            float(row["Timestamp"]),
            int(row["Request tokens"]),
            int(row["Response tokens"]),
        )
        for row in _rows(path)
    )


def mooncake(path: str | Path) -> Iterator[Asked]:
    """Mooncake's traces: a JSON object in each line.

    Fields: timestamp (milliseconds), input_length, output_length, and hash_ids, of
    blocks of 512 tokens: equal ids stand for equal blocks. The last id may stand for a
    part of a block. Requests are recorded in batches, one every 3 seconds. They are
    spread evenly up to the next batch, for otherwise they would queue only because of
    the record.
    Source: github.com/kvcache-ai/Mooncake; Qin et al., 2025.
    """
    lines = Path(path).read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line.strip()]
    moments = spread(row["timestamp"] / 1000 for row in rows)
    for moment, row in zip(moments, rows, strict=True):
        prompt: list[int] = []
        for token in row["hash_ids"]:
            prompt += [token] * min(MOONCAKE_BLOCK, row["input_length"] - len(prompt))
        if prompt and row["output_length"]:
            yield Asked(moment - moments[0], prompt, (row["output_length"],))


def spread(moments: Iterable[float]) -> list[float]:
    """Equal moments, apart: evenly up to the next one; the last ones as those before.

    For example, [0, 0, 0, 3] becomes [0, 1, 2, 3].
    """
    batches = [(moment, len([*same])) for moment, same in groupby(moments)]
    found: list[float] = []
    width = 0.0
    for at, (moment, count) in enumerate(batches):
        if at + 1 < len(batches):
            width = batches[at + 1][0] - moment
        found += [moment + width * place / count for place in range(count)]
    return found


def _rows(path: str | Path) -> Iterator[dict[str, str]]:
    with Path(path).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _trace(rows: Iterable[tuple[float, int, int]]) -> Iterator[Asked]:
    """Of (moment, prompt tokens, output tokens); without those that have no tokens.

    No two prompts are alike: nothing is known of their texts.
    """
    start: float | None = None
    for number, (moment, prompt, output) in enumerate(rows):
        start = moment if start is None else start
        if prompt and output:
            yield Asked(moment - start, [number] * prompt, (output,))
