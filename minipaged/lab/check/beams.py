"""Lab: the check of lesson 4's last exercise: a step of a beam search that can end."""

from collections import Counter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from minipaged.errors import TableFreed
from minipaged.lab.check.diagnose import Unlike, diagnose, telling, want, why
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, many, short
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable

EOS = 1
TOO_FEW = "look at 2k candidates: k go on, beside those that ended"
HINTS = {
    IndexError: "is index // V the beam, and index % V the token?",
    "size of tensor": "there is a sum for each row: sums[:, None]",
}


@exercise
def next_beams(attempt: Attempt) -> None:
    """(tables, sums, log_probs, eos) -> (tables, tokens, sums, ended)."""
    generator = torch.Generator().manual_seed(0)
    for width, vocabulary in ((2, 5), (1, 3), (4, 6), (3, 30)):
        pool = BlockPool(200, 2)
        tables = [BlockTable(pool)]
        tables[0].append(3)
        tables += [tables[0].fork() for _ in range(width - 1)]
        # Sums of log-probabilities; at first one beam is far ahead of the others.
        scores = -torch.arange(width) * 30.0 - 1
        for step in range(6):
            for table in tables:
                table.append(1)
            # Wide apart, so that some beams have many children and others none.
            logits = 3 * torch.randn(width, vocabulary, generator=generator)
            logits[:, EOS] += (0, 6, 3)[step % 3]  # so that beams end, early and late
            log_probs = logits.log_softmax(-1)
            tables, scores = _one_step(attempt, tables, scores, log_probs)


class _Step(NamedTuple):
    """What one step must give: of the beams that go on, and of those that end."""

    parents: list[int]
    tokens: list[int]
    sums: list[float]
    ended: list[tuple[int, float]]  # (beam, sum), best first
    late: list[int]  # beams that would end behind the first candidates
    places: list[int]  # of those that end, among the candidates


def _expected_step(totals: Tensor, count: int | None = None) -> _Step:
    """Of the candidates' sums [k, V]; with another count, a usual mistake."""
    width, vocabulary = totals.shape
    best, index = totals.flatten().topk(count or 2 * width)
    candidates = [
        (one // vocabulary, one % vocabulary, total)
        for one, total in zip(index.tolist(), best.tolist(), strict=True)
    ]
    places = [at for at in range(width) if candidates[at][1] == EOS]
    ended = [(candidates[at][0], candidates[at][2]) for at in places]
    late = [beam for beam, token, _ in candidates[width:] if token == EOS]
    going = [one for one in candidates if one[1] != EOS][:width]
    parents, tokens, sums = ([one[part] for one in going] for part in range(3))
    return _Step(parents, tokens, sums, ended, late, places)


def _usual_mistakes(sums: Tensor, log_probs: Tensor) -> dict[str, tuple[list, list]]:
    """What to say of them, and the tokens and sums that they give."""
    totals = log_probs + sums[:, None]
    width, vocabulary = totals.shape
    right = _expected_step(totals)
    best, index = totals.flatten().topk(2 * width)
    pairs = zip(index.tolist(), best.tolist(), strict=True)
    confused = [(i // vocabulary, s) for i, s in pairs if i // vocabulary != EOS]
    best, first = log_probs.max(dim=1)
    ranked = {
        "that is the ranking by log_probs alone; add sums": _expected_step(log_probs),
        "probabilities, not their logarithms, were added": (
            _expected_step(log_probs.exp() + sums[:, None])
        ),
        TOO_FEW: _expected_step(totals, count=width),
    }
    return {
        **{said: (step.tokens, step.sums) for said, step in ranked.items()},
        "that is the best token of each beam; compare those of all beams": (
            first.tolist(),
            (best + sums).tolist(),
        ),
        "worst first; they must be best first": (right.tokens[::-1], right.sums[::-1]),
        "index // V is the beam, index % V the token": (
            tuple(map(list, zip(*confused[:width], strict=True)))
        ),
    }


def _one_step(
    attempt: Attempt, tables: list[BlockTable], sums: Tensor, log_probs: Tensor
) -> tuple[list[BlockTable], Tensor]:
    """Let the attempt take one step, and compare it with all candidates, sorted."""
    width, vocabulary = log_probs.shape
    wanted = _expected_step(log_probs + sums[:, None])
    story = f"in the case k = {width}, V = {vocabulary}, where children of beams "
    ends = f"{many(len(wanted.ended), 'text')} ended" if wanted.ended else "none ended"
    story += f"{wanted.parents} must go on, and {ends}"
    before = [(list(table.block_ids), table.num_tokens) for table in tables]
    arguments = list(tables), sums.clone(), log_probs.clone(), EOS
    answer, freed = attempt.or_refused(TableFreed, *arguments, hints=HINTS)
    with telling(story):
        if freed:
            said = "fork for all children, then free the parents"
            raise Rejected(f"{freed}; {said}")
        is_four = isinstance(answer, tuple | list) and len(answer) == 4
        want("four lists", answer, is_four)
        found, tokens, found_sums, ended = (list(part) for part in answer)
        tokens, found_sums = [*map(int, tokens)], [*map(float, found_sums)]
        _best_go_on(tokens, found_sums, wanted, sums, log_probs)
        sizes = [len(part) for part in (found, tokens, found_sums)]
        diagnose("number of tables, tokens, sums", sizes, [width] * 3)
        _ended_rightly(ended, wanted)
        objects = len({*map(id, found)})
        siblings = "siblings hold one table: fork the parent for each child"
        diagnose("tables", objects, width, {siblings: True})
        for place, (parent, table) in enumerate(
            zip(wanted.parents, found, strict=True)
        ):
            state, right = (list(table.block_ids), table.num_tokens), before[parent]
            if state != right:
                said = f"new beam {place}, (blocks, tokens): got {state}, "
                said += f"expected those of beam {parent}, {right}"
                more = {"appending is left to the next step": state[1] > right[1]}
                raise Unlike(said + why(state, more))
        _nothing_is_lost(found, [ids for ids, _ in before])
    return found, torch.tensor(wanted.sums)


def _best_go_on(
    tokens: list[int],
    found: list[float],
    wanted: _Step,
    sums: Tensor,
    log_probs: Tensor,
) -> None:
    """Raise Rejected unless these are the tokens and sums of the best that go on."""
    if tokens == wanted.tokens and _equal(found, wanted.sums):
        return
    width = len(sums)
    usual = _usual_mistakes(sums, log_probs)
    alike = {said: of_it for said, (own, of_it) in usual.items() if own == tokens}
    # Of two mistakes that give these tokens, the one whose sums are these, too.
    equal = {said: True for said, of_it in alike.items() if _equal(found, of_it)}
    mistakes = {
        "only the best k go on": (
            len(tokens) > width and tokens[:width] == wanted.tokens
        ),
        f"token {EOS} is eos: a text that ended does not go on": EOS in tokens,
        **equal,
        **dict.fromkeys(alike, True),
        TOO_FEW: TOO_FEW in alike or len(tokens) < width,
    }
    if tokens == wanted.tokens:
        diagnose("sums", _rounded(found), _rounded(wanted.sums), mistakes, write=str)
    diagnose("tokens", tokens, wanted.tokens, mistakes, write=str)


def _ended_rightly(ended: list[Any], wanted: _Step) -> None:
    """Of each that ended among the first k: which beam, and its sum."""
    if not all(isinstance(one, tuple | list) and len(one) == 2 for one in ended):
        raise Unlike(f"the fourth list is {short(ended)}, expected pairs")
    if any(isinstance(beam, BlockTable) for beam, _ in ended):
        raise Unlike("ended: a pair is (index of the beam, sum), no table")
    beams, right = [int(beam) for beam, _ in ended], [beam for beam, _ in wanted.ended]
    mistakes = {
        "an end behind the first k candidates does not count": right + wanted.late,
        "that is its place among the candidates; of what beam is it?": wanted.places,
        "a pair is (beam, sum), in this order": [total for _, total in ended] == right,
        "a pair is (index of the beam, sum), without the token": [EOS] * len(right),
        f"a candidate whose token is {EOS} (eos) has ended": [],
    }
    diagnose("beams that ended", beams, right, mistakes, write=str)
    found, sums = ([float(total) for _, total in own] for own in (ended, wanted.ended))
    if not _equal(found, sums):
        diagnose("sums of those that ended", _rounded(found), _rounded(sums), write=str)


def _equal(found: list[float], expected: list[float]) -> bool:
    """But for rounding."""
    pair = torch.tensor(found), torch.tensor(expected)
    return len(found) == len(expected) and torch.allclose(*pair, atol=1e-4)


def _rounded(numbers: list[float]) -> list[float]:
    return [round(number, 3) for number in numbers]


def _nothing_is_lost(tables: list[BlockTable], before: list[list[int]]) -> None:
    """Every block that was held has as many holders as tables hold it now."""
    pool = tables[0].pool
    holds = Counter(block_id for table in tables for block_id in table.block_ids)
    too_many = "free all parents after forking. Fork only for those that go on: "
    too_many += "neither for a text that ended, nor for candidates behind"
    for block_id in sorted({block_id for ids in before for block_id in ids}):
        holders, right = pool.refcount(block_id), holds[block_id]
        what = f"holders of block {block_id}"
        diagnose(what, holders, right, {too_many: holders > right})
    diagnose("blocks held in the pool", pool.num_blocks - pool.num_free, len(holds))
