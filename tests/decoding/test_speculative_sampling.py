"""Guesses change no probability: of all texts of three tokens, against p itself.

A model of four tokens, whose logits depend on the last token alone, says how likely
each text is. Many texts are drawn, and their counts are compared by chi-square.
"""

from dataclasses import replace
from itertools import chain, product

import pytest
import torch
from transformers import GenerationConfig

import minipaged as mp
from helpers.tiny_models import tiny_model
from minipaged.decoding import drawn_guesses, speculative
from minipaged.decoding.draw import probabilities_of
from minipaged.decoding.options import resolve_options
from minipaged.decoding.speculation import Speculation
from minipaged.decoding.speculative import Speculating
from minipaged.engine.arguments import make_request
from minipaged.engine.loop import run

COUNT, LENGTH, VOCABULARY = 2000, 3, 4
TABLE = torch.randn(VOCABULARY, VOCABULARY, generator=torch.manual_seed(3)) * 1.5
DRAFT = TABLE + torch.randn(VOCABULARY, VOCABULARY, generator=torch.manual_seed(4))


class Chain:
    """Computes a plan: the logits of a token are a row of the table."""

    def compute(self, plan):
        tokens = [
            work.sequence.tokens[work.stop - work.num_logits : work.stop]
            for work in plan.works
        ]
        return None, TABLE[[*chain.from_iterable(tokens)]]


class Fixed(Speculation):
    """Guesses that nobody has drawn: always the same ones."""

    least_right = 0.0

    def __init__(self, branches):
        super().__init__(2, len(branches))
        self.branches = branches

    def guess(self, tokens, count):
        return [branch[:count] for branch in self.branches]


class Drawn(Speculation):
    """Guesses that a draft model has drawn from probabilities of its own."""

    least_right = 0.0

    def guess(self, tokens, count):
        return [[-1] * count]

    def compute(self, plan):
        """Draw, then let the model compute."""
        for work in plan.works:
            sequence = work.sequence
            drafted = []
            for place in range(sequence.num_known, work.stop):
                last = sequence.tokens[place - 1]
                drafted.append(probabilities_of(DRAFT[last][None])[0])
                sequence.tokens[place] = int(torch.multinomial(drafted[-1], 1))
            work.request.strategy.drafted = torch.cat(drafted) if drafted else None
        return Chain().compute(plan)


KINDS = {
    "likely": Fixed([[1, 2]]),
    "unlikely": Fixed([[3, 3]]),
    "branches": Fixed([[1, 2], [1, 3], [0, 0]]),
    "drawn": Drawn(2),
}


def distance(speculation, *, processors=(), seeded=False, count=COUNT):
    """Chi-square of what was drawn, and how many tokens were accepted."""
    config = GenerationConfig(
        max_new_tokens=LENGTH, do_sample=True, top_k=0, eos_token_id=99
    )
    model = tiny_model("qwen3")
    options = resolve_options(model, config, [0], own_processors=processors)
    options = replace(options, speculation=speculation)
    scheduler = mp.Scheduler(mp.BlockPool(count * 12, 4))
    accepted = []

    class Watch(mp.Observer):
        def verified(self, sequence, num_guesses, num_accepted):
            accepted.append(num_accepted)

    scheduler.observers.append(Watch())
    torch.manual_seed(0)
    requests = []
    for number in range(count):
        generator = torch.Generator().manual_seed(number) if seeded else None
        requests.append(make_request([0], options, generator))
        scheduler.add(requests[-1])
    assert {type(request.strategy) for request in requests} == {Speculating}
    run(speculation if isinstance(speculation, Drawn) else Chain(), scheduler, id)
    texts = [tuple(request.answers[0].new_tokens) for request in requests]
    p = torch.softmax(TABLE, -1)
    chi_square = 0.0
    for text in product(range(VOCABULARY), repeat=LENGTH):
        steps = zip((0, *text), text, strict=False)
        expected = count * torch.stack([p[a, b] for a, b in steps]).prod().item()
        chi_square += (texts.count(text) - expected) ** 2 / expected
    return chi_square, sum(accepted)


# 63 degrees of freedom: less than 1 in 1,000 samples from p is further away.
FAR = 104.0


@pytest.mark.parametrize("kind", KINDS)
def test_all_texts_are_as_likely_as_without_guesses(kind):
    chi_square, accepted = distance(KINDS[kind])
    assert chi_square < FAR
    assert accepted > 100


def test_one_after_the_other_too():
    """As for a processor that reads the text, and for a request with a seed."""
    chi_square, accepted = distance(KINDS["branches"], seeded=True, count=500)
    assert chi_square < FAR and accepted > 100
    same = [lambda text, scores: scores]
    chi_square, accepted = distance(KINDS["branches"], processors=same, count=500)
    assert chi_square < FAR and accepted > 100


def test_a_drawn_guess_is_taken_more_often_than_the_likeliest():
    _, drawn = distance(KINDS["drawn"])
    likeliest = DRAFT.argmax(-1).tolist()
    first = likeliest[0]
    _, fixed = distance(Fixed([[first, likeliest[first]]]))
    assert drawn > fixed > 100


# --- wrong rules, which this must reject ----------------------------------------------


def likeliest_instead(scores, guesses, drafted):
    """Wrong: a guess is right if it is the likeliest token."""
    return scores.argmax(-1)


def without_what_lacks(scores, guesses, drafted):
    """Wrong: if a guess is not taken, the token is drawn from p, as if q were 0."""
    p, _ = probabilities_of(scores)
    at = torch.tensor(guesses)[:, None]
    ratio = p[: len(guesses)].gather(1, at) / drafted.gather(1, at)
    others = torch.multinomial(p, 1)
    is_taken = torch.rand_like(ratio) < ratio
    others[: len(guesses)] = torch.where(is_taken, at, others[: len(guesses)])
    return others[:, 0]


def takes_all(scores, guesses, drafted):
    """Wrong: no guess is checked."""
    p, _ = probabilities_of(scores)
    last = torch.multinomial(p[-1:], 1)[:, 0]
    return torch.cat([torch.tensor(guesses, dtype=torch.int64), last])


def as_if_likeliest(scores, guesses, drafted):
    """Wrong: takes a drawn guess with probability p(t), as if it had not been drawn."""
    return drawn_guesses.take_or_draw_anew(scores, guesses, torch.ones_like(drafted))


WRONG = [likeliest_instead, without_what_lacks, takes_all, as_if_likeliest]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_wrong_rules_are_noticed(monkeypatch, wrong):
    monkeypatch.setattr(speculative, "take_or_draw_anew", wrong)
    chi_square, _ = distance(KINDS["drawn"])
    assert chi_square > 1.3 * FAR


def test_draws_of_a_wrong_guess_are_noticed(monkeypatch):
    """Wrong: a token is drawn anew if it is not the guess, which then counts less."""
    follow = speculative.follow

    def twice(branches, token_at):
        def at(branch, place):
            guess = branch.tokens[branch.num_known + place :][:1]
            token = token_at(branch, place)
            wanted = torch.rand(()) < 0.3 and guess
            return guess[0] if wanted else token

        return follow(branches, at)

    monkeypatch.setattr(speculative, "follow", twice)
    assert distance(KINDS["likely"])[0] > 1.3 * FAR
