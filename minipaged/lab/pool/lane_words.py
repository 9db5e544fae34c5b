"""Lab: arrivals, chunks, preemptions and returns, in words."""

from collections.abc import Iterator

from minipaged.draw.letters import counted
from minipaged.lab.pool.lanes import Card, Lanes, Span
from minipaged.lab.pool.snapshot import Snapshot

NO_BLOCK = ", with no block yet"
MOST_CARDS = 8  # that are named in a line
# What follows a sequence's letter in a sentence of its own.
VERBS = (
    "begins|gets|ends|is forked|arrives|starts again|computes|is preempted|"
    "comes back|leaves"
)


def heads(before: Snapshot, after: Snapshot) -> dict[str, str]:
    """How the sentence of a sequence begins, where it is not the plain one.

    By its name; in place of "A begins", "A gets 3 tokens" or "A ends".
    """
    if before.lanes is None or after.lanes is None:
        return {}
    found: dict[str, str] = {}
    for card in (*after.lanes.waiting, *after.lanes.swapped):
        for name in card.names:
            if name in before.tables:
                found[name] = _preempted(card, name, before.tables[name].num_tokens)
    for card in after.lanes.running:
        for name in card.names:
            if name not in before.tables:
                found[name] = _begins(before, card, name)
        for span in card.spans:
            if span.name in before.tables and span.start < span.num_prefill:
                found[span.name] = computes(card, span)
    return found


def joined(lines: list[str]) -> list[str]:
    """The same, but who begins and computes at once is told in one sentence."""
    told: list[str] = []
    for line in lines:
        name, rest = line.split(" ", 1)
        begun = [one for one in told if one.endswith(NO_BLOCK)]
        start = next((one for one in begun if one.startswith(f"{name} ")), None)
        if start is not None and rest.startswith("computes "):
            told[told.index(start)] = f"{start.removesuffix(NO_BLOCK)}, and {rest}"
        else:
            told.append(line)
    return told


def tell_lanes(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """Who comes and has to wait, who does not wait any more, and what is done twice."""
    if before.lanes is None or after.lanes is None:
        return
    for card in after.lanes.waiting:
        if not before.lanes.names.intersection(card.names):
            yield (
                f"{card.names[0]} arrives with a prompt of "
                f"{counted(card.num_prompt, 'token')}, and waits"
            )
    for card in (*before.lanes.waiting, *before.lanes.swapped):
        if not after.lanes.names.intersection(card.names):
            yield f"{card.names[0]} leaves, and waits no longer"
    for card in after.lanes.running:
        for span in card.spans:
            if span.name not in before.tables and span.num_again:
                yield computes(card, span)


def tell_line(lanes: Lanes) -> str:
    """Who runs and who waits, in letters."""
    cards = {
        "running": lanes.running,
        "waiting": lanes.waiting,
        "in the CPU's memory": lanes.swapped,
    }
    return "; ".join(f"{what}: {_letters(own)}" for what, own in cards.items() if own)


def computes(card: Card, span: Span) -> str:
    """What a step computes of a prompt, or of what a request starts again with."""
    num = span.stop - span.start
    words = f"{span.name} computes "
    if span.num_again:
        is_all = span.num_again == num
        more = " again" if is_all else f", {span.num_again} of them again"
        return f"{words}{counted(num, 'token')}{more}"
    what = "tokens" if card.num_restarts else "prompt tokens"
    if num == span.num_prefill:
        return f"{words}its {num} {what}" if num > 1 else f"{words}its prompt"
    if span.stop == span.num_prefill:
        num = f"the last {num}" if num > 1 else "the last"
    return f"{words}{num} of its {span.num_prefill} {what}"


def _letters(cards: tuple[Card, ...]) -> str:
    few = ["+".join(card.names) for card in cards[:MOST_CARDS]]
    more = len(cards) - len(few)
    return ", ".join(few) + f" and {more} more" * (more > 0)


def _preempted(card: Card, name: str, num_tokens: int) -> str:
    words = f"{name} is preempted"
    if not num_tokens:
        return words
    what = "moved to the CPU" if card.tables is not None else "dropped"
    return f"{words}, and K and V of {counted(num_tokens, 'token')} are {what}"


def _begins(before: Snapshot, card: Card, name: str) -> str:
    was = before.lanes
    if any(name in old.names for old in was.swapped):
        return f"{name} comes back from the CPU"
    if card.num_restarts:
        return f"{name} starts again"
    return f"{name} begins" if name in was.names else f"{name} arrives and begins"
