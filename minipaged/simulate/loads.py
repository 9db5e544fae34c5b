"""Lab: what `python -m minipaged.simulate` asks of its servers, by its arguments."""

from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence

from minipaged.simulate import shared_prefixes, trace_files, traces
from minipaged.simulate.systems import Room, System, fits

CONVERSATIONS = "conversations"
APPLICATIONS = "applications"  # conversations behind a few system prompts
TEXTS = "texts"  # questions behind texts
TALKS = (CONVERSATIONS, APPLICATIONS)
OWN_PREFIXES = (*TALKS, TEXTS)
FILES = {
    "azure": trace_files.azure,
    "burstgpt": trace_files.burstgpt,
    "mooncake": trace_files.mooncake,
}


def unit_of(given: Namespace) -> str:
    """What --rates counts."""
    if given.trace:
        return "times as fast"
    what = CONVERSATIONS if given.load in TALKS else "requests"
    return f"{what} a second"


def trace_of(given: Namespace, rate: float, max_length: int) -> list[traces.Asked]:
    """What is asked at this rate; ValueError if nothing is."""
    count = max(1, round(rate * given.minutes * 60))
    if given.trace:
        trace = _recorded(*given.trace, rate, given.minutes)
    elif given.load == CONVERSATIONS:
        trace = traces.conversations(count, rate, given.seed, max_length=max_length)
    elif given.load == APPLICATIONS:
        trace = shared_prefixes.applications(
            count, rate, given.seed, max_length=max_length
        )
    elif given.load == TEXTS:
        trace = shared_prefixes.shared_texts(count, rate, given.seed)
    else:
        lengths = traces.LENGTHS[given.load](count, given.seed)
        trace = traces.poisson_trace(lengths, rate, given.seed, given.prefix)
    if given.samples:
        return traces.with_samples(trace, given.samples)
    return traces.with_beams(trace, given.beams) if given.beams else trace


def _recorded(kind: str, path: str, rate: float, minutes: float) -> list[traces.Asked]:
    if kind not in FILES:
        raise ValueError(f"--trace knows {', '.join(FILES)}, not {kind!r}")
    trace = traces.faster(FILES[kind](path), rate, minutes)
    if not trace:
        raise ValueError(
            f"{path} has no request with a prompt and an answer in its first "
            f"{minutes * rate:g} minutes; give another file, or raise --minutes"
        )
    return trace


def fitting(
    trace: Sequence[traces.Asked], server: Room, systems: Mapping[str, System]
) -> tuple[list[traces.Asked], str]:
    """The requests that every one of these systems can serve; how many not, and why.

    All systems serve the same requests, so what is too large for one is left out for
    all. ValueError if no request remains.
    """
    idle = {name: make(server) for name, make in systems.items()}
    found = []
    why: Counter[str] = Counter()
    for asked in trace:
        request = asked.arrive().request
        if len(asked.prompt) + max(asked.lengths) > server.max_length:
            why[f"over {server.max_length:,} positions"] += 1
            continue
        small = (name for name in idle if not fits(idle[name], request))
        if (name := next(small, None)) is not None:
            are = "may be " if asked.beams else ""  # they share more or less
            why[f"{are}too large for {name}, even alone"] += 1
        else:
            found.append(asked)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in why.items())
    words = f"{why.total():,} of {len(trace):,} requests left out: {reasons}"
    if not found:
        raise ValueError(
            (f"{words}; " if trace else "") + "no request remains to be served: ask "
            "for shorter prompts or fewer answers, or choose another --server"
        )
    return found, words if why else ""
