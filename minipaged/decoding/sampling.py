"""Lesson 2: greedy and random sampling; lesson 4: n samples (paper, section 4.4)."""

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from minipaged.decoding.draw import NO_TOKEN, next_tokens, rows_of_samples
from minipaged.decoding.options import Options
from minipaged.decoding.strategy import Failed, Output, Strategy, Turn, or_failed
from minipaged.scheduling.request import Request

NO_TOKEN_DRAWN = (
    "no token can be drawn: probabilities are NaN or infinite; look at the "
    "temperature, the logits processors, and the model's logits"
)


class Sampling(Strategy):
    """The likeliest token, or a random one; for one sequence or several samples.

    At its first turn a request is forked into its samples; they share the prompt.
    """

    def __init__(self, options: Options, generator: torch.Generator | None = None):
        """Draw from `generator`; without it, from torch's global generator."""
        self.options = options
        self.generator = generator

    @property
    def runs_ahead(self) -> bool:
        """May its next step be computed before the CPU has read this one's tokens?

        Not if a seed or processors need them: see `engine.ahead` (appendix D).
        """
        return self.generator is None and self.options.batch_key is not None

    def tokens_ahead(self, request: Request) -> int | None:
        """How many tokens the next step may compute that only the device knows by then.

        With 0, the request alone waits until they are read; with None, all requests do.
        """
        return 1

    @classmethod
    def choose(cls, turns: list[Turn], logits: Tensor) -> list["Chosen | Failed"]:
        """The next token of every sample of these requests.

        At first, samples share one row. Ended samples draw, too, as in HuggingFace, so
        that the others draw the same tokens; `apply` drops theirs.
        """
        return cls.choose_rows(turns, [*map(rows_of_samples, turns)], logits)

    @classmethod
    def choose_rows(
        cls, turns: list[Turn], rows: list[range | list[int]], logits: Tensor
    ) -> list["Chosen | Failed"]:
        """The next token of each of these rows of each turn.

        Requests with equal processors go through them together, as one tensor.
        """
        rows_of = dict(zip([turn.request for turn in turns], rows, strict=True))
        groups: dict[Any, list[Turn]] = {}
        for turn in turns:
            # A request whose processors read its tokens so far is a group alone.
            key = turn.request.strategy.options.batch_key or turn.request
            groups.setdefault(key, []).append(turn)
        chosen = {}
        remaining = list(groups.values())
        while remaining:
            group = remaining.pop(0)
            rows = [rows_of[turn.request] for turn in group]
            tokens = or_failed(next_tokens, group, rows, logits)
            if isinstance(tokens, Failed):
                if len(group) > 1:  # each request alone shows which of them fails
                    remaining += [[turn] for turn in group]
                else:
                    chosen[group[0].request] = tokens
                continue
            chosen_tokens = ChosenTokens(tokens)
            stop = 0
            for turn, samples in zip(group, rows, strict=True):
                start, stop = stop, stop + len(samples)
                chosen[turn.request] = chosen_tokens, start, stop
        return [chosen[turn.request] for turn in turns]

    def apply(self, turn: Turn, choice: "Chosen") -> None:
        """At the first turn, fork. Then append each sample's token."""
        request = turn.request
        while len(request.answers) < request.num_parallel:
            request.fork(request.answers[0])
        chosen_tokens, start, stop = choice
        tokens = chosen_tokens.as_numbers[start:stop]
        if NO_TOKEN in tokens:
            request.fail(NO_TOKEN_DRAWN)
            return
        for sequence, token in zip(request.answers, tokens, strict=True):
            if sequence.finish_reason is None:
                sequence.append(token)
                ends = or_failed(self.options.ends, sequence.tokens)
                if isinstance(ends, Failed):
                    request.fail(ends.reason)
                elif ends:
                    sequence.end("stop")
                elif sequence.num_new == request.max_new_tokens:
                    sequence.end("length")

    def output(self, request: Request) -> Output:
        """Every sample's tokens; "stop" is the reason if all ended by themselves."""
        reasons = {sequence.finish_reason for sequence in request.answers}
        return Output(
            [sequence.new_tokens for sequence in request.answers],
            "stop" if reasons == {"stop"} else "length",
            num_cached_tokens=request.num_cached_tokens,
        )

    def so_far(self, request: Request) -> Output:
        """Every sample's tokens so far; empty lists if there are none."""
        said = [sequence.new_tokens for sequence in request.answers]
        said += [list(said[0]) for _ in range(request.num_parallel - len(said))]
        cached = request.num_cached_tokens
        return Output(said, "aborted", num_cached_tokens=cached)

    def save(self) -> Any:
        """The generator's state: nothing else changes."""
        return self.generator and self.generator.get_state()

    def restore(self, saved: Any) -> None:
        """Set the generator back: the same tokens will be drawn again."""
        if self.generator is not None:
            self.generator.set_state(saved)


class ChosenTokens:
    """Tokens that were chosen for several requests, in one tensor."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor

    @cached_property
    def as_numbers(self) -> list[int]:
        """The tokens as a list; the first call waits for the device."""
        return self.tensor.tolist()


# A request's tokens are those from start to stop - 1.
Chosen = tuple[ChosenTokens, int, int]
