"""Guesses from the text itself: HuggingFace's, and those of the longest suffix."""

import random

import pytest
import torch
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

import minipaged as mp


def texts(count=300):
    """Few different tokens, so that they repeat."""
    draw = random.Random(0)
    for _ in range(count):
        kinds = draw.choice([2, 4, 9])
        yield [draw.randrange(kinds) for _ in range(draw.randrange(1, 40))]


@pytest.mark.parametrize("num_tokens, max_ngram", [(10, 2), (3, 1), (4, 5)])
def test_as_huggingface_guesses(num_tokens, max_ngram):
    """Its generator stops at an eos; so does the strategy that asks ours."""
    theirs = PromptLookupCandidateGenerator(None, num_tokens, max_ngram, 1000)
    ours = mp.PromptLookup(num_tokens, max_ngram)
    found = 0
    for text in texts():
        candidates, _ = theirs.get_candidates(torch.tensor([text]))
        right = candidates[0, len(text) :].tolist()
        assert ours.guess(text, num_tokens) == ([right] if right else [])
        found += bool(right)
    assert found > 200


def longest_suffix(text):
    """The slow way: all places, all lengths; the latest of the longest."""
    best = (0, 0)
    for place in range(1, len(text)):
        length = 0
        while length < place and text[place - 1 - length] == text[-1 - length]:
            length += 1
        best = max(best, (length, place))
    return best


def test_the_longest_suffix_at_its_latest_place():
    lookup = mp.PromptLookup(5)
    longest = 0
    for text in texts():
        length, place = longest_suffix(text)
        right = text[place:] * 5  # it goes on repeating itself
        right = right[: min(5, 2 * length + 1)]
        assert lookup.guess(text, 5) == ([right] if length else [])
        longest = max(longest, length)
    assert longest > 7


@pytest.mark.parametrize("max_ngram", [1, None])
def test_branches_begin_differently(max_ngram):
    lookup = mp.PromptLookup(3, max_ngram, tree=3)
    text = [7, 1, 7, 2, 2, 7, 1, 5, 7, 3, 7]
    found = {
        1: [[1, 7, 2], [2, 2, 7], [3, 7]],
        None: [[3, 7, 3], [1, 5, 7], [2, 2, 7]],
    }
    assert lookup.guess(text, 3) == found[max_ngram]


def test_large_token_ids_and_texts_that_are_too_short():
    lookup = mp.PromptLookup(2)
    assert lookup.guess([262_143, 55_296, 5, 262_143], 2) == [[55_296, 5]]
    assert lookup.guess([5], 2) == [] == lookup.guess([5, 6, 7], 2)
