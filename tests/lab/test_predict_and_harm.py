"""Predictions and expected harm: what lessons say when something holds, or breaks."""

import pytest
import torch

from minipaged.lab.tour.harm import expect_error, expect_harm
from minipaged.lab.tour.predict import reveal


@pytest.mark.parametrize(
    ("guess", "answer", "said"),
    [
        (68, 68, "**68** slots; exactly your guess"),
        (60, 68, "off by 8"),
        (100, 800, "off by a factor of 8.0"),
        (800, 100, "off by a factor of 8.0"),
        (0, 5, "off by 5"),
        (-3, 5, "off by 8"),
        (80, 97.24, "**97.2** slots; your guess is off by 17.2"),
        (1000, 15728, "**15,728** slots"),
    ],
)
def test_a_guess_is_compared_with_the_answer(monkeypatch, guess, answer, said):
    shown = []
    monkeypatch.setattr(
        "minipaged.lab.tour.predict.display", lambda m: shown.append(m.data)
    )
    reveal(guess, answer, "slots")
    (text,) = shown
    assert said in text
    # Before the fold stands only the guess: nobody is told the answer unasked.
    head, _ = text.split("<details>")
    assert "Your guess" in head
    assert guess == answer or f"{answer:,}" not in head


def test_a_guess_may_be_right_but_for_rounding(monkeypatch):
    shown = []
    monkeypatch.setattr(
        "minipaged.lab.tour.predict.display", lambda m: shown.append(m.data)
    )
    reveal(3, 3.04, "bytes")
    reveal(3, 3.06, "bytes")
    assert "your guess, rounded" in shown[0] and "off by 0.1" in shown[1]


def test_shares_are_compared_in_points(monkeypatch):
    shown = []
    monkeypatch.setattr(
        "minipaged.lab.tour.predict.display", lambda m: shown.append(m.data)
    )
    reveal(50, 20.3, "% hold tokens")
    assert "off by 29.7 points" in shown[0]


def test_what_would_give_the_answer_away_stands_in_the_fold(monkeypatch):
    shown = []
    monkeypatch.setattr(
        "minipaged.lab.tour.predict.display", lambda m: shown.append(m.data)
    )
    reveal(50, 20.3, "tokens", "found  17", "computed  3")
    head, fold = shown[0].split("<details>")
    assert "found" not in head and "3" not in head
    assert "found  17\ncomputed  3\n" in fold and fold.endswith("</details>")


def test_a_guess_that_is_no_number_says_what_to_write():
    with pytest.raises(TypeError, match="guess = 4"):
        reveal("four", 4, "slots")


def test_harm_is_printed(capsys):
    expect_harm("free blocks", right=8, wrong=5)
    assert capsys.readouterr().out == (
        "free blocks\n    should be  8\n    but is     5\n"
    )


def test_harm_among_tensors_and_nan():
    expect_harm("rows", right=torch.tensor([1, 2]), wrong=torch.tensor([1, 3]))
    with pytest.raises(AssertionError):
        expect_harm("a number", right=float("nan"), wrong=float("nan"))


def test_harm_that_does_not_happen_fails():
    with pytest.raises(AssertionError, match="nothing broke: free blocks"):
        expect_harm("free blocks", right=8, wrong=8)


def test_an_expected_error_is_printed(capsys):
    with expect_error(ValueError):
        raise ValueError("give a number")
    assert capsys.readouterr().out == "ValueError: give a number\n"


def test_an_error_that_does_not_come_fails():
    with (
        pytest.raises(AssertionError, match="expected ValueError"),
        expect_error(ValueError),
    ):
        pass


def test_another_error_passes_through():
    with pytest.raises(KeyError), expect_error(ValueError):
        raise KeyError("other")
