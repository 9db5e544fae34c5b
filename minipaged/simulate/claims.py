"""Appendix F: what the paper says of its figures, beside what was computed."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from textwrap import wrap
from typing import Any, NamedTuple

SLACK = 0.25  # by which a range of the paper is widened on both sides

Results = Mapping[str, Any]  # by the names of paper.PARTS
Values = Callable[[Results], list[float | None]]


PLACES = INSIDE, NEAR, OUTSIDE = "inside", "near", "outside"


class Claim(NamedTuple):
    """A range of the paper; `values` finds ours, `note` is why ours may lie outside.

    A range from 0 on is an "up to", which can hardly fail.
    """

    what: str
    low: float
    high: float
    values: Values
    note: str = ""


class Verdict(NamedTuple):
    """A claim beside ours; None for a rate that was not found."""

    what: str
    paper: tuple[float, float]
    ours: list[float | None]
    note: str  # our explanation, if one of ours lies outside the paper's range

    def place(self, number: float) -> str:
        """Inside the paper's range; or near, in the widened one; or outside."""
        low, high = self.paper
        if low <= number <= high:
            return INSIDE
        is_near = low * (1 - SLACK) <= number <= high * (1 + SLACK)
        return NEAR if is_near else OUTSIDE

    @property
    def places(self) -> list[str]:
        """Where ours lie, those that are known."""
        return [self.place(each) for each in self.ours if each is not None]

    @property
    def word(self) -> str:
        """Where ours lie, counted if they differ: "2 inside, 1 near"."""
        counts = Counter(self.places)
        if len(counts) == 1:
            return next(iter(counts))
        told = [f"{counts[place]} {place}" for place in PLACES if counts[place]]
        return ", ".join(told) or "unknown"


def verdicts(results: Results) -> Iterator[Verdict]:
    """Of each claim whose figures have been computed."""
    for what, low, high, values, note in CLAIMS:
        try:
            ours = values(results)
        except KeyError:
            continue
        verdict = Verdict(what, (low, high), ours, note)
        is_exact = {*verdict.places} <= {INSIDE}
        yield verdict._replace(note="") if is_exact else verdict


def table(results: Results) -> str:
    """All verdicts as lines of text; our explanation stands below its claim."""
    lines = [f"{'':49}{'paper':>10}  {'ours':18}near: by {SLACK:.0%}"]
    for verdict in verdicts(results):
        low, high = verdict.paper
        paper = f"{low:.3g}-{high:.3g}" if low else f"up to {high:.3g}"
        if low == high:
            paper = f"{low:.3g}"
        found = ", ".join(
            "?" if each is None else f"{each:.3g}" for each in verdict.ours
        )
        lines.append(f"{verdict.what:49}{paper:>10}  {found:18}{verdict.word}")
        if verdict.note:
            note = f"our explanation: {verdict.note}"
            lines += wrap(note, 86, initial_indent=" " * 4, subsequent_indent=" " * 4)
    return "\n".join(lines)


def _rates(
    part: str, baseline: str, ours: str = "vLLM", width: str | None = None
) -> Values:
    """Our rate over a baseline's, from one part; None if no limit was passed."""

    def values(results: Results) -> list[float | None]:
        found = results[part] if width is None else results[part][width]
        rate, other = (found[name]["sustained"] for name in (ours, baseline))
        return [None if rate is None or other is None else rate / other]

    return values


def _growth(results: Results) -> list[float | None]:
    """Of the gain over Orca (Oracle) on Alpaca, from 1 answer to 6 beams."""
    (six,) = _rates("figure 14, beams", "Orca (Oracle)", width="6")(results)
    (one,) = _rates("figure 12, OPT-13B, Alpaca", "Orca (Oracle)")(results)
    return [None if one is None or six is None else six / one]


def _over_models(baseline: str, dataset: str) -> Values:
    """The same for the three models, in the order of their sizes."""

    def values(results: Results) -> list[float | None]:
        names = [f"figure 12, OPT-{size}, {dataset}" for size in ("13B", "66B", "175B")]
        return [ratio for name in names for ratio in _rates(name, baseline)(results)]

    return values


def _running(baseline: str, rate: str) -> Values:
    """Requests that run at a time, ours over a baseline's."""

    def values(results: Results) -> list[float | None]:
        found = results["figure 13, OPT-13B, ShareGPT"][f"{rate} a second"]
        return [found["vLLM"] / found[baseline]]

    return values


def _saved(kind: str, dataset: str) -> Values:
    """Per cent of blocks, for 2, 4 and 6 samples or beams."""

    def values(results: Results) -> list[float | None]:
        return [100 * one for one in results[f"figure 15, {kind}"][dataset].values()]

    return values


FASTER = (
    "A100s by their data sheet are faster than the paper's servers: at this rate vLLM "
    "serves all at once, so it has no more to run"
)
COMPUTING = (
    "OPT-175B has room for so many requests that a step is bound by arithmetic and by "
    "reading K and V: both take longer with more requests"
)
STATIC = (
    "7 short requests wait for the longest of them, in 2,048 slots each, whatever they "
    "need; the paper's 22 is the highest of all its curves"
)
PER_SEQUENCE = (
    "a sequence adds only its K and V to a step, so a larger batch is nearly all "
    "gained; in a real server the host's work for each of 130 sequences counts, too"
)
STEPS = (
    "1.8 times as many requests run, but a step of them takes longer, and a prompt of "
    "1,024 tokens takes 85 ms for every system"
)
CROWDED = (
    "the gain without beams is too large already; and at most 256 sequences run at a "
    "time, as by vLLM's defaults of 2023, so 42 requests, before memory is full"
)
NEUTRAL = (
    "beams continue each other at random, so they soon have a common ancestor; the "
    "pocket model's own beams stay apart for longer"
)
CLAIMS = [
    Claim("rate over Orca (Oracle), ShareGPT, by size", 1.7, 2.7,
          _over_models("Orca (Oracle)", "ShareGPT"), COMPUTING),
    Claim("rate over Orca (Max), ShareGPT, by size", 2.7, 8.0,
          _over_models("Orca (Max)", "ShareGPT"), COMPUTING),
    Claim("rate over FasterTransformer, ShareGPT, by size", 0.0, 22.0,
          _over_models("FasterTransformer", "ShareGPT"), STATIC),
    Claim("rate over FasterTransformer, Alpaca, by size", 0.0, 22.0,
          _over_models("FasterTransformer", "Alpaca"), STATIC),
    Claim("requests at a time over Orca (Oracle), 2 a second", 2.2, 2.2,
          _running("Orca (Oracle)", "2"), FASTER),
    Claim("requests at a time over Orca (Max), 2 a second", 4.3, 4.3,
          _running("Orca (Max)", "2"), FASTER),
    # Twice the rate is the same rate on a server half as fast.
    Claim("requests at a time over Orca (Oracle), half speed", 2.2, 2.2,
          _running("Orca (Oracle)", "4")),
    Claim("requests at a time over Orca (Max), half speed", 4.3, 4.3,
          _running("Orca (Max)", "4")),
    Claim("rate over Orca (Oracle), OPT-13B, Alpaca", 1.3, 1.3,
          _rates("figure 12, OPT-13B, Alpaca", "Orca (Oracle)"), PER_SEQUENCE),
    Claim("rate over Orca (Oracle), Alpaca, 6 beams", 2.3, 2.3,
          _rates("figure 14, beams", "Orca (Oracle)", width="6"), CROWDED),
    Claim("gain over Orca (Oracle), 6 beams / 1 answer", 2.3 / 1.3, 2.3 / 1.3,
          _growth, CROWDED),
    Claim("memory saved (%), samples, Alpaca", 6.1, 9.8, _saved("samples", "Alpaca")),
    Claim("memory saved (%), beams, Alpaca", 37.6, 55.2,
          _saved("beams", "Alpaca"), NEUTRAL),
    Claim("memory saved (%), samples, ShareGPT", 16.2, 30.5,
          _saved("samples", "ShareGPT")),
    Claim("memory saved (%), beams, ShareGPT", 44.3, 66.3,
          _saved("beams", "ShareGPT"), NEUTRAL),
    Claim("rate over Orca (Oracle), one-shot prefix", 1.67, 1.67,
          _rates("figure 16, one-shot", "Orca (Oracle)", "vLLM, prefix cache")),
    Claim("rate over Orca (Oracle), few-shot prefix", 3.58, 3.58,
          _rates("figure 16, few-shot", "Orca (Oracle)", "vLLM, prefix cache")),
    Claim("rate over Orca (Oracle), chat", 2.0, 2.0,
          _rates("figure 17", "Orca (Oracle)"), STEPS),
]  # fmt: skip
