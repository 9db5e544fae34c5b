"""Appendix E: sampling whose tokens are guessed, and checked several in a step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from minipaged.decoding.draw import NO_TOKEN, next_tokens, rows_of_samples, scores_of
from minipaged.decoding.drawn_guesses import take_or_draw_anew
from minipaged.decoding.options import Options
from minipaged.decoding.sampling import NO_TOKEN_DRAWN, Chosen, ChosenTokens, Sampling
from minipaged.decoding.speculation import Worth
from minipaged.decoding.strategy import Failed, Turn, or_failed
from minipaged.scheduling.guesses import (
    GuessedWorks,
    computed,
    follow,
    let_guess,
    settle,
)
from minipaged.scheduling.request import Request
from minipaged.scheduling.sequence import Sequence

NOT_YET = -1  # stands for a guess that only the device knows


class RightTokens(NamedTuple):
    """A choice that was made on the device: the right guesses, and the token after."""

    tokens: list[int]


class Speculating(GuessedWorks, Sampling):
    """Greedy and random sampling, with guesses: fewer steps.

    In float32, answers are the same, but where two tokens tie.

    A token is chosen as ever, for each place where all guesses before it are right. A
    guess is right if it is the token that was chosen. So a guess t is right with
    probability p(t); if it is wrong, the token was drawn from p without t. A seeded
    request draws what it draws without guesses.

    Guesses that a draft model has drawn are an exception: see `take_or_draw_anew`.

    Source: Leviathan et al., Fast Inference from Transformers via Speculative Decoding.
    """

    def __init__(self, options: Options, generator: torch.Generator | None = None):
        """As Sampling; `options.speculation` guesses, `options.num_guesses` at most."""
        super().__init__(options, generator)
        self.speculation = options.speculation
        most = self.speculation.num_tokens
        self.num_guesses = min(options.num_guesses or most, most)
        self.num_branches = self.speculation.num_branches
        if options.num_sequences > 1:
            self.num_branches = 1
        self._worth = Worth(self.speculation.least_right)
        # The probabilities that its guesses were drawn from, [k, vocabulary].
        self.drafted: Tensor | None = None

    @property
    def draws_ahead(self) -> bool:
        """May all rows be drawn from before it is known which guesses are right?"""
        return self.generator is None and self.options.batch_key is not None

    @property
    def runs_ahead(self) -> bool:
        """As Sampling's, if the device can tell which guesses are right."""
        guesses_alone = self.guesses_ahead or not self.speculation.guesses_on_device
        return super().runs_ahead and self.num_branches == 1 and guesses_alone

    @property
    def guesses_ahead(self) -> bool:
        """May its next tokens be guessed, too, before the CPU has read this step's?"""
        draws = self.options.do_sample or self.options.processors
        return self.speculation.guesses_on_device and not draws

    def tokens_ahead(self, request: Request) -> int | None:
        """The next token, and guesses after it, as if all guesses before were right.

        What guesses from a text must wait for the text, and all others wait with it: if
        some requests went on alone, each step would serve half of them.
        """
        (answer,) = request.answers
        pace = self.speculation.pace
        if pace is not None and not pace.allows and answer.guesses_from is None:
            return 1
        may_guess = self._may_guess()
        length = len(answer.tokens)
        num_unsure = length - answer.num_known
        if not self.guesses_ahead and may_guess:
            return None
        room = request.max_computed - length
        if room < 1 and num_unsure:
            return 0  # it may be shorter, and want more
        if not may_guess:
            return 1
        count = self.speculation.num_ahead(length + 1, min(self.num_guesses, room - 1))
        if count < 1:
            return 1
        # After a pause, a draft model must see what was said meanwhile.
        was_followed = num_unsure or answer.num_computed == answer.num_prefill_tokens
        return 1 + count if was_followed else 0

    @property
    def draws_guesses(self) -> bool:
        """May a draft model draw its guesses, too, and say how likely they were?"""
        is_alone = self.num_branches == self.options.num_sequences == 1
        return self.options.do_sample and self.draws_ahead and is_alone

    @classmethod
    def choose(cls, turns: list[Turn], logits: Tensor) -> list[Any]:
        """The next token of each row, or what draws it once the guesses are followed.

        Rows after a wrong guess must not be drawn from a request's generator, nor be
        shown to processors that read the text: that text never was. So these requests
        draw one row after the other, and wait for the device.
        """
        for own in {turn.request.strategy.speculation for turn in turns}:
            own.read_guesses()
        chosen = {}
        together = []
        rows = []
        for turn in turns:
            strategy = turn.request.strategy
            if not is_guessing(turn.request):
                together.append(turn)
                rows.append(rows_of_samples(turn))
            elif strategy.drafted is not None:
                chosen[turn.request] = or_failed(_take_or_draw_anew, turn, logits)
            elif strategy.draws_ahead:
                together.append(turn)
                rows.append(turn.rows)
            else:
                chosen[turn.request] = logits
        requests = [turn.request for turn in together]
        chosen |= zip(requests, cls.choose_rows(together, rows, logits), strict=True)
        return [chosen[turn.request] for turn in turns]

    def apply(self, turn: Turn, choice: Any) -> None:
        """Keep the right guesses, append the token after them, and guess anew."""
        request = turn.request
        if is_guessing(request):
            self._follow(turn, choice)
        else:
            super().apply(turn, choice)
        waiting = []
        for answer in request.answers:
            if answer.finish_reason is not None:
                continue
            if answer.num_pending:  # the next step has guesses, on the device
                answer.guess([NOT_YET] * answer.num_pending)
                answer.num_pending = 0
            elif len(answer.tokens) > answer.num_computed:
                waiting.append(answer)
        if waiting and self._may_guess():
            for answer in waiting:
                self._guess(request, answer)

    def _may_guess(self) -> bool:
        """Does guessing pay, for this text and for all? It is asked once a step."""
        pace = self.speculation.pace
        return (pace is None or pace.allows) and self._worth.allows()

    def _follow(self, turn: Turn, choice: Any) -> None:
        request = turn.request
        if isinstance(choice, RightTokens):
            (answer,) = request.answers
            *right, _ = choice.tokens  # where only the device has known them so far
            known = answer.num_known
            answer.tokens[known : known + len(right)] = right
            return self._extend(request, answer, answer, choice.tokens)
        first_row = {}
        row = turn.rows.start
        for sequence in computed(request.live):
            first_row[sequence] = row
            row += len(sequence.tokens) - sequence.num_known + 1
        token_at = self._token_at(turn, choice, first_row)
        for answer in [one for one in request.answers if one.finish_reason is None]:
            branches = computed([answer, *request.drafts])
            followed = or_failed(follow, branches, token_at)
            if isinstance(followed, Failed):
                return request.fail(followed.reason)
            self._extend(request, answer, *followed)

    def _token_at(
        self, turn: Turn, choice: Any, first_row: dict[Sequence, int]
    ) -> Callable[[Sequence, int], int]:
        """What says which token follows a branch's first `place` guesses."""
        if isinstance(choice, Tensor):  # logits

            def token_at(branch: Sequence, place: int) -> int:
                text = branch.tokens[: branch.num_known + place]
                row = first_row[branch] + place
                return int(next_tokens([turn], [[row]], choice, [text]))

            return token_at
        chosen, start, _ = choice
        start -= turn.rows.start
        tokens = chosen.as_numbers
        return lambda branch, place: tokens[start + first_row[branch] + place]

    def _extend(
        self, request: Request, answer: Sequence, branch: Sequence, tokens: list[int]
    ) -> None:
        """Append these tokens, all but the last guessed, up to the end of the text."""
        if NO_TOKEN in tokens:
            return request.fail(NO_TOKEN_DRAWN)
        # Only stop strings look at more than the last token, and a copy takes time.
        text = answer.tokens[: answer.num_known] if self.options.stop_test else []
        room = request.max_new_tokens - answer.num_new
        reason = None
        for count, token in enumerate(tokens, 1):
            text.append(token)
            ends = or_failed(self.options.ends, text)
            if isinstance(ends, Failed):
                return request.fail(ends.reason)
            if ends or count == room:
                reason = "stop" if ends else "length"
                break
        num_guesses = [
            len(sequence.tokens) - sequence.num_known
            for sequence in computed([answer, *request.drafts])
        ]
        num_right = min(count, len(tokens) - 1)
        if any(num_guesses):
            self._worth.note(max(num_guesses), num_right)
            request.observers.verified(answer, sum(num_guesses), num_right)
        end = answer.num_known + count
        settle(request, answer, branch, len(tokens) - 1)
        if count == len(tokens):
            answer.append(token)
        else:  # the blocks come back when nothing is in flight
            del answer.tokens[end:]
        if reason is not None:
            answer.end(reason)

    def _guess(self, request: Request, answer: Sequence) -> None:
        """Guess no further than the text may go: a token follows the last guess."""
        room = request.max_computed - len(answer.tokens)
        count = min(self.num_guesses, room)
        if count < 1:
            return
        branches = [
            self._up_to_eos(guesses[:count])
            for guesses in self.speculation.guess(answer.tokens, count)
        ]
        branches = [guesses for guesses in branches if guesses][: self.num_branches]
        if branches:
            let_guess(request, answer, branches)

    def _up_to_eos(self, guesses: list[int]) -> list[int]:
        ends = (n for n, token in enumerate(guesses) if token in self.options.eos_ids)
        return guesses[: next(ends, None)]

    def save(self) -> Any:
        """What Sampling saves, and whether guessing pays."""
        return super().save(), vars(self._worth).copy()

    def restore(self, saved: Any) -> None:
        """Return to that: a step that is undone has checked no guesses."""
        of_sampling, worth = saved
        super().restore(of_sampling)
        vars(self._worth).update(worth)


def is_guessing(request: Request) -> bool:
    """Are there guesses among the tokens whose logits have come?"""
    answers = request.answers
    if len(answers) == 1:  # as mostly
        return answers[0].guesses_from is not None
    return any([answer.guesses_from is not None for answer in answers])


def _take_or_draw_anew(turn: Turn, logits: Tensor) -> Chosen:
    (answer,) = turn.request.answers
    guesses = answer.tokens[answer.num_known :]
    drafted = turn.request.strategy.drafted.to(logits.device)
    scores = scores_of([turn], [turn.rows], logits)
    tokens = take_or_draw_anew(scores, guesses, drafted)
    return ChosenTokens(tokens), 0, len(tokens)
