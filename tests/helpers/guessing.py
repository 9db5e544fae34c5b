"""A strategy that guesses how its text goes on, and checks that in one step.

It stands for all that computes several tokens of a sequence at once, and takes back
what it does not like.
"""

from random import Random

from transformers import GenerationConfig

from helpers.scheduling_machine import works_with_guesses
from minipaged.decoding.options import Options
from minipaged.decoding.strategy import Output, Strategy

MOST = 3  # guesses at a time


class Guessing(Strategy):
    """Greedy. Some of its guesses are right: it knows the text, and forgets parts."""

    def __init__(self, options: Options, text: list[int], forgets: float = 0.3):
        """`text` is the whole right answer; a part of it is guessed wrong."""
        self.options, self.text = options, text
        draw = Random(len(text))
        self.guesses = [
            token if draw.random() > forgets else (token + 1) % 100 for token in text
        ]
        self.num_right = self.num_wrong = 0

    def next_works(self, request, limit):
        """All that is not computed, with as many logits: the last, and the guesses."""
        (sequence,) = request.sequences
        return works_with_guesses(request, sequence, limit)

    @classmethod
    def choose(cls, turns, logits):
        """The likeliest token of each row."""
        return [logits[list(turn.rows)].argmax(-1) for turn in turns]

    def apply(self, turn, choice):
        """Keep the guesses that were right, append what came after them, guess anew."""
        request, chosen = turn.request, choice.tolist()
        (sequence,) = request.answers
        before = sequence.num_known
        guessed = sequence.tokens[before : before + len(chosen) - 1]
        right = 0
        while right < len(guessed) and guessed[right] == chosen[right]:
            right += 1
        self.num_right += right
        self.num_wrong += right < len(guessed)
        sequence.accept(right)
        sequence.append(chosen[right])
        for length in range(before + 1, len(sequence.tokens) + 1):
            is_last = length - sequence.num_prompt_tokens == request.max_new_tokens
            if self.options.ends(sequence.tokens[:length]) or is_last:
                del sequence.tokens[length:]
                is_stop = sequence.tokens[-1] in self.options.eos_ids
                return sequence.end("stop" if is_stop else "length")
        room = request.max_computed - len(sequence.tokens)
        at = sequence.num_new
        sequence.guess(self.guesses[at : at + min(MOST, room)])

    def output(self, request):
        """As Sampling's."""
        (sequence,) = request.answers
        cached = request.num_cached_tokens
        reason = sequence.finish_reason
        return Output([sequence.new_tokens], reason, num_cached_tokens=cached)

    def so_far(self, request):
        """The same; no guess is told."""
        return self.output(request)


class Drafting(Guessing):
    """The same, but guesses are made by a fork, whose blocks the answer takes over."""

    def next_works(self, request, limit):
        """The draft's; as long as there is none, the answer's."""
        sequence = request.drafts[0] if request.drafts else request.answers[0]
        return works_with_guesses(request, sequence, limit)

    def blocks_at_most(self, request, block_size):
        """A draft has blocks of its own: a copy of the last one, and those behind."""
        return super().blocks_at_most(request, block_size) + 1 + MOST // block_size + 1

    def apply(self, turn, choice):
        """The draft's room becomes the answer's; then all is as before."""
        request = turn.request
        (answer,) = request.answers
        for draft in request.drafts:
            answer.guess(draft.tokens[len(answer.tokens) :])
            answer.free()
            answer.table, draft.table = draft.table, None
            draft.end("dropped")
        request.drafts = []
        super().apply(turn, choice)
        guesses = answer.tokens[answer.num_known :]
        answer.accept()
        if answer.finish_reason is None and guesses:
            newest = answer.tokens.pop()  # forked while all has been computed
            draft = request.fork(answer, is_draft=True)
            answer.append(newest)
            draft.append(newest)
            draft.guess(guesses)


class Made(list):
    """Strategies, all of one kind."""

    kind: type[Guessing]


def guess_instead_of_sampling(
    monkeypatch, text_of: dict[tuple, list[int]], kind: type[Guessing] = Guessing
) -> Made:
    """Greedy requests with these prompts get a Guessing; returns all that are made."""
    from minipaged.engine import arguments

    made, sampling = Made(), arguments.Sampling
    made.kind = kind
    prompts = iter(())

    def strategy(options, generator):
        own = next(prompts)
        if options.do_sample or options.num_sequences > 1 or own not in text_of:
            return sampling(options, generator)
        made.append(kind(options, text_of[own]))
        return made[-1]

    make_request = arguments.make_request

    def noting(prompt, *rest):
        nonlocal prompts
        prompts = iter([tuple(prompt)])
        return make_request(prompt, *rest)

    monkeypatch.setattr(arguments, "Sampling", strategy)
    monkeypatch.setattr(arguments, "make_request", noting)
    return made


def greedy(num_new: int, **options) -> GenerationConfig:
    """The config of a text of so many tokens at most."""
    return GenerationConfig(max_new_tokens=num_new, pad_token_id=0, **options)
