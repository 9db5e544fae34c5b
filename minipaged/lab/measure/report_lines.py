"""Lab: reports of servers side by side, as text."""

from collections.abc import Mapping

from minipaged.simulate.report import Report

COLUMNS = {
    "first token": "time_to_first_token",
    "per token": "time_per_token",
    "whole answer": "latency",
}


def report_lines(reports: Mapping[str, Report]) -> str:
    """Mean and P99, in milliseconds, of what users wait for; and the preemptions."""
    head = "".join(f"{name + ' (ms)':>20}" for name in COLUMNS)
    lines = [f"{'':14}{head}", f"{'':14}" + f"{'mean':>10}{'P99':>10}" * len(COLUMNS)]
    lines[-1] += f"{'preemptions':>13}"
    for name, report in reports.items():
        both = [report.summary(column) for column in COLUMNS.values()]
        numbers = "".join(f"{1000 * n:10,.1f}" for summary in both for n in summary)
        lines.append(f"{name:14}{numbers}{report.preemptions:13,}")
    return "\n".join(lines)
