"""Lab: the check of lesson 6's sizes: a choice, looked up in what was measured."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from minipaged.lab.check.kernel import many
from minipaged.lab.check.verdict import Attempt, Rejected, exercise
from minipaged.lab.measure.measured import measured_tuning

DEVICES = "nvidia-h100-80gb-hbm3", "nvidia-h200"
NUM_KV_HEADS = 8  # of the shape that was measured
OTHERS = (3, 700, 4, 80), (100, 300, 2, 108)  # never measured; a rule knows them, too
ALLOWED = 0.10  # more time than the best takes
NEAR = 1.5  # times as many splits are still looked up as these

Row = Mapping[str, Any]  # as `measured_tuning` describes


class Choice(NamedTuple):
    """What the decode kernel is launched with."""

    tile: int
    num_warps: int
    num_stages: int
    num_splits: int

    def __str__(self) -> str:
        words = (f"{name} {size}" for name, size in zip(NAMES, self, strict=True))
        return ", ".join(words)


NAMES = "tile", "warps", "stages", "splits"


@exercise
def sizes(attempt: Attempt) -> Any:
    """(num_seqs, context, num_kv_heads, multiprocessors) -> four sizes."""
    lines = judge(attempt, map(measured_tuning, DEVICES))
    return lambda: "\n  ".join(lines)


def judge(attempt: Attempt, tunings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Look the choices up; for each GPU a line with its name, and one for each batch.

    Raises Rejected with all lines if a choice takes over 10 % more than the best one.
    """
    lines, faults = [], []
    for tuning in tunings:
        device, gpu = tuning["machine"]["device"], tuning["gpu"]
        lines.append(device)
        for batch, of in tuning["batches"].items():
            if of["shortest"] != of["longest"] or batch not in tuning["sweep"]:
                continue
            rows = _measured(tuning, batch)
            arguments = of["num_seqs"], of["longest"], NUM_KV_HEADS
            choice = _asked(attempt, *arguments, gpu["multiprocessors"])
            best = min(row["us"] for row in rows.values() if row["us"])
            says, times, fault = _looked_up(choice, rows, best)
            rule = tuning["chosen"][batch]["us"] / best - 1
            says += f" (decode_sizes: {rule:.0%})"
            lines.append(f"{batch:>7}: {choice}: {says}")
            if fault:
                faults.append((times, f"{device}, {batch}: {fault}"))
    for arguments in OTHERS:
        _asked(attempt, *arguments)
    if faults:
        _, worst = max(faults, key=lambda fault: fault[0])
        raise Rejected("\n  ".join([*lines, worst]))
    return lines


def _measured(tuning: Mapping[str, Any], batch: str) -> dict[Choice, Row]:
    """All rows of a batch; of two with the same sizes, the quicker one."""
    rows = [tuning["chosen"][batch], *tuning["splits"].get(batch, [])]
    rows += tuning["sweep"].get(batch, [])
    rows.sort(key=lambda row: row["us"] or math.inf, reverse=True)
    return {_sizes_of(row): row for row in rows}


def _sizes_of(row: Row) -> Choice:
    return Choice(row["tile"], row["num_warps"], row["num_stages"], row["num_splits"])


def _asked(attempt: Attempt, *arguments: int) -> Choice:
    """The reader's choice for a batch, or Rejected if it is none."""
    answer, call = attempt(*arguments), attempt.call(*arguments)
    if not isinstance(answer, tuple | list) or len(answer) != 4:
        raise Rejected(
            f"{call}: got {answer!r:.60}, expected four numbers: "
            "(tile, num_warps, num_stages, num_splits)"
        )
    if not all(isinstance(size, int) and size > 0 for size in answer):
        raise Rejected(
            f"{call}: got {answer!r:.60}, expected whole numbers from 1 on: divide "
            "with //"
        )
    return Choice(*answer)


def _looked_up(
    choice: Choice, rows: Mapping[Choice, Row], best: float
) -> tuple[str, float, str]:
    """How much time it takes, as text and in times of the best; and what is wrong."""
    for at, name in enumerate(NAMES[:3]):
        known = sorted({each[at] for each in rows})
        if choice[at] not in known:
            fault = f"{name} {choice[at]} was not measured; choose from {known}"
            return "not measured", math.inf, fault
    same = {c: row for c, row in rows.items() if c[:3] == choice[:3]}
    refused = [row for row in same.values() if row["us"] is None]
    if refused:
        fault = f"{choice} does not run. {refused[0]['why']}"
        return "does not run", math.inf, fault
    near = {c: _apart(c, choice) for c in same if _apart(c, choice) <= NEAR}
    if not near:
        return _other_splits(choice, rows, best, sorted(c[3] for c in same))
    row = rows[min(near, key=near.__getitem__)]
    times = row["us"] / best
    says = _above(times)
    if row["num_splits"] != choice.num_splits:
        says += f", as measured in {row['num_splits']}"
    if times <= 1 + ALLOWED:
        return says, times, ""
    fault = f"{row['us']:g} us, the best takes {best:g}. {_better(row, rows)}"
    return says, times, fault


def _above(times: float) -> str:
    return f"{times - 1:.0%} above the best"


def _apart(one: Choice, other: Choice) -> float:
    """How many times as many splits one has as the other, from 1 on."""
    few, many = sorted([one.num_splits, other.num_splits])
    return many / few


def _other_splits(
    choice: Choice, rows: Mapping[Choice, Row], best: float, measured: list[int]
) -> tuple[str, float, str]:
    """What to say where these sizes were not measured in so many splits."""
    near = [r["us"] for c, r in rows.items() if _apart(c, choice) <= NEAR and r["us"]]
    least = min(near, default=0.0)
    if least > (1 + ALLOWED) * best:
        fault = (
            f"in about {many(choice.num_splits, 'split')}, no sizes were quicker than "
            f"{least:g} us; the best takes {best:g}, in {_best(rows).num_splits}"
        )
        return f"at least {_above(least / best)}", least / best, fault
    fault = (
        f"tile, warps and stages of {choice[:3]} were measured in {measured} splits, "
        f"not in about {choice.num_splits}"
    )
    return "not measured", math.inf, fault


def _best(rows: Mapping[Choice, Row]) -> Choice:
    known = {choice: row["us"] for choice, row in rows.items() if row["us"]}
    return min(known, key=known.__getitem__)


def _better(row: Row, rows: Mapping[Choice, Row]) -> str:
    """The one size whose change helps most."""
    of = _sizes_of(row)
    found = {}
    for choice, other in rows.items():
        changed = [at for at in range(4) if choice[at] != of[at]]
        if len(changed) == 1 and other["us"] and other["us"] < row["us"]:
            found[choice] = changed[0]
    if not found:
        return "No single size helps: change two of them"
    choice = min(found, key=lambda choice: rows[choice]["us"])
    at = found[choice]
    return f"With {NAMES[at]} {choice[at]} alone it is {rows[choice]['us']:g}"
