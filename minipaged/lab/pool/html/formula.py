"""Lab: from a position to its slot, term by term: divide, look up, put together."""

from minipaged.lab.pool.html.parts import colour
from minipaged.lab.pool.html.stage import Here
from minipaged.lab.pool.snapshot import Snapshot


def find(snapshot: Snapshot, name: str, position: int) -> Here | None:
    """Where a position of a sequence lies; None if it has no such position."""
    table = snapshot.tables.get(name)
    if table is None or not 0 <= position < table.num_tokens:
        return None
    entry, offset = divmod(position, snapshot.block_size)
    return Here(name, entry, offset, table.block_ids[entry])


def formula(snapshot: Snapshot, name: str, position: int) -> str:
    """How the position becomes a slot, or which positions there are."""
    here, size = find(snapshot, name, position), snapshot.block_size
    if here is None:
        table = snapshot.tables.get(name)
        words, kind = "There is no sequence.", "mp-quiet"
        if table is not None:
            words = f"{name} has the positions 0 to {table.num_tokens - 1}."
            kind = "mp-wrong"
        return f'<div class="mp-formula"><p class="{kind}">{words}</p></div>'
    slot = here.block_id * size + here.offset
    entry = _term("entry", here.entry, "entry")
    block = _term("block", here.block_id, "block")
    by_size, offset = _term("size", size), _term("offset", here.offset, "offset")
    start = _term("position", position, "position")
    rows = (
        ("divide by the block size", start, "=", entry, "×", by_size, "+", offset),
        (f"look up in {name}'s table", entry, "→", block),
        (
            "put together again",
            *(block, "×", by_size, "+", offset, "=", _term("slot", slot, "slot")),
        ),
    )
    parts = []
    for number, (caption, *terms) in enumerate(rows, start=1):
        made = (f"<span>{t}</span>" if len(t) == 1 else t for t in terms)
        parts.append(
            f'<div><p class="mp-quiet"><b>{number}</b> {caption}</p>'
            f'<p class="mp-terms">{" ".join(made)}</p></div>'
        )
    return f'<div class="mp-formula {colour(name)}">{"".join(parts)}</div>'


def _term(kind: str, number: int, what: str = "") -> str:
    under = f" <small>{what}</small>" * bool(what)
    return f'<span class="mp-term mp-t-{kind}"><b>{number}</b>{under}</span>'
