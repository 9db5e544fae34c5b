"""Appendix F: traces that others have published; to be downloaded by the reader."""

import csv
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from pathlib import Path

from minipaged.simulate.traces import Asked

MOONCAKE_BLOCK = 512  # tokens of a hashed block


def azure(path: str | Path) -> list[Asked]:
    """Azure's LLM inference trace of 2023: a CSV file with the columns

    TIMESTAMP, ContextTokens, GeneratedTokens. Moments count from the first request.
    Source: github.com/Azure/AzurePublicDataset (CC-BY); Patel et al., Splitwise, 2024.
    """
    moments, lengths = [], []
    for row in _rows(path):
        # Seven fractional digits, which strptime refuses.
        moments.append(datetime.fromisoformat(row["TIMESTAMP"].strip()).timestamp())
        lengths.append((int(row["ContextTokens"]), int(row["GeneratedTokens"])))
    return _trace(moments, lengths)


def burstgpt(path: str | Path) -> list[Asked]:
    """BurstGPT: a CSV file with Timestamp (seconds), Request tokens, Response tokens.

    Rows with 0 response tokens are failures: they are left out.
    Source: github.com/HPMLL/BurstGPT; Wang et al., 2024.
    """
    moments, lengths = [], []
    for row in _rows(path):
        if int(row["Response tokens"]):
            moments.append(float(row["Timestamp"]))
            lengths.append((int(row["Request tokens"]), int(row["Response tokens"])))
    return _trace(moments, lengths)


def mooncake(path: str | Path) -> list[Asked]:
    """Mooncake's traces: a JSON object in each line, with timestamp (milliseconds),

    input_length, output_length, and hash_ids, of blocks of 512 tokens: equal ids stand
    for equal blocks after equal blocks. The last id may stand for a part of a block.
    Requests are recorded in batches, every 3 seconds: they are spread evenly up to the
    next batch, for otherwise they would queue only because of the record.
    Source: github.com/kvcache-ai/Mooncake; Qin et al., 2025.
    """
    lines = Path(path).read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line.strip()]
    prompts = (
        [
            token
            for block, token in enumerate(row["hash_ids"])
            for _ in range(
                min(MOONCAKE_BLOCK, row["input_length"] - block * MOONCAKE_BLOCK)
            )
        ]
        for row in rows
    )
    moments = spread([row["timestamp"] / 1000 for row in rows])
    return [
        Asked(moment, prompt, (max(1, row["output_length"]),))
        for moment, prompt, row in zip(moments, prompts, rows, strict=True)
    ]


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


def _trace(moments: list[float], lengths: list[tuple[int, int]]) -> list[Asked]:
    """No two prompts are alike: nothing is known of their texts."""
    start = min(moments, default=0.0)
    trace = [
        Asked(moment - start, [number] * prompt, (output,))
        for number, (moment, (prompt, output)) in enumerate(
            zip(moments, lengths, strict=True)
        )
        if prompt and output
    ]
    return sorted(trace, key=lambda asked: asked.arrival)
