"""Lab: check of appendix C's exercise on 8 bits: scales of heads, and what is cast.

What a cast makes of a number above 448 depends on library and device: NaN, 448, or
another number. So attempts return what the cast is given.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from minipaged.lab.check.diagnose import Case, Rules, ask_each, diagnose, tell, which
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, short
from minipaged.memory.eight_bits import E4M3, LARGEST, scale_for


def _draw(
    seed: int, shape: tuple[int, int, int], num_new: int, above: float = 1.0
) -> tuple[Tensor, Tensor]:
    """A text and new tokens, whose numbers go up to `above` times the text's.

    Each head has numbers of another size. The largest of each is negative.
    """
    source = torch.Generator().manual_seed(seed)
    _, heads, dim = shape
    sizes = 2.0 ** torch.randint(-9, 9, (heads, 1), generator=source)
    text, new = (
        sizes * (2 * torch.rand(count, heads, dim, generator=source) - 1)
        for count in (shape[0], num_new)
    )
    text[-1, :, 0] = -1.3 * sizes[:, 0]
    new[0, :, 0] = -1.3 * above * sizes[:, 0]
    new[-1, :, -1] = 1.2 * above * sizes[:, 0]
    return text, new


def _cases() -> dict[str, tuple[Tensor, Tensor, float]]:
    cases = {
        "two heads": (*_draw(0, (6, 2, 5), 4), 2.0),
        "new numbers that are five times as large": (*_draw(1, (6, 2, 5), 4, 5.0), 2.0),
        "a margin of 1": (*_draw(2, (7, 3, 4), 5, 0.5), 1.0),
        "a margin of 4": (*_draw(3, (7, 3, 4), 5, 3.0), 4.0),
    }
    text, new = _draw(4, (4, 2, 6), 3)
    text[-1, 0, 0] = -28.0  # 2 * 28 / 448 is 1/8
    text[:, 0].clamp_(-28.0, 28.0)
    cases["a head for which a power of two just fits"] = text, new, 2.0
    text, new = _draw(5, (4, 3, 6), 3)
    text[:, 1], new[:, 1] = 0.0, 0.0
    cases["a head of zeros"] = text, new, 2.0
    for seed in range(10, 25):
        shape = 2 + seed % 5, 1 + seed % 4, 2 + seed % 7
        tensors = _draw(seed, shape, 1 + seed % 3, above=seed % 6 + 0.5)
        cases[f"drawn ({seed})"] = *tensors, 1.0 + seed % 3
    return cases


@exercise
def eight_bits(attempt: Attempt) -> Callable[[], str]:
    """(text, new, margin) -> what the cast to e4m3 is given, and each head's scale."""
    cases = _cases()
    answers = ask_each(attempt, [*cases.values()], _right, _read, _same_pair)

    def where(*given: Any) -> str:
        return next(name for name, case in cases.items() if case[0] is given[0])

    for case, found in answers:
        _expect_shapes(where(*case), *found, case)
    scales = [(case, scales) for case, (_, scales) in answers]
    call = lambda *case: f"{where(*case)}: scales"  # noqa: E731
    tell(call, scales, _scales, SCALE_FLAWS, same=_same_scales, write=_listed)
    numbers = [(case, numbers) for case, (numbers, _) in answers]
    said = which(NUMBER_FLAWS, numbers, _same)
    for case, own in numbers:
        _expect_numbers(where(*case), own, case, said)
    (_, new, _), (numbers, scales) = answers[0]  # all of its numbers fit
    return lambda: _stored(new, numbers, scales)


def _stored(new: Tensor, numbers: Tensor, scales: Tensor) -> str:
    """What a cast of the attempt's numbers makes of them."""
    byte = numbers.to(E4M3)
    read = byte.float() * scales[:, None]
    off = ((read - new) / new).abs().max()
    at = f"{new[0, 0, 1]:.4g} became the byte {byte.view(torch.uint8)[0, 0, 1]:08b}"
    return f"{at}, read as {read[0, 0, 1]:.4g}; off by {off:.1%} at most"


def _scales(text: Tensor, new: Tensor, margin: float) -> Tensor:
    return scale_for(text.abs().amax((0, 2)), margin)


def _numbers(*case: Any) -> Tensor:
    return _changed(lambda new, scale: (new / scale).clamp(-LARGEST, LARGEST), *case)


def _changed(change: Any, text: Tensor, new: Tensor, margin: float) -> Tensor:
    """What a change of (new, scales) hands to the cast."""
    return change(new, _scales(text, new, margin)[:, None])


def _right(*case: Any) -> tuple[Tensor, Tensor]:
    return _numbers(*case), _scales(*case)


def _same(own: Tensor, right: Tensor) -> bool:
    """NaN is as NaN."""
    return own.shape == right.shape and bool(
        torch.allclose(own.float(), right, rtol=1e-6, atol=0.0, equal_nan=True)
    )


def _same_scales(own: Tensor, right: Tensor) -> bool:
    """Of a head of zeros, every scale is right."""
    matters = right > right.new_tensor(2.0**-40)
    if own.shape != right.shape:
        return False
    return _same(own[matters], right[matters])


def _same_pair(own: Any, right: Any) -> bool:
    return _same(own[0], right[0]) and _same_scales(own[1], right[1])


def _listed(numbers: Tensor) -> str:
    return str([float(f"{number:.4g}") for number in numbers.flatten().tolist()])


def _read(found: Any) -> tuple[Tensor, Tensor]:
    """What the cast is given, and the scales."""
    if not (isinstance(found, tuple | list) and len(found) == 2):
        said = "is a return missing?" if found is None else "return both"
        raise Rejected(f"got {short(found)}, expected (numbers, scales); {said}")
    for name, own in zip(("numbers", "scales"), found, strict=True):
        if not isinstance(own, Tensor):
            raise Rejected(f"{name}: got {short(own)}, expected a tensor")
        if own.itemsize == 1:
            said = "do not cast them: return what the cast is given"
            raise Rejected(f"{name}: got {own.dtype}, expected torch.float32; {said}")
    return found


def _expect_shapes(where: str, numbers: Tensor, scales: Tensor, case: Case) -> None:
    """Raise Rejected unless there are a scale for each head and all new numbers."""
    text, new, _ = case
    if numbers.shape != new.shape:
        said = (
            f"{where}: numbers: got {short(numbers)}, expected {short(new)}, as `new`"
        )
        if scales.shape == new.shape:
            said += "; the numbers come first, then the scales"
        raise Rejected(said)
    if scales.shape != text.shape[1:2]:
        said = "the largest over all tokens and all numbers of a head: amax((0, 2))"
        if scales.numel() == 1:
            said = "one scale for all heads; each head has its own"
        right = f"tensor[{text.shape[1]}]"
        raise Rejected(
            f"{where}: scales: got {short(scales)}, expected {right}; {said}"
        )


def _expect_numbers(where: str, numbers: Tensor, case: Case, said: str) -> None:
    """Raise Rejected at the first number that is not what it must be."""
    right, scales, new = _numbers(*case), _scales(*case), case[1]
    for token, head, place in (numbers != right).nonzero().tolist():
        at = token, head, place
        number = f"new token {token}, head {head}, number {place}: {new[at]:.4g}"
        if case[0][:, head].any():
            number += f" with scale {scales[head]:.4g}"
        else:
            said = "a scale of 0? 0 / 0 is NaN: give it the least scale, say 2**-40"
        own, expected = numbers[at].item(), right[at].item()
        diagnose(f"{where}: {number}", own, expected, {said: True})


# --- mistakes -------------------------------------------------------------------------


def _by(largest: Tensor, margin: float = 1.0, rounded: Any = torch.ceil) -> Tensor:
    """As scales are found, without a least one."""
    return torch.exp2(rounded(torch.log2(largest * margin / LARGEST)))


def _of_heads(text: Tensor) -> Tensor:
    return text.abs().amax((0, 2))


SCALE_FLAWS: Rules = {
    "one scale for all heads; each head has its own": [
        lambda text, new, m: _by(text.abs().amax().expand(text.shape[1]), m),
    ],
    "a number below 0 needs room, too: take the largest of .abs()": [
        lambda text, new, m: _by(text.amax((0, 2)), m),
        lambda text, new, m: scale_for(text.amax((0, 2)), m),
    ],
    "the margin makes room: it makes the scale larger, not smaller": [
        lambda text, new, m: _by(_of_heads(text), 1 / m),
    ],
    "where is the margin?": [lambda text, new, m: _by(_of_heads(text))],
    "the margin is not always 2": [lambda text, new, m: _by(_of_heads(text), 2.0)],
    "the scales are known before the new tokens: only the text decides": [
        lambda text, new, m: _by(_of_heads(new), m),
        lambda text, new, m: _by(_of_heads(torch.cat([text, new])), m),
    ],
    "too small: round up to a power of two": [
        lambda text, new, m: _by(_of_heads(text), m, torch.floor),
        lambda text, new, m: _by(_of_heads(text), m, torch.round),
    ],
    "too large by a factor of 2, where a power of two just fits": [
        lambda text, new, m: 2 * _by(_of_heads(text), m, torch.floor),
    ],
    "round it up to a power of two, so that multiplying by it rounds nothing": [
        lambda text, new, m: _of_heads(text) * m / LARGEST,
    ],
    "upside down: the scale is what K is divided by": [
        lambda text, new, m: 1 / _by(_of_heads(text), m),
        lambda text, new, m: torch.exp2(
            torch.ceil(torch.log2(LARGEST / (m * _of_heads(text))))
        ),
        lambda text, new, m: LARGEST / (m * _of_heads(text)),
    ],
    "the largest number of e4m3 is 448": [
        lambda text, new, m, largest=largest: _by(
            _of_heads(text), m * LARGEST / largest
        )
        for largest in (127.0, 128.0, 240.0, 255.0, 256.0, 57344.0)
    ],
}


NUMBER_FLAWS: Rules = {
    "a cast may make NaN of it: clamp to ±448 first": [
        partial(_changed, lambda new, scale: new / scale),
    ],
    "clamp after the division, not before": [
        partial(_changed, lambda new, scale: new.clamp(-LARGEST, LARGEST) / scale),
    ],
    "what is below -448 does not fit, either": [
        partial(_changed, lambda new, scale: (new / scale).clamp(max=LARGEST)),
    ],
    "divide by the scale when storing; reading multiplies by it": [
        partial(_changed, lambda new, scale: (new * scale).clamp(-LARGEST, LARGEST)),
        partial(_changed, lambda new, scale: new * scale),
    ],
    "the cast rounds, and not to whole numbers": [
        partial(
            _changed, lambda new, scale: (new / scale).round().clamp(-LARGEST, LARGEST)
        ),
    ],
}
