"""Appendix F: traces that others have published; to be downloaded by the reader.

Requests are made one by one, in the order of the file, because all prompts of a trace
together would take gigabytes. Moments count from the first request.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path

from minipaged.simulate.traces import Asked

MOONCAKE_BLOCK = 512  # tokens of a hashed block
MOONCAKE_FIELDS = ("timestamp", "input_length", "output_length", "hash_ids")


def azure(path: str | Path) -> Iterator[Asked]:
    """Azure's LLM inference trace of 2023: a CSV file.

    Columns: TIMESTAMP, ContextTokens, GeneratedTokens.
    Source: github.com/Azure/AzurePublicDataset (CC-BY); Patel et al., Splitwise, 2024.
    """

    def seconds(text: str) -> float:
        # Seven fractional digits, which strptime refuses.
        return datetime.fromisoformat(text.strip()).timestamp()

    columns = {"TIMESTAMP": seconds, "ContextTokens": int, "GeneratedTokens": int}
    return _trace(_rows(path, columns))


def burstgpt(path: str | Path) -> Iterator[Asked]:
    """BurstGPT: a CSV file. Rows with 0 response tokens are failures, and left out.

    Columns: Timestamp (seconds), Request tokens, Response tokens, and others.
    Source: github.com/HPMLL/BurstGPT; Wang et al., 2024.
    """
    columns = {"Timestamp": float, "Request tokens": int, "Response tokens": int}
    return _trace(_rows(path, columns))


def mooncake(path: str | Path) -> Iterator[Asked]:
    """Mooncake's traces: a JSON object in each line.

    Fields: timestamp (milliseconds), input_length, output_length, and hash_ids, of
    blocks of 512 tokens: equal ids stand for equal blocks. The last id may stand for a
    part of a block. Requests are recorded in batches, one every 3 seconds. They are
    spread evenly up to the next batch, for otherwise they would queue only because of
    the record.
    Source: github.com/kvcache-ai/Mooncake; Qin et al., 2025.
    """
    rows = []
    for number, line in enumerate(Path(path).read_text("utf-8").splitlines(), start=1):
        if line.strip():
            try:
                row = json.loads(line)
                rows.append([row[name] for name in MOONCAKE_FIELDS])
            except (KeyError, TypeError, ValueError) as error:
                raise _unreadable(path, number, MOONCAKE_FIELDS) from error
    moments = spread(row[0] / 1000 for row in rows)
    for moment, (_, length, output, hash_ids) in zip(moments, rows, strict=True):
        prompt: list[int] = []
        for token in hash_ids:
            prompt += [token] * min(MOONCAKE_BLOCK, length - len(prompt))
        if prompt and output:
            yield Asked(moment - moments[0], prompt, (output,))


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


def _rows(
    path: str | Path, columns: Mapping[str, Callable[[str], float]]
) -> Iterator[list[float]]:
    """These columns of a CSV file, each read by its function."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        for row in reader:
            try:
                numbers = [read(row.get(name) or "") for name, read in columns.items()]
            except ValueError as error:
                raise _unreadable(path, reader.line_num, columns) from error
            yield numbers


def _unreadable(path: str | Path, line: int, names: Iterable[str]) -> ValueError:
    return ValueError(
        f"line {line} of {path} has no {', '.join(names)} that can be read: is it "
        "another file, or cut off? Download it again, or delete the line"
    )


def _trace(rows: Iterable[Sequence[float]]) -> Iterator[Asked]:
    """Of (moment, prompt tokens, output tokens); without those that have no tokens.

    No two prompts are alike: nothing is known of their texts.
    """
    start: float | None = None
    for number, (moment, prompt, output) in enumerate(rows):
        start = moment if start is None else start
        if prompt and output:
            yield Asked(moment - start, [number] * prompt, (output,))
