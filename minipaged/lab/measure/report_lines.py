"""Lab: reports of servers side by side, as text."""

from collections.abc import Mapping

from minipaged.simulate.report import Report

COLUMNS = {
    "first token": "time_to_first_token",
    "per token": "time_per_token",
    "whole answer": "latency",
}


def report_lines(reports: Mapping[str, Report]) -> str:
    """Mean and P99, in milliseconds, of what users wait for; and the preemptions.

    Below two reports stands how far the second is off the first.
    """
    head = "".join(f"{name + ' (ms)':>20}" for name in COLUMNS)
    lines = [f"{'':14}{head}", f"{'':14}" + f"{'mean':>10}{'P99':>10}" * len(COLUMNS)]
    lines[-1] += f"{'preemptions':>13}"
    waits = {
        name: [1000 * n for column in COLUMNS.values() for n in report.summary(column)]
        for name, report in reports.items()
    }
    for name, own in waits.items():
        numbers = "".join(f"{number:10,.1f}" for number in own)
        lines.append(f"{name:14}{numbers}{reports[name].preemptions:13,}")
    if len(waits) == 2:
        pairs = zip(*waits.values(), strict=True)
        off = "".join(f"{ours / theirs - 1:+10.1%}" for theirs, ours in pairs)
        lines.append(f"{'':14}{off}")
    return "\n".join(lines)
