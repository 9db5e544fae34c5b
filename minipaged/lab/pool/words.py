"""Lab: what happened to a pool between two moments, in words."""

from collections.abc import Iterable, Iterator, Mapping

from minipaged.draw.letters import counted, listed
from minipaged.lab.pool.lane_words import NO_BLOCK, heads, tell_lanes
from minipaged.lab.pool.snapshot import Snapshot
from minipaged.lab.pool.twin import Resident, TwinState


def tell(before: Snapshot, after: Snapshot) -> list[str]:
    """One sentence for each sequence that began, grew, forked or ended, and for blocks.

    They are true one after another, if what happened did so in this order: forks, ends,
    new sequences, growth. With lanes, they also tell who arrives, waits, is preempted
    and comes back.
    """
    said = heads(before, after)
    return [
        *_forked(before, after),
        *_ended(before, after, said),
        *_forgotten(before, after),
        *_begun(before, after, said),
        *_grown(before, after, said),
        *tell_lanes(before, after),
        *_findable(before, after),
    ]


def name_blocks(block_ids: Iterable[int]) -> str:
    """ "block 7", "blocks 0 to 3", "blocks 1, 2 and 9"."""
    runs: list[list[int]] = []
    for block_id in sorted(block_ids):
        if runs and block_id == runs[-1][-1] + 1:
            runs[-1].append(block_id)
        else:
            runs.append([block_id])
    parts = []
    for run in runs:
        parts += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run)
    is_one = len(parts) == 1 and "to" not in parts[0]
    return f"block{'s' * (not is_one)} {listed(parts)}"


def tell_twin(now: TwinState, before: TwinState | None = None) -> str:
    """Who fits into contiguous memory, and who does not, though slots are free."""
    sizes = [piece.size for piece in now.free_pieces]
    if now.waiting:
        name, one = next(iter(now.waiting.items()))
        words = f"{name} does not fit. {tell_reserved(name, one, ' in a row')}. "
        if len(sizes) > 1:
            pieces = listed(list(map(str, sizes)))
            but = "but " * (sum(sizes) >= one.wanted)
            words += f"{sum(sizes)} are free, {but}in pieces of {pieces}: "
            return words + _why_nowhere(now, name, one) + "."
        return words + f"{sum(sizes)} are free."
    for name, one in now.residents.items():
        if one.num_tokens > one.wanted:
            lost = counted(one.num_tokens - one.wanted, "token")
            return f"{name} has filled its {one.wanted} slots: no place for {lost}."
    gone = [
        name
        for name in (before.residents if before else ())
        if name not in now.residents
    ]
    if gone and sizes:
        pieces = f", in pieces of {listed(list(map(str, sizes)))}" * (len(sizes) > 1)
        whole = "whole reservation is" if len(gone) == 1 else "whole reservations are"
        return f"{listed(gone)}'s {whole} free: {sum(sizes)} slots in all{pieces}."
    if not now.residents:
        return f"All {now.num_slots} slots are free."
    return (
        "Each reserves, in one piece, all that it may ever need. "
        f"{now.num_empty} slots are reserved and empty."
    )


def tell_reserved(name: str, one: Resident, how: str = "") -> str:
    """How many slots, and for what."""
    rest = f" ({one.num_tokens} now, the rest for its answer)"
    rest *= one.num_tokens < one.wanted
    return f"{name} reserves {one.wanted} slots{how}{rest}"


def _why_nowhere(now: TwinState, name: str, one: Resident) -> str:
    hit = now.always_in_the_way(one.wanted)
    if one.wanted <= now.num_slots and hit:
        return f"wherever {name} is tried, it runs into {listed(hit)}"
    return f"the longest has {max(piece.size for piece in now.free_pieces)}"


def name_slots(block_id: int, block_size: int) -> str:
    """ "slots 16–19", and "slot 4" if the block has no more."""
    first, last = block_id * block_size, (block_id + 1) * block_size - 1
    return f"slots {first}–{last}" if last > first else f"slot {first}"


def name_positions(first: int, last: int) -> str:
    """ "positions 8 to 11", and "position 8" if that is all."""
    return f"positions {first} to {last}" if last > first else f"position {first}"


def _forked(before: Snapshot, after: Snapshot) -> Iterator[str]:
    families: dict[str, list[str]] = {}  # parent: its new children
    for name in _only_in(after, before):
        if name in after.parents:
            families.setdefault(after.parents[name], []).append(name)
    for parent, children in families.items():
        more = counted(len(children), "more holder")
        shared = after.tables[children[0]].block_ids
        yield (
            f"{parent} is forked into {listed([parent, *children])}: {more} for "
            f"{name_blocks(shared)}, and nothing is copied"
        )


def _ended(before: Snapshot, after: Snapshot, said: Mapping[str, str]) -> Iterator[str]:
    holders = list(before.refcounts)
    for name in _only_in(after, before):
        if name in after.parents:  # the forks came first
            for block_id in after.tables[name].block_ids:
                holders[block_id] += 1
    for name in _only_in(before, after):
        block_ids = before.tables[name].block_ids
        for block_id in block_ids:
            holders[block_id] -= 1
        kept = [block_id for block_id in block_ids if holders[block_id]]
        free = [block_id for block_id in block_ids if block_id not in kept]
        cached = [block_id for block_id in free if block_id in after.cached]
        plain = [block_id for block_id in free if block_id not in cached]
        words = [f"{name_blocks(plain)} {_are(plain)} free"] if plain else []
        if cached:
            are = f"{name_blocks(cached)} {_are(cached)}"
            words.append(f"{are} free, and can still be found")
        if kept:
            words.append(f"{name_blocks(kept)} {_keep(kept)} other holders")
        head = said.get(name, f"{name} ends")
        yield f"{head}: {'; '.join(words) or 'it held nothing'}"


def _forgotten(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """Cached blocks that were handed out: something else is written there."""
    lost = [id_ for id_, old in before.cached.items() if after.cached.get(id_) != old]
    if lost:
        yield (
            f"every free block can still be found: {name_blocks(lost)}, unused for "
            f"longest, {_are(lost)} handed out, and what was there is forgotten"
        )


def _begun(before: Snapshot, after: Snapshot, said: Mapping[str, str]) -> Iterator[str]:
    told = _kept(before, after)  # blocks that another one has, or has begun with
    for name in _only_in(after, before):
        table = after.tables[name]
        if name in after.parents:
            continue
        head = said.get(name, f"{name} begins")
        if not table.num_tokens:
            yield f"{head}{NO_BLOCK}"
            continue
        found = [id_ for id_ in table.block_ids if _was_found(id_, before, after)]
        others = [id_ for id_ in table.block_ids if id_ not in found]
        shared = [id_ for id_ in others if id_ in told]
        taken = [id_ for id_ in others if id_ not in shared]
        told.update(others)
        words = f"{head} with {counted(table.num_tokens, 'token')}: "
        words += f"{name_blocks(found)} found in the cache; " if found else ""
        words += f"shares {name_blocks(shared)}; " if shared else ""
        yield words + (f"takes {name_blocks(taken)}" if taken else "takes none yet")


def _grown(before: Snapshot, after: Snapshot, said: Mapping[str, str]) -> Iterator[str]:
    holders = list(before.refcounts)
    for name, table in after.tables.items():
        old = before.tables.get(name)
        if old is None or old.num_tokens == table.num_tokens:
            continue
        *_, last = old.block_ids or (None,)
        is_shared = old.num_tokens % before.block_size and holders[last] > 1
        more = counted(table.num_tokens - old.num_tokens, "token")
        words = f"{said.get(name, f'{name} gets {more}')}: "
        taken = list(table.block_ids[len(old.block_ids) :])
        if is_shared:
            copy = table.block_ids[len(old.block_ids) - 1]
            words = f"block {last} has {holders[last]} holders: copied to {copy} "
            words += f"before {name} writes"
            holders[last] -= 1
            words += f"; {name} also takes {name_blocks(taken)}" if taken else ""
        elif taken:
            words += f"takes {name_blocks(taken)}"
            if last is not None and old.num_tokens % before.block_size == 0:
                words += f", because block {last} is full"
        else:
            words += f"there is room in block {last}"
        yield words


def _findable(before: Snapshot, after: Snapshot) -> Iterator[str]:
    full = [id_ for id_, new in after.cached.items() if before.cached.get(id_) != new]
    if full:
        yield f"{name_blocks(full)} {_are(full)} full and can be found from now on"


def _kept(before: Snapshot, after: Snapshot) -> set[int]:
    """Blocks of the tables that were there before."""
    both = (table for name, table in after.tables.items() if name in before.tables)
    return {block_id for table in both for block_id in table.block_ids}


def _was_found(block_id: int, before: Snapshot, after: Snapshot) -> bool:
    content = before.cached.get(block_id)
    return content is not None and after.cached.get(block_id) == content


def _only_in(one: Snapshot, other: Snapshot) -> list[str]:
    return [name for name in one.tables if name not in other.tables]


def _are(block_ids: list[int]) -> str:
    return "are" if len(block_ids) > 1 else "is"


def _keep(block_ids: list[int]) -> str:
    return "keep" if len(block_ids) > 1 else "keeps"
