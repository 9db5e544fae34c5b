"""The benchmark that counts greedy answers with guesses sees what is wrong."""

import pytest
import torch
from transformers import GenerationConfig

from benchmarks.cpu import speculation_exact as exact
from benchmarks.cpu.tiny_families import tiny_family
from minipaged.decoding import speculative

FOLLOW = speculative.follow


def trusts_the_first_guess(branches, token_at):
    """Wrong: the first guess is not checked."""
    first, known = branches[0], branches[0].num_known

    def trusting(branch, place):
        guessed = first.tokens[known : known + 1]
        return guessed[0] if not place and guessed else token_at(branch, place)

    return FOLLOW(branches, trusting)


@pytest.mark.parametrize("is_wrong", [False, True])
def test_answers_that_differ_are_counted(monkeypatch, is_wrong):
    monkeypatch.setattr(exact, "PROCESSORS", {"none": {}})
    monkeypatch.setattr(exact, "WAYS", {"swap": exact.WAYS["swap"]})
    if is_wrong:
        monkeypatch.setattr(speculative, "follow", trusts_the_first_guess)
    tally = exact.Tally()
    exact.check_family("qwen3", tally)
    assert tally.counts["compared"] == 4 * len(exact.prompts())
    assert tally.counts["preemptions"] and tally.counts["accepted_tokens"]
    assert bool(tally.differing) == is_wrong


def test_a_tie_is_found_in_the_scores_before_anything_is_guessed(monkeypatch):
    model = tiny_family("qwen3")
    config = GenerationConfig(max_new_tokens=6, pad_token_id=0)
    text, size = exact.plain(model, [5, 6, 7], config)
    assert size == len(text) == 6
    with torch.no_grad():  # two tokens that are always equally likely
        rows = model.get_output_embeddings().weight
        rows[text[0] - 1] = rows[text[0]]
    _, size = exact.plain(model, [5, 6, 7], config)
    assert size == 0


def test_a_text_is_compared_up_to_its_tie():
    tally = exact.Tally()
    right = [([1, 2, 3], 3), ([1, 2, 3], 1), ([1, 2, 3], 1)]
    tally.compare("a case", [[1, 2], [1, 9, 9], [9, 2, 3]], right)
    assert tally.counts == {"compared": 3, "cut_at_a_tie": 2}
    assert [wrong["prompt"] for wrong in tally.differing] == [0, 2]
