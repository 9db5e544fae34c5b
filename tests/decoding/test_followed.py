"""Which guesses are right is found on the device as it is found in the texts."""

import random

import pytest
import torch

from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.decoding import followed
from minipaged.decoding.followed import follow_all, follow_each
from minipaged.decoding.followed_kernel import follow_rows
from minipaged.scheduling.guesses import follow
from minipaged.scheduling.sequence import Sequence

DEVICE = "cpu" if INTERPRETED else "cuda"
WAYS = pytest.mark.parametrize("way", [follow_each, follow_rows])


def on_device(numbers):
    return torch.tensor(numbers, dtype=torch.int64, device=DEVICE)


def test_the_example_of_the_docstring():
    found = follow_all(
        on_device([4, 5, 7, 9]), on_device([5, 7, 8, 1]), [range(4)], [range(4)]
    )
    assert [part.tolist() for part in found] == [[[8], [7]], [1]]


def texts(seed, num_sequences=90, most=5):
    """Sequences with guesses, and what was chosen after each of their tokens."""
    draw = random.Random(seed)
    for _ in range(num_sequences):
        sequence = Sequence([draw.randrange(3) for _ in range(4)])
        sequence.guess([draw.randrange(3) for _ in range(draw.randrange(most + 1))])
        yield sequence, [draw.randrange(3) for _ in sequence.tokens[3:]]


def all_at_once(seed):
    """As `follow_all`, with the sequences chosen for in another order."""
    pairs = [*texts(seed)]
    order = [*range(len(pairs))]
    random.Random(seed).shuffle(order)
    computed, chosen, rows, places = [], [], [], {}
    for sequence, _ in pairs:
        new = sequence.tokens[3:]
        rows.append(range(len(computed), len(computed) + len(new)))
        computed += new
    for place in order:
        tokens = pairs[place][1]
        places[place] = range(len(chosen), len(chosen) + len(tokens))
        chosen += tokens
    in_order = [places[place] for place in range(len(pairs))]
    found = follow_all(on_device(computed), on_device(chosen), rows, in_order)
    return zip(*found.newest.tolist(), found.num_wrong.tolist(), strict=True)


def check(seed):
    right = set()
    for (sequence, chosen), found in zip(texts(seed), all_at_once(seed), strict=True):
        _, tokens = follow([sequence], lambda _, place, of=chosen: of[place])
        num_right = len(tokens) - 1
        before = sequence.tokens[3 + num_right]
        num_guesses = len(sequence.tokens) - sequence.num_known
        assert found == (tokens[-1], before, num_guesses - num_right)
        right.add(num_right)
    assert right >= {0, 1, 2, 3}


@WAYS
@pytest.mark.parametrize("seed", range(3))
def test_as_in_the_texts(way, seed, monkeypatch):
    monkeypatch.setattr(followed, "follow_each", way)
    check(seed)


def counts_all(computed, chosen, numbers, most):
    """Wrong: a right guess after a wrong one counts."""
    first, first_chosen, num_guesses = numbers[..., None]
    number = torch.arange(most + 1, device=chosen.device).minimum(num_guesses)
    computed, chosen = computed[first + number], chosen[first_chosen + number]
    is_right = (chosen[:, :-1] == computed[:, 1:]) & (number[:, 1:] > number[:, :-1])
    count = is_right.sum(1, keepdim=True)
    newest, before = chosen.gather(1, count), computed.gather(1, count)
    return torch.cat([newest, before, num_guesses - count], dim=1).T


def test_a_right_guess_after_a_wrong_one_is_noticed(monkeypatch):
    monkeypatch.setattr(followed, "follow_each", counts_all)
    monkeypatch.setattr("minipaged.decoding.followed_kernel.follow_rows", counts_all)
    with pytest.raises(AssertionError):
        check(0)
