"""Tokens drawn in few launches: the likeliest, or as often as their probabilities."""

from itertools import product

import pytest
import torch
from transformers import GenerationConfig, LogitsProcessorList

from helpers.thorough import all_or, often
from helpers.tiny_models import tiny_model
from helpers.warpers import warpers_of
from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.decoding import cutoff, fast_draw
from minipaged.decoding.draw import NO_TOKEN
from minipaged.decoding.fast_draw import draw_rows, draw_unseeded
from minipaged.decoding.options import resolve_options
from minipaged.decoding.row_options import GREEDY, RowOptions

DEVICE = "cpu" if INTERPRETED else "cuda"


def random_logits(rows, vocabulary, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, vocabulary, generator=generator).to(DEVICE) * 4


@pytest.mark.parametrize("vocabulary", [1, 4095, 4097])
def test_the_likeliest(vocabulary):
    logits = random_logits(3, vocabulary)
    assert torch.equal(draw_rows(logits, [GREEDY] * len(logits)), logits.argmax(-1))


def test_of_several_that_are_as_likely_the_first():
    logits = torch.zeros(2, 9000, device=DEVICE)
    logits[0, [8500, 4100]] = 1.0
    assert draw_rows(logits, [GREEDY] * len(logits)).tolist() == [4100, 0]


def test_where_nothing_is_left():
    """torch's argmax says the first, and its multinomial refuses to draw."""
    logits = torch.full((2, 50), float("-inf"), device=DEVICE)
    options = [GREEDY, RowOptions(top_k=3)]
    assert draw_rows(logits, options, torch.ones(2, 2, device=DEVICE)).tolist() == [
        0,
        NO_TOKEN,
    ]


@pytest.mark.parametrize("vocabulary", [50, 9000])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_no_number_is_not_drawn(vocabulary, bad):
    """Where torch's multinomial raises; the likeliest is what its argmax says."""
    logits = random_logits(6, vocabulary)
    logits[1, vocabulary - 7], logits[4, :] = bad, float("-inf")
    logits[2, 3] = bad
    options = [RowOptions(), RowOptions(), GREEDY, RowOptions(top_k=5)]
    options += [RowOptions(2.0, top_p=0.5), GREEDY]
    tokens = draw_rows(logits, options, torch.rand(6, 2, device=DEVICE)).tolist()
    for row, one in enumerate(options):
        if one.is_greedy:
            assert tokens[row] == int(logits[row].argmax())
            continue
        # Not on a GPU, which can compute nothing any more after that.
        probabilities = torch.softmax(logits[row], -1).cpu()
        try:
            torch.multinomial(probabilities, 1)
            assert 0 <= tokens[row] < vocabulary
        except RuntimeError:
            assert tokens[row] == NO_TOKEN
    assert tokens.count(NO_TOKEN) == 2
    logits[0, 0] = bad
    assert (
        draw_rows(logits, [RowOptions(top_k=5)] * 6, torch.rand(6, 2, device=DEVICE))[0]
        == NO_TOKEN
    )


def launches(monkeypatch):
    """Which kernels are launched from now on, with which logits and constants."""
    seen = []

    def noting(module, name):
        kernel = getattr(module, name)

        class Launched:
            def __getitem__(self, grid):
                def launch(*arguments, **constants):
                    rows = [a for a in arguments if getattr(a, "ndim", 0) == 2]
                    shape = next(a for a in rows if a.shape[1] not in (1, 2, 4))
                    seen.append((name, shape.dtype, *sorted(constants.items())))
                    return kernel[grid](*arguments, **constants)

                return launch

        monkeypatch.setattr(module, name, Launched())

    noting(cutoff, "_cutoff_kernel")
    noting(fast_draw, "_weigh_kernel")
    noting(fast_draw, "_draw_kernel")
    return seen


def test_what_is_loaded_is_what_draws_launch(monkeypatch):
    """Three kernels for each type of logits, whatever is asked for."""
    seen = launches(monkeypatch)
    dtypes = {torch.float32, torch.float16}
    fast_draw.load_kernels(50, dtypes, torch.device(DEVICE))
    loaded = set(seen)
    assert len(loaded) == 6
    for dtype, own in product(
        dtypes, [{}, {"top_k": 2}, {"top_p": 0.5}, {"min_p": 0.1}]
    ):
        seen.clear()
        logits = random_logits(2, 50).to(dtype)
        options = [GREEDY, RowOptions(2.0, **own)]
        draw_rows(logits, options, torch.zeros(2, 2, device=DEVICE))
        assert set(seen) <= loaded and len(seen) == (3 if own else 2)
        seen.clear()
        draw_rows(logits, [GREEDY] * 2)
        assert set(seen) <= loaded and len(seen) == 2


def by_huggingface(logits, options):
    """Logits at a temperature; -inf where they are not kept."""
    return warpers_of(options)(None, logits)


@pytest.mark.parametrize(
    "chunk, temperature, own",
    all_or(
        [
            (16, 2.0, {}),
            (64, 0.5, {}),
            (16, 2.0, {"top_k": 9, "top_p": 0.7}),
            (64, 0.5, {"top_p": 0.8}),
            (16, 2.0, {"min_p": 0.2}),
        ],
        [(64, 0.5, {}), (16, 2.0, {"min_p": 0.2})],
    ),
)
def test_drawn_as_often_as_the_probabilities_say(monkeypatch, chunk, temperature, own):
    """At random numbers that lie evenly, each token has its share of them."""
    monkeypatch.setattr(fast_draw, "_CHUNK", chunk)
    monkeypatch.setattr(cutoff, "_LANES", 64)
    (logits,) = random_logits(1, 50)
    logits[[3, 30]] = float("-inf")
    logits[48:] = float("-inf")
    steps = (torch.arange(12, device=DEVICE) + 0.5) / 12
    uniform = torch.cartesian_prod(steps, steps)
    options = [RowOptions(1 / temperature, **own)] * 144
    tokens = draw_rows(logits.expand(144, 50).contiguous(), options, uniform)
    share = torch.bincount(tokens, minlength=50).cpu() / 144
    right = torch.softmax(by_huggingface(logits[None].cpu(), options[0])[0], 0)
    # A chunk's share is met to 1/12, and a token's within it.
    assert (share - right).abs().max() < 2 / 12
    assert not share[right == 0].any() and not right[[3, 30, 48, 49]].any()
    for start in range(0, 50, chunk):
        gap = (share - right)[start : start + chunk].sum()
        assert abs(gap) <= 1 / 12


@pytest.mark.parametrize("number", [0.0, 1 - 2**-24])
def test_the_first_and_the_last_random_number(number):
    """What is impossible is never drawn, whatever the rounding."""
    logits = torch.full((1, 9000), float("-inf"), device=DEVICE)
    logits[0, 5000:6000] = random_logits(1, 1000)[0]
    uniform = torch.full((1, 2), number, device=DEVICE)
    (token,) = draw_rows(logits, [RowOptions(1 / 0.7)], uniform).tolist()
    # The last ones are less likely than float32 can tell from nothing.
    assert token == 5000 if number == 0.0 else 5990 < token < 6000


def test_rows_with_gaps_and_no_rows():
    logits = random_logits(4, 300)[::2, :200]
    assert torch.equal(draw_rows(logits, [GREEDY] * len(logits)), logits.argmax(-1))
    assert draw_rows(logits[:0], []).tolist() == []


def test_rows_with_other_options_do_not_change_each_other(monkeypatch):
    """All kinds in one launch: each row's token is that which it gets alone."""
    monkeypatch.setattr(fast_draw, "_CHUNK", 64)
    monkeypatch.setattr(cutoff, "_LANES", 64)
    kinds = [GREEDY, *(RowOptions(s) for s in (0.2, 1.0, 5.0))]
    kinds += [RowOptions(0.3, **own) for own in ({"top_k": 3}, {"top_p": 0.3})]
    kinds += [RowOptions(0.3, 40, 0.9, 0.01), RowOptions(0.2, min_p=0.5)]
    options = kinds * often(6)
    generator = torch.Generator().manual_seed(7)
    logits = random_logits(len(options), 200)
    uniform = torch.rand(len(options), 2, generator=generator).to(DEVICE)
    together = draw_rows(logits, options, uniform).tolist()
    for at, own in enumerate(options):
        each = slice(at, at + 1)
        (alone,) = draw_rows(logits[each], [own], uniform[each]).tolist()
        assert together[at] == alone
        scores = logits[each].cpu()
        if own is not GREEDY:
            scores = by_huggingface(scores, own)
        allowed = (
            [scores[0].argmax()] if own is GREEDY else (scores[0] > -1e30).nonzero()
        )
        assert alone in allowed
    backwards = draw_rows(logits.flip(0), options[::-1], uniform.flip(0))
    assert backwards.tolist()[::-1] == together


def resolved(**own):
    config = GenerationConfig(max_new_tokens=3, **own)
    return resolve_options(tiny_model("qwen3"), config, [5])


@pytest.mark.parametrize(
    "own, allowed",
    [
        ({}, 1),
        ({"do_sample": True, "temperature": 0.01}, 1),
        ({"do_sample": True, "top_k": 3, "temperature": 5.0}, 3),
        ({"do_sample": True, "top_k": 0, "suppress_tokens": [*range(90)]}, 38),
        ({"suppress_tokens": [*range(90)]}, 1),
    ],
)
def test_options(own, allowed):
    logits = random_logits(1, 128).expand(16, 128).contiguous()
    if "suppress_tokens" in own:
        logits[:, 90:] -= 30.0
        best = set((90 + logits[0, 90:].topk(allowed).indices).tolist())
    else:
        best = set(logits[0].topk(allowed).indices.tolist())
    drawn = set(draw_unseeded([resolved(**own)] * 16, logits).tolist())
    assert drawn <= best and (len(drawn) > 1 or allowed == 1)


def test_only_processors_that_are_no_numbers_are_called(monkeypatch):
    called = []

    class Called(LogitsProcessorList):
        def __call__(self, history, scores):
            called.append(scores.dtype)
            return super().__call__(history, scores)

    def options(**own):
        found = resolved(do_sample=True, **own)
        object.__setattr__(found, "processors", Called(found.processors))
        return found

    logits = random_logits(3, 128).half()
    numbers = {"top_k": 3, "top_p": 0.9, "min_p": 0.01, "temperature": 0.7}
    draw_unseeded([options(**numbers), options(), options(top_k=1)], logits)
    assert not called
    draw_unseeded([options(typical_p=0.8)] * 3, logits)
    assert called == [torch.float32]


def test_who_is_greedy_needs_no_random_number(monkeypatch):
    """So the state of torch's generator is left as it is."""
    greedy, logits = resolved(), random_logits(2, 128)
    state = torch.get_rng_state()
    draw_unseeded([greedy] * 2, logits)
    assert torch.equal(state, torch.get_rng_state())
    draw_unseeded([greedy, resolved(do_sample=True)], logits)
    assert torch.equal(state, torch.get_rng_state()) != INTERPRETED
