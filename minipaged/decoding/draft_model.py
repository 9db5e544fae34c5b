"""Appendix E: a small model guesses for a large one, over the same blocks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minipaged.decoding.draw import likeliest, probabilities_of, scores_of
from minipaged.decoding.speculation import Speculation
from minipaged.decoding.speculative import NOT_YET, Speculating
from minipaged.decoding.strategy import Failed, Turn, or_failed
from minipaged.decoding.written_blocks import Text, WrittenBlocks
from minipaged.memory.kv_cache import KVCache
from minipaged.memory.swap_space import SwapSpace
from minipaged.model.inputs import RaggedBatch
from minipaged.model.paged_model import PagedModel
from minipaged.model.persistent_inputs import Pending, to_device
from minipaged.model.positions import num_positions
from minipaged.model.runner import Runner
from minipaged.scheduling.plan import Plan, Work


class DraftModel(Speculation):
    """A second, smaller model, which guesses what the large one will say.

    Both have the same block ids: a token's K and V lie in the same block and slot of
    two caches, and one table serves both. So the small model needs no pool, and when a
    guess is taken back, its room in both caches is free.

    Source: Leviathan et al., Fast Inference from Transformers via Speculative Decoding.
    """

    least_right = 0.3
    guesses_on_device = True

    def __init__(self, paged: PagedModel, num_tokens: int = 4, *, tree: int = 1):
        """Guess so many tokens at a time.

        Args:
            paged: the small model, over a pool of as many and as large blocks as the
                large model's, with the same tokenizer. Its own pool stays unused.
            num_tokens: guesses at most; each is a step of the small model.
            tree: guess with so many branches, which begin with the likeliest tokens.

        If a request draws random tokens, so does the small model, unless it guesses
        with several branches. With a seed, it draws with the same random numbers as the
        large model will. So where both find the same tokens likely, they draw the same.
        """
        if not isinstance(paged, PagedModel):
            raise TypeError(
                "a draft model must be a PagedModel, got "
                f"{type(paged).__name__}; wrap the model: mp.PagedModel(model)"
            )
        super().__init__(num_tokens, tree)
        self.paged = paged
        self.written = WrittenBlocks(paged.pool.block_size)
        self.num_positions = num_positions(paged.model.config) or float("inf")
        self._unread = _Unread(self.written)

    def guess(self, tokens: list[int], count: int) -> list[list[int]]:
        """As many guesses as are wanted: they are made when the step is computed."""
        if len(tokens) + count > self.num_positions:
            return []
        return [[NOT_YET] * count] * self.num_branches

    def runner(self, runner: Any, paged: PagedModel) -> "DraftingRunner":
        """What lets the small model guess, and then computes a step with `runner`.

        Raises ValueError if blocks, or tokens, are not those of `paged`.
        """
        if self.paged is paged:
            raise ValueError(
                "the draft model is the large model itself, and one cache cannot hold "
                "both: wrap a smaller model, or this one once more, by mp.PagedModel"
            )
        if self.paged.ranks is not None:
            raise ValueError(
                "the draft model is shared out among ranks, but rank 0 guesses for "
                "all: load it without tp"
            )
        own, other = self.paged.pool, paged.pool
        if (own.num_blocks, own.block_size) != (other.num_blocks, other.block_size):
            raise ValueError(
                f"the draft model must have {other.num_blocks} blocks of "
                f"{other.block_size} tokens, as the large model has: it has "
                f"{own.num_blocks} of {own.block_size}"
            )
        if self.paged.num_embeddings != paged.num_embeddings:
            raise ValueError(
                f"the draft model knows {self.paged.num_embeddings} tokens, and the "
                f"large model {paged.num_embeddings}: both must have one tokenizer"
            )
        makes_alike = isinstance(runner, Runner)  # `generate` runs the PagedModel
        own_runner = runner.like(self.paged) if makes_alike else Runner(self.paged)
        return DraftingRunner(runner, own_runner, self, paged)

    def swap_space(self, cache: KVCache, num_blocks: int) -> SwapSpace:
        """Both caches' K and V lie in a block's row, if their types are the same.

        Otherwise the small model computes its K and V again.
        """
        kinds = {(t.dtype, t.device) for t in (cache.keys[0], self.paged.cache.keys[0])}
        if len(kinds) > 1:
            return super().swap_space(cache, num_blocks)
        return _SwapSpaceOfBoth(cache, num_blocks, self)

    def num_ahead(self, length: int, count: int) -> int:
        """As many as are wanted, if it has positions for them."""
        return count if length + count <= self.num_positions else 0

    def make_guesses(
        self, plan: Plan, runner: Runner, pending: Pending | None = None
    ) -> Pending | None:
        """Guess for the sequences of this plan, and keep up with prompts.

        `runner` computes the small model's steps. Each begins before the CPU has read
        the guesses of the step before, if these are the likeliest tokens. `pending`:
        tokens that the large model has chosen, and that the CPU has not read yet.
        Returns what is pending now: these tokens, and guesses. All other guesses are in
        the texts.
        """
        if not plan.copies and not _concerns_drafts(plan):
            self._unread = _Unread(self.written, pending)
            return pending
        with self.paged.alone():
            self.paged.cache.copy(plan.copies)
            texts = self.written.texts(source for source, _ in plan.copies)
            self.written.put((copy for _, copy in plan.copies), texts)
            works = [work for work in plan.works if self._follows(work)]
            # In each round, those that still guess are the first.
            works.sort(key=lambda work: -_num_guesses(work))
            starts = {work: self._start_of(work) for work in works}
            self._unread = _Unread(self.written, pending)
            drawn = self._rounds(works, starts, runner)
            if works:
                self.paged.refuse_replaced_weights()
        for work in works:
            of_work = drawn.get(work)
            work.request.strategy.drafted = of_work and torch.cat(of_work)
            if not _is_ahead(work):
                self._unread.note_later(work, starts[work])
        if not self._unread.rounds:
            self._unread.read()
        return self._unread.of_step()

    def read_guesses(self) -> None:
        """Wait for guesses that are pending, and write them into the texts."""
        self._unread.read()

    def _rounds(
        self, works: list[Work], starts: dict[Work, int], runner: Runner
    ) -> dict[Work, list[Tensor]]:
        """Each round brings one guess of each work that has room for it.

        Returns the probabilities of the guesses that were drawn, where a rule must know
        them.
        """
        drawn: dict[Work, list[Tensor]] = {}
        counts = {work: _num_guesses(work) for work in works}
        dice = {work: _same_dice(work) for work in works if counts[work]}
        unread = self._unread
        stay_there = all([_takes_the_best(work, 0) for work in works])
        last = max(max(counts.values(), default=0) - 1, 0)
        for number in range(last + 1):
            guessing = [work for work in works if counts[work] > number]
            logits = None
            if number and stay_there:
                chosen = unread.rounds[-1][2]
                logits = runner.next_logits(chosen[: len(guessing)])
            if logits is None:
                computing = guessing if number else works
                parts = [self._part(work, number, starts[work]) for work in computing]
                parts = [part for part in parts if part.num_tokens]
                if not parts:
                    break
                pending = unread.of_round()
                logits = runner.last_logits(Plan(parts), pending, last - number)
            unread.add(guessing, number, self.likeliest(logits))
            if stay_there:
                continue
            for row, work in enumerate(guessing):
                if not _takes_the_best(work, number):
                    own = logits[row : row + 1]
                    guess, q = _guess(work, number, own, dice[work])
                    _put(work, number, guess)
                    if q is not None:
                        drawn.setdefault(work, []).append(q)
        return drawn

    def likeliest(self, logits: Tensor) -> Tensor:
        """The guess of each row of the small model's logits; nothing waits."""
        return likeliest(logits)

    def _follows(self, work: Work) -> bool:
        """Does the work belong to a prompt, or to guesses, of this speculation?"""
        if not (_in_prompt(work) or _num_guesses(work)):
            return False
        strategy = work.request.strategy
        is_ours = isinstance(strategy, Speculating) and strategy.speculation is self
        return is_ours and work.stop <= self.num_positions

    def _start_of(self, work: Work) -> int:
        """Where the tokens begin that the small model lacks, or must compute again.

        What comes after is not known until the step is over: it may be undone.
        """
        sequence = work.sequence
        tokens = sequence.tokens
        block_ids = sequence.table.block_ids
        if _is_ahead(work):
            # The step in flight computes the newest token that is read. Its last guess
            # was not computed, and it may be right: that is the token before.
            stop = sequence.num_known
            num_noted = max(0, stop - 2 * (1 + self.num_tokens))
            self.written.note(tokens, block_ids, stop, num_noted)
            return work.start - 1
        stop = min(work.stop, sequence.num_known)
        tokens = tokens[:stop]
        start = self.written.num_held(tokens, block_ids)
        if _num_guesses(work):
            start = min(start, stop - 1)  # its logits are wanted
        self.written.note(tokens, block_ids, start, start)
        return start

    def _part(self, work: Work, number: int, start: int) -> Work:
        """What the small model computes before the guess of this number.

        At first all tokens from `start` on, and then the guess before. All tokens have
        logits if they are few, because there are graphs for such steps.
        """
        request, sequence = work[:2]
        num_guesses = _num_guesses(work)
        newest = work.start if num_guesses else work.stop - 1
        stop = newest + number + 1
        num_logits = int(num_guesses > number)
        if number:
            start = stop - 1
        elif num_logits and stop - start <= 1 + self.num_tokens:
            num_logits = stop - start
        return Work(request, sequence, start, stop, num_logits)


class DraftingRunner(Runner):
    """Lets a draft model guess first; then another runner computes the step."""

    def __init__(self, runner: Any, own: Runner, draft: DraftModel, paged: PagedModel):
        """`runner` computes the steps of `paged`, and `own` those of the draft."""
        super().__init__(paged)
        self._runner = runner
        self._own = own
        self._draft = draft
        self.name = getattr(runner, "name", self.name)
        self.runs_ahead = getattr(runner, "runs_ahead", False)
        self.num_guesses = draft.num_tokens

    def compute(
        self, plan: Plan, pending: Pending | None = None
    ) -> tuple[RaggedBatch, Tensor]:
        """As `Runner.compute`, once the guesses of the plan are made."""
        pending = self._draft.make_guesses(plan, self._own, pending)
        if getattr(self._runner, "takes_pending", False):
            return self._runner.compute(plan, pending)
        self._draft.read_guesses()
        return self._runner.compute(plan)

    def close(self) -> None:
        """Close both runners."""
        self._runner.close()
        self._own.close()


class _SwapSpaceOfBoth(SwapSpace):
    """Knows what the small model has written into the blocks that were stored."""

    def __init__(self, cache: KVCache, num_blocks: int, draft: DraftModel):
        super().__init__(cache, num_blocks, draft.paged.cache)
        self._written = draft.written
        self._texts: dict[int, Text | None] = {}  # of each row

    def store(self, block_ids: Sequence[int]) -> list[int]:
        """As SwapSpace's."""
        rows = super().store(block_ids)
        self._texts |= zip(rows, self._written.texts(block_ids), strict=True)
        return rows

    def load(self, rows: Sequence[int], block_ids: Sequence[int]) -> None:
        """As SwapSpace's."""
        super().load(rows, block_ids)
        self._written.put(block_ids, [self._texts[row] for row in rows])


class _Unread:
    """Guesses that lie on the device: the next round reads them there, and the step.

    Attributes: rounds of guesses: whose, of which number, and the tokens.
    """

    def __init__(self, written: WrittenBlocks, newest: Pending | None = None):
        """newest: the newest tokens, if the CPU has not read them either."""
        self.rounds: list[tuple[list[Work], int, Tensor]] = []
        self._newest = newest
        self._written = written
        self._to_note: list[tuple[Work, int]] = []

    def add(self, works: list[Work], number: int, tokens: Tensor) -> None:
        """The guesses of this number, a token for each work.

        They count only for works that take the likeliest.
        """
        taking = [n for n, work in enumerate(works) if _takes_the_best(work, number)]
        if not taking:
            return
        if len(taking) < len(works):
            works = [works[n] for n in taking]
            (at,) = to_device([np.array(taking)], tokens.device)
            tokens = tokens[at]
        self.rounds.append((works, number, tokens))

    def of_round(self) -> Pending | None:
        """What is pending for the next round: the guesses of the last one.

        At first the newest tokens, and those before them.
        """
        newest = self._newest
        if self.rounds:
            works, _, tokens = self.rounds[-1]
            places = {work.sequence: [place] for place, work in enumerate(works)}
            return Pending((tokens,), places, self._back(works))
        if newest is None or newest.with_before is None:
            return newest
        count = newest.num_tokens
        places = {seq: [count + n, n] for seq, (n,) in newest.places.items()}
        return Pending((newest.with_before.view(-1),), places, newest.back)

    def of_step(self) -> Pending | None:
        """What is pending for the large model: newest tokens, and all guesses."""
        newest = self._newest
        if not self.rounds:
            return newest
        parts: tuple[Tensor, ...] = ()
        places: dict[Any, list[int]] = {}
        count = 0
        if newest is not None:
            parts = newest.parts
            places |= newest.places
            count = newest.num_tokens
        for works, _, guesses in self.rounds:
            for place, work in enumerate(works, count):
                places[work.sequence] = [*places.get(work.sequence, []), place]
            count += len(works)
            parts += (guesses,)
        back = None
        if newest is not None and newest.back is not None:
            backs = [newest.back, *(self._back(works) for works, *_ in self.rounds)]
            is_repeated = all([own is newest.back for own in backs])
            back = newest.back if is_repeated else torch.cat(backs)
        return Pending(parts, places, back)

    def _back(self, works: list[Work]) -> Tensor | None:
        """By how many places these works are moved back; None if nothing is."""
        newest = self._newest
        if newest is None or newest.back is None:
            return None
        stay = newest.num_tokens
        places = [newest.places.get(work.sequence, [stay])[0] for work in works]
        if places == [*range(stay)]:
            return newest.back
        (at,) = to_device([np.array(places)], newest.back.device)
        return torch.cat([newest.back, newest.back.new_zeros(1)])[at]

    def note_later(self, work: Work, start: int) -> None:
        """Once guesses are read, note what the small model has written from there."""
        self._to_note.append((work, start))

    def read(self) -> None:
        """Wait for the guesses, and write them into the texts."""
        if self.rounds:
            tokens = iter(torch.cat([tokens for *_, tokens in self.rounds]).tolist())
            for works, number, _ in self.rounds:
                for work in works:
                    _put(work, number, next(tokens))
        self.rounds.clear()
        for work, start in self._to_note:
            sequence = work.sequence
            stop = sequence.num_known + max(0, _num_guesses(work) - 1)
            tokens, block_ids = sequence.tokens, sequence.table.block_ids
            self._written.note(tokens, block_ids, min(work.stop, stop), start)
        self._to_note.clear()


def _is_ahead(work: Work) -> bool:
    """Does it begin with a token that the CPU has not read yet?"""
    return work.start >= len(work.sequence.tokens)


def _concerns_drafts(plan: Plan) -> bool:
    """Are there guesses in it, or prompts? While guessing pauses, mostly not."""
    return any(
        [
            stop - start > 1 or start < sequence.num_prefill_tokens
            for _, sequence, start, stop, _ in plan.works
        ]
    )


def _put(work: Work, number: int, guess: int) -> None:
    work.sequence.tokens[work.sequence.num_known + number] = guess


def _num_guesses(work: Work) -> int:
    return 0 if _in_prompt(work) else work.num_tokens - 1


def _in_prompt(work: Work) -> bool:
    return work.start < work.sequence.num_prefill_tokens


def _takes_the_best(work: Work, number: int) -> bool:
    """Is this guess the likeliest token, whatever was said before?"""
    options = work.request.strategy.options
    begins_a_branch = number == 0 and work.request.drafts
    return not (options.processors or options.do_sample or begins_a_branch)


def _same_dice(work: Work) -> torch.Generator | None:
    """Draws as the large model will draw; None for a request without a seed."""
    generator = work.request.strategy.generator
    if generator is None:
        return None
    dice = torch.Generator(generator.device)
    dice.set_state(generator.get_state())
    return dice


def _guess(
    work: Work, number: int, logits: Tensor, dice: torch.Generator | None
) -> tuple[int, Tensor | None]:
    """A guess of this number; and its probabilities, if a rule must know them."""
    request = work.request
    text = work.sequence.tokens[: work.sequence.num_known + number]
    turn = Turn(request, range(1))
    scores = or_failed(scores_of, [turn], [range(1)], logits, [text])
    if isinstance(scores, Failed):  # a processor may refuse what was guessed
        scores = logits
    if request.strategy.draws_guesses:
        q, _ = probabilities_of(scores)
        return int(torch.multinomial(q, 1)), q
    if dice is not None and request.strategy.options.do_sample and not request.drafts:
        q, _ = probabilities_of(scores)
        return int(torch.multinomial(q.to(dice.device), 1, generator=dice)), None
    if request.drafts and number == 0:  # each branch begins with another token
        rank = request.live.index(work.sequence)
        return int(scores.topk(rank + 1).indices[0, rank]), None
    return int(likeliest(scores)), None
