"""Lab: the check of appendix C's sizes: a choice, looked up in what was measured."""

import math
from collections.abc import Iterable, Iterator, Mapping
from statistics import fmean
from typing import Any, NamedTuple

from minipaged.lab.check.verdict import Attempt, Rejected, exercise, many
from minipaged.lab.measure.measured import measured_tuning

DEVICES = "nvidia-h100-80gb-hbm3", "nvidia-h200"
SHAPE, NUM_KV_HEADS = "32 query heads, 8 KV heads, 128", 8  # that was swept
BESIDE = {"24x4k": (24, 4096), "40x4k": (40, 4096), "48x2k": (48, 2048)}  # in no sweep
OTHERS = (3, 700, 4, 80), (100, 300, 2, 108)  # never measured; a rule knows them, too
ALLOWED = 0.08  # more time than the best takes
UNKNOWN = "not measured"
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


class Look(NamedTuple):
    """What became of a choice: times of the best, its and decode_sizes'."""

    batch: str
    is_swept: bool
    times: float | None  # None: these sizes were not measured there
    rule: float


@exercise
def sizes(attempt: Attempt) -> Any:
    """(num_seqs, context, num_kv_heads, multiprocessors) -> four sizes."""
    lines = judge(attempt, map(measured_tuning, DEVICES))
    return lambda: "\n  ".join(lines)


def judge(attempt: Attempt, tunings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Look the choices up; for each GPU a line with its name, and one for each batch.

    Behind them, what the rule is worth beside decode_sizes. Raises Rejected, with the
    worst fault and then all lines, if a choice takes over 8 % more time than the best
    one. Who is quicker by a few percent is not asked: two runs of the same launch
    differ by as much. So decode_sizes itself will do.
    """
    lines, faults, looks = [], [], []
    for tuning in tunings:
        device, gpu = tuning["machine"]["device"], tuning["gpu"]
        lines.append(device)
        for batch, lengths, chosen, rows in _batches(tuning):
            arguments = *lengths, NUM_KV_HEADS, gpu["multiprocessors"]
            choice = _asked(attempt, *arguments)
            best = min(row["us"] for row in rows.values() if row["us"])
            is_swept = batch in tuning["sweep"]
            rule = rows[chosen]["us"] / best
            says, times, fault = _looked_up(choice, rows, best)
            if not is_swept and says == UNKNOWN:  # no fault: few sizes were tried
                times, fault = None, ""
            says += f" (decode_sizes: {rule - 1:.0%})"
            lines.append(f"{batch:>7}: {choice}: {says}")
            looks.append(Look(f"{device}, {batch}", is_swept, times, rule))
            if fault:
                faults.append((times, f"{device}, {batch}: {fault}"))
    for arguments in OTHERS:
        _asked(attempt, *arguments)
    if not any(look.times and not look.is_swept for look in looks):
        fault = (
            f"none of your sizes were measured on {', '.join(BESIDE)}: there, choose "
            f"from those in measured_tuning()['cells'][{SHAPE!r}]"
        )
        faults.append((0.0, fault))
    if faults:
        _, worst = max(faults, key=lambda fault: fault[0])
        raise Rejected("\n  ".join([worst, *lines]))
    return lines + _compared(looks)


def _batches(
    tuning: Mapping[str, Any],
) -> Iterator[tuple[str, tuple[int, int], Choice, dict[Choice, Row]]]:
    """Even batches: name, (num_seqs, context), what decode_sizes chooses, and rows."""
    for batch, of in tuning["batches"].items():
        if of["shortest"] == of["longest"] and batch in tuning["sweep"]:
            chosen = _sizes_of(tuning["chosen"][batch])
            lengths = of["num_seqs"], of["longest"]
            yield batch, lengths, chosen, _measured(tuning, batch)
    for batch, lengths in BESIDE.items():
        rows = tuning["cells"][SHAPE][batch]
        yield batch, lengths, _sizes_of(rows[0]), _by_sizes(rows)


def _measured(tuning: Mapping[str, Any], batch: str) -> dict[Choice, Row]:
    """All rows of a batch that was swept."""
    rows = [tuning["chosen"][batch], *tuning["splits"].get(batch, [])]
    return _by_sizes(rows + tuning["sweep"].get(batch, []))


def _by_sizes(rows: Iterable[Row]) -> dict[Choice, Row]:
    """Of two rows with the same sizes, the quicker one."""
    slowest_first = sorted(rows, key=lambda row: row["us"] or math.inf, reverse=True)
    return {_sizes_of(row): row for row in slowest_first}


def _compared(looks: list[Look]) -> list[str]:
    """Lines: what the rule is worth beside decode_sizes."""
    known = [look for look in looks if look.times]
    unseen = [look for look in known if not look.is_swept]
    of_unseen = f"on {', '.join(BESIDE)}, which are in no sweep"
    worth = [_worth("on all", known), _worth(of_unseen, unseen)]
    if all(look.times == look.rule for look in looks):
        worst = max(looks, key=lambda look: look.rule)
        worth.append(
            "in these batches decode_sizes chooses the same; it is furthest from the "
            f"best in {worst.batch}: {worst.rule - 1:.1%}. Can you beat it there?"
        )
    return worth


def _worth(where: str, looks: list[Look]) -> str:
    """A line: how far from the best two rules are."""
    found = []
    for times in zip(*((look.times, look.rule) for look in looks), strict=True):
        mean, worst = fmean(times) - 1, max(times) - 1
        found.append(f"{mean:.1%} in the mean, {worst:.1%} at worst")
    return f"{where}, above the best: {found[0]} (decode_sizes: {found[1]})"


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
    if not all(isinstance(size, int) for size in answer):
        said = "expected whole numbers: divide with //"
        raise Rejected(f"{call}: got {answer!r:.60}, {said}")
    for name, size in zip(NAMES, answer, strict=True):
        if size < 1:
            said = f"{size} {name}: at least 1, max(1, ...)"
            raise Rejected(f"{call}: got {answer!r:.60}; {said}")
    return Choice(*answer)


def _looked_up(
    choice: Choice, rows: Mapping[Choice, Row], best: float
) -> tuple[str, float, str]:
    """How much time it takes, as text and in times of the best; and what is wrong."""
    for at, name in enumerate(NAMES[:3]):
        known = sorted({each[at] for each in rows})
        if choice[at] not in known:
            fault = f"{name} {choice[at]} was not measured; choose from {known}"
            return UNKNOWN, math.inf, fault
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
    return UNKNOWN, math.inf, fault


def _best(rows: Mapping[Choice, Row]) -> Choice:
    known = {choice: row["us"] for choice, row in rows.items() if row["us"]}
    return min(known, key=known.__getitem__)


def _better(row: Row, rows: Mapping[Choice, Row]) -> str:
    """The one size whose change helps most; if none does, the two."""
    of = _sizes_of(row)
    quicker = {c: r["us"] for c, r in rows.items() if r["us"] and r["us"] < row["us"]}
    changes = {c: [at for at in range(4) if c[at] != of[at]] for c in quicker}
    for number, only in ((1, " alone"), (2, "")):
        found = [c for c in quicker if len(changes[c]) == number]
        if found:
            best = min(found, key=quicker.__getitem__)
            sizes = " and ".join(f"{NAMES[at]} {best[at]}" for at in changes[best])
            return f"With {sizes}{only} it is {quicker[best]:g}"
    return "Change more than two sizes"
