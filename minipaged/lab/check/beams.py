"""Lab: the check of lesson 4's last exercise: a step of a beam search that can end."""

from collections import Counter
from typing import Any, NamedTuple

import torch

from minipaged.errors import TableFreed
from minipaged.lab.check.verdict import (
    Attempt,
    Rejected,
    exercise,
    expect,
    many,
    short,
)
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable

EOS = 1


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
    scores: list[float]
    ended: list[tuple[int, float]]  # (beam, sum), best first
    late: list[int]  # beams that would end behind the first candidates
    places: list[int]  # of those that end, among the candidates


def _expected_step(
    totals: torch.Tensor, count: int | None = None, eos: int = EOS
) -> _Step:
    """Of the candidates' sums [k, V]; with another count or eos, a usual mistake."""
    width, vocabulary = totals.shape
    best, index = totals.flatten().topk(count or 2 * width)
    candidates = [
        (one // vocabulary, one % vocabulary, total)
        for one, total in zip(index.tolist(), best.tolist(), strict=True)
    ]
    places = [at for at in range(width) if candidates[at][1] == eos]
    ended = [(candidates[at][0], candidates[at][2]) for at in places]
    late = [beam for beam, token, _ in candidates[width:] if token == eos]
    going = [one for one in candidates if one[1] != eos][:width]
    parents, tokens, sums = ([one[part] for one in going] for part in range(3))
    return _Step(parents, tokens, sums, ended, late, places)


def _usual_mistakes(
    scores: torch.Tensor, log_probs: torch.Tensor
) -> dict[str, tuple[list[int], list[float]]]:
    """The tokens and sums that they give, and what to say of them."""
    totals = log_probs + scores[:, None]
    width, vocabulary = totals.shape
    right = _expected_step(totals)
    few = _expected_step(totals, count=width)
    best, index = totals.flatten().topk(2 * width)
    pairs = zip(index.tolist(), best.tolist(), strict=True)
    confused = [(i // vocabulary, s) for i, s in pairs if i // vocabulary != EOS]
    tokens, sums = map(list, zip(*confused[:width], strict=True))
    best, first = log_probs.max(dim=1)
    shifted = log_probs.exp() + scores[:, None]
    mistakes = {
        "that is the ranking by log_probs alone; add sums": log_probs,
        "probabilities, not their logarithms, were added": shifted,
    }
    ranked = {said: _expected_step(sums) for said, sums in mistakes.items()}
    return {
        **{said: (step.tokens, step.scores) for said, step in ranked.items()},
        "look at 2k candidates: k go on, beside those that ended": (
            few.tokens,
            few.scores,
        ),
        "that is the best token of each beam; compare those of all beams": (
            first.tolist(),
            (best + scores).tolist(),
        ),
        "worst first; they must be best first": (
            right.tokens[::-1],
            right.scores[::-1],
        ),
        "index // V is the beam, index % V the token": (tokens, sums),
    }


def _one_step(
    attempt: Attempt,
    tables: list[BlockTable],
    scores: torch.Tensor,
    log_probs: torch.Tensor,
) -> tuple[list[BlockTable], torch.Tensor]:
    """Let the attempt take one step, and compare it with all candidates, sorted."""
    width, vocabulary = log_probs.shape
    wanted = _expected_step(log_probs + scores[:, None])
    story = f"in the case k = {width}, V = {vocabulary}, where children of beams "
    ends = f"{many(len(wanted.ended), 'text')} ended" if wanted.ended else "none ended"
    story += f"{wanted.parents} must go on, and {ends}"
    before = [(list(table.block_ids), table.num_tokens) for table in tables]
    answer = _answer(attempt, story, tables, scores, log_probs)
    found_tables, tokens, found_scores, ended = (list(part) for part in answer)
    tokens = [*map(int, tokens)]
    sums = [float(one) for one in found_scores]
    if tokens != wanted.tokens or not _equal(sums, wanted.scores):
        what, pair = "tokens", (tokens, wanted.tokens)
        if tokens == wanted.tokens:
            what, pair = "sums", (_rounded(sums), _rounded(wanted.scores))
        said = _why_wrong(tokens, sums, scores, log_probs)
        if len(tokens) > width and tokens[:width] == wanted.tokens:
            said = "; only the best k go on"
        raise Rejected(f"{story}; {what}: got {pair[0]}, expected {pair[1]}{said}")
    sizes = [len(part) for part in (found_tables, tokens, found_scores)]
    expect(f"{story}; number of tables, tokens, sums", sizes, [width] * 3)
    _ended_rightly(story, ended, wanted)
    if (objects := len({*map(id, found_tables)})) != width:
        said = "siblings hold one table: fork the parent for each child"
        raise Rejected(f"{story}; tables: got {objects}, expected {width}; {said}")
    for place, parent in enumerate(wanted.parents):
        table = found_tables[place]
        state = list(table.block_ids), table.num_tokens
        if state != before[parent]:
            said = f"{story}; new beam {place}, (blocks, tokens): got {state}, "
            said += f"expected those of beam {parent}, {before[parent]}"
            more = state[1] > before[parent][1]
            raise Rejected(said + "; appending is left to the next step" * more)
    _nothing_is_lost(story, found_tables, [ids for ids, _ in before])
    return found_tables, torch.tensor(wanted.scores)


def _answer(
    attempt: Attempt,
    story: str,
    tables: list[BlockTable],
    scores: torch.Tensor,
    log_probs: torch.Tensor,
) -> Any:
    """The four lists."""
    try:
        answer = attempt.shared(list(tables), scores.clone(), log_probs.clone(), EOS)
    except Rejected as error:
        if isinstance(error.__cause__, IndexError):
            said = "is index // V the beam, and index % V the token?"
            raise Rejected(f"{error}; {said}") from error
        if isinstance(error.__cause__, RuntimeError) and "size of tensor" in str(error):
            said = "there is a sum for each row: sums[:, None]"
            raise Rejected(f"{error}; {said}") from error
        if not isinstance(error.__cause__, TableFreed):
            raise
        said = f"{error.__cause__}; fork for all children, then free the parents"
        raise Rejected(f"{story}: {said}") from error
    if answer is None:
        raise Rejected(f"{story}: got None, expected four lists; is a return missing?")
    if not isinstance(answer, tuple | list) or len(answer) != 4:
        raise Rejected(f"{story}: returned {short(answer)}, expected four lists")
    return answer


def _why_wrong(
    tokens: list[int],
    sums: list[float],
    scores: torch.Tensor,
    log_probs: torch.Tensor,
) -> str:
    """What to say of tokens and sums that are wrong; of two mistakes, the likelier."""
    if EOS in tokens:
        return f"; token {EOS} is eos: a text that ended does not go on"
    usual = _usual_mistakes(scores, log_probs).items()
    alike = [(said, of_it) for said, (ids, of_it) in usual if ids == tokens]
    equal = [said for said, of_it in alike if _equal(sums, of_it)]
    for said in (*equal, *(said for said, _ in alike)):
        return f"; {said}"
    too_few = "; look at 2k candidates: k go on, beside those that ended"
    return too_few if len(tokens) < len(scores) else ""


def _ended_rightly(story: str, ended: list[Any], wanted: _Step) -> None:
    """Of each that ended among the first k: which beam, and its sum."""
    if not all(isinstance(one, tuple | list) and len(one) == 2 for one in ended):
        raise Rejected(f"{story}; the fourth list is {short(ended)}, expected pairs")
    if any(isinstance(beam, BlockTable) for beam, _ in ended):
        raise Rejected(f"{story}; ended: a pair is (index of the beam, sum), no table")
    beams, right = [int(beam) for beam, _ in ended], [beam for beam, _ in wanted.ended]
    if beams != right:
        said = f"{story}; beams that ended: got {beams}, expected {right}"
        if beams == right + wanted.late:
            said += "; an end behind the first k candidates does not count"
        elif beams == wanted.places:
            said += "; that is its place among the candidates; of what beam is it?"
        elif [total for _, total in ended] == right:
            said += "; a pair is (beam, sum), in this order"
        elif beams == [EOS] * len(right):
            said += "; a pair is (index of the beam, sum), without the token"
        elif not beams:
            said += f"; a candidate whose token is {EOS} (eos) has ended"
        raise Rejected(said)
    found = [float(total) for _, total in ended]
    sums = [total for _, total in wanted.ended]
    if not _equal(found, sums):
        said = f"got {_rounded(found)}, expected {_rounded(sums)}"
        raise Rejected(f"{story}; sums of those that ended: {said}")


def _equal(found: list[float], expected: list[float]) -> bool:
    """But for rounding."""
    pair = torch.tensor(found), torch.tensor(expected)
    return len(found) == len(expected) and torch.allclose(*pair, atol=1e-4)


def _rounded(numbers: list[float]) -> list[float]:
    return [round(number, 3) for number in numbers]


def _nothing_is_lost(
    story: str, tables: list[BlockTable], before: list[list[int]]
) -> None:
    """Every block that was held has as many holders as tables hold it now."""
    pool = tables[0].pool
    holds = Counter(block_id for table in tables for block_id in table.block_ids)
    for block_id in sorted({block_id for ids in before for block_id in ids}):
        holders, right = pool.refcount(block_id), holds[block_id]
        if holders != right:
            said = f"{story}; holders of block {block_id}: got {holders}, "
            said += f"expected {right}"
            more = "; free all parents after forking. Fork only for those that go on: "
            more += "neither for a text that ended, nor for candidates behind"
            more *= holders > right
            raise Rejected(said + more)
    held = pool.num_blocks - pool.num_free
    expect(f"{story}; blocks held in the pool", held, len(holds))
