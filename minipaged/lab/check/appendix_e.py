"""Lab: checks of appendix E's exercises: a lookup, a drawn guess, a step's branches."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from minipaged.decoding.prompt_lookup import PromptLookup
from minipaged.lab.check.diagnose import compare, diagnose, telling, want
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, many
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable

# --- 1: prompt lookup -----------------------------------------------------------------


@exercise
def lookup(attempt: Attempt) -> Callable[[], str]:
    """(tokens, num_tokens, max_ngram) -> what came after the last tokens before."""
    cases: list[tuple[list[int], int, int]] = [
        ([5, 7, 9, 5, 7], 2, 2),
        ([5, 7, 9, 3, 7], 3, 2),
        ([1, 2, 3, 1, 2, 4, 1, 2], 1, 2),
        ([1, 2, 3], 4, 2),
        ([6], 4, 2),
        ([6, 6], 4, 2),
    ]
    draw = Random(0)
    for _ in range(150):
        tokens = draw.choices(range(draw.randint(2, 6)), k=draw.randint(1, 14))
        cases.append((tokens, draw.randint(1, 5), draw.randint(1, 4)))
    compare(attempt, cases, _lookup, _LOOKUPS, read=_a_list, write=str)
    found = sum(bool(_lookup(*case)) for case in cases)
    return lambda: f"in {found} of {len(cases)} texts there was something to guess"


def _a_list(found: Any) -> list[int]:
    want("a list of tokens", found, isinstance(found, list | tuple))
    return list(found)


def _lookup(tokens: Sequence[int], num_tokens: int, max_ngram: int) -> list[int]:
    branches = PromptLookup(num_tokens, max_ngram).guess(list(tokens), num_tokens)
    return branches[0] if branches else []


def _searched(
    tokens: Sequence[int],
    num_tokens: int,
    max_ngram: int,
    *,
    latest: bool = False,
    shortest: bool = False,
    fewer: bool = True,
    apart: bool = False,
    itself: bool = False,
    with_found: bool = False,
    cut: bool = True,
) -> list[int]:
    """The right search; the options plant mistakes."""
    lengths = range(min(max_ngram, len(tokens) - 1), 0, -1)
    lengths = lengths if fewer else [n for n in lengths if n == max_ngram]
    for length in reversed(lengths) if shortest else lengths:
        last = list(tokens[-length:])
        stop = len(tokens) - (2 * length if apart else length) + (apart or itself)
        places = [at for at in range(stop) if list(tokens[at : at + length]) == last]
        if places:
            at = places[-1 if latest else 0]
            start = at if with_found else at + length
            return list(tokens[start : start + num_tokens if cut else None])
    return []


_LOOKUPS = {
    "the first place counts, not the latest": partial(_searched, latest=True),
    "look for max_ngram tokens first, and for fewer only if they stand nowhere": (
        partial(_searched, shortest=True)
    ),
    "if max_ngram tokens stand nowhere before, look for fewer": (
        partial(_searched, fewer=False)
    ),
    "the last tokens stand at the end, too, and nothing follows there": (
        partial(_searched, itself=True, latest=True)
    ),
    "the place may overlap the end: in [6, 6], a 6 follows a 6": (
        partial(_searched, apart=True)
    ),
    "return what follows the tokens that were found, not these tokens": (
        partial(_searched, with_found=True)
    ),
    "num_tokens guesses at most": partial(_searched, cut=False),
}

# --- 2: guesses that were drawn -------------------------------------------------------

_NUM_TOKENS = 4  # of the vocabulary
_THOUSAND = 1001  # a weight is one of so many numbers, from 0 to 1


def _draw(weights: Sequence[float]) -> int:
    """What the reader's function draws with: a number that tells the weights.

    No token of the vocabulary is as large. An int, so that it stays what it is in
    `int(draw(weights))`.
    """
    weights = [float(weight) for weight in weights]
    if min(weights) < 0:
        raise Rejected(f"draw({weights}): weights are not negative")
    if not sum(weights):
        raise Rejected("draw: all weights are 0, so there is nothing to draw from")
    token = 1
    for weight in weights:
        token = _THOUSAND * token + round(1000 * weight / sum(weights))
    return token


_P, _Q = [0.5, 0.3, 0.15, 0.05], [0.2, 0.6, 0.1, 0.1]
_PAIRS = ((_P, _Q), (_Q, _P), (_P, _P), ([0.0, 0.75, 0.25, 0.0], _P))
_NUMBERS = (0.01, 0.17, 0.27, 0.45, 0.55, 0.8, 0.99)


@exercise
def taken(attempt: Attempt) -> None:
    """(p, q, guesses, numbers, draw) -> guesses that are taken, and one token more."""
    cases: list[tuple[Any, ...]] = [
        ([p, _Q], [q], [guess], [number], _draw)
        for p, q in _PAIRS
        for guess in range(_NUM_TOKENS)
        for number in _NUMBERS
    ]
    cases.append(([_P], [], [], [], _draw))
    draw = Random(0)
    for _ in range(60):
        pairs = draw.choices(_PAIRS, k=draw.randint(2, 4))
        p, q = [p for p, _ in pairs], [q for _, q in pairs]
        guesses = draw.choices(range(_NUM_TOKENS), k=len(q))
        cases.append(([*p, _P], q, guesses, draw.choices(_NUMBERS, k=len(q)), _draw))
    compare(attempt, cases, _tokens, _TOKENS, read=_in_words, write=str)


def _in_words(found: Any) -> str:
    want("a list of tokens", found, isinstance(found, list | tuple))
    for token in found:
        want("a list of tokens", found, isinstance(token, int))
    return f"[{', '.join(map(_in_a_word, found))}]"


def _in_a_word(token: int) -> str:
    """A token of the vocabulary, or from which weights it was drawn."""
    weights: list[str] = []
    rest = token
    while rest >= _NUM_TOKENS:
        rest, weight = divmod(rest, _THOUSAND)
        weights.insert(0, f"{weight / 1000:.3f}")
    return f"draw([{', '.join(weights)}])" if weights else str(token)


Weights = Callable[[Sequence[float], Sequence[float], int], list[float]]


def _lacking(p: Sequence[float], q: Sequence[float], guess: int) -> list[float]:
    return [max(a - b, 0) for a, b in zip(p, q, strict=True)]


def _tokens(
    p: Sequence[Sequence[float]],
    q: Sequence[Sequence[float]],
    guesses: Sequence[int],
    numbers: Sequence[float],
    draw: Callable[[Sequence[float]], int],
    *,
    chance: Callable[[float, float], float] = lambda p, q: p / q,
    weights: Weights = _lacking,
    goes_on: bool = False,
    ends: bool = False,
    with_one_more: bool = True,
    drawn_alone: bool = False,
) -> str:
    """What the right rule does, in words; the options plant mistakes."""
    tokens: list[int] = []
    for place, (guess, number) in enumerate(zip(guesses, numbers, strict=True)):
        if number < chance(p[place][guess], q[place][guess]):
            tokens.append(guess)
            continue
        if ends:
            return _in_words(tokens)
        wanted = weights(p[place], q[place], guess)
        if not sum(wanted):
            return "nothing"
        tokens.append(draw(wanted))
        if not goes_on:
            return _in_words(tokens[-1:] if drawn_alone else tokens)
    if with_one_more:
        tokens.append(draw(p[-1]))
    return _in_words(tokens[-1:] if drawn_alone else tokens)


_TOKENS = {
    "p alone is the chance of a guess that was not drawn; here take it with p / q": (
        partial(_tokens, chance=lambda p, q: p)
    ),
    "the chance is p / q, not q / p": (
        partial(_tokens, chance=lambda p, q: q / p if p else 1)
    ),
    "draw anew from max(p - q, 0), not from p: the guess was likely enough": (
        partial(_tokens, weights=lambda p, q, guess: list(p))
    ),
    "p without the guess is for a guess that was not drawn; here max(p - q, 0)": (
        partial(
            _tokens,
            weights=lambda p, q, guess: [
                share * (token != guess) for token, share in enumerate(p)
            ],
        )
    ),
    "what q has too little of is p - q, not q - p": (
        partial(_tokens, weights=lambda p, q, guess: _lacking(q, p, guess))
    ),
    "a guess may be refused: take it only if its number is below p / q": (
        partial(_tokens, chance=lambda p, q: 1)
    ),
    "a guess may be taken: if its number is below p / q": (
        partial(_tokens, chance=lambda p, q: 0)
    ),
    "after a refused guess nothing counts: the other guesses follow it": (
        partial(_tokens, goes_on=True)
    ),
    "if a guess is refused, a token is drawn in its place": (
        partial(_tokens, ends=True)
    ),
    "if all guesses are taken, one token more is drawn from the last p": (
        partial(_tokens, with_one_more=False)
    ),
    "the guesses that are taken are new tokens, too": (
        partial(_tokens, drawn_alone=True)
    ),
}

# --- 3: what is kept of a step's branches ---------------------------------------------


@exercise
def kept(attempt: Attempt) -> Callable[[], str]:
    """(tables, branches, choices, num_known) -> the text's table, its new tokens."""
    draw = Random(0)
    cases = [
        (6, [5, 8, 3], [[6, 7], [5, 8]]),
        (7, [5, 8, 3], [[5, 8], [5, 8]]),
        (9, [5, 8, 3], [[4, 4]]),
        (8, [5, 8, 3], [[4, 8], [6, 8], [5]]),
        (5, [5, 8, 3], [[], [5]]),
    ]
    for _ in range(60):
        right = draw.choices(range(20), k=5)
        branches = [
            [token if draw.random() < 0.7 else token + 20 for token in right[:-1]]
            for _ in range(draw.randint(1, 4))
        ]
        cases.append((draw.randint(2, 15), right, branches))
    steps = [_Step(attempt, *case) for case in cases]
    for step in steps:
        step.check()
    brought = sum(len(step.new) for step in steps)
    return lambda: f"{many(len(steps), 'step')} brought {brought} tokens"


class _Step:
    """A step whose branches were computed, over blocks of 4.

    right: the tokens that the model says next. Another user holds the first block.
    """

    def __init__(
        self,
        attempt: Attempt,
        num_known: int,
        right: Sequence[int],
        branches: Sequence[list[int]],
    ):
        self.attempt, self.num_known, self.branches = attempt, num_known, branches
        self.pool = BlockPool(64, 4)
        answer = BlockTable(self.pool)
        answer.append(num_known - 1)
        self.shared = self.pool.share(answer.block_ids[0])
        self.tables = [answer, *(answer.fork() for _ in branches[1:])]
        for table, guesses in zip(self.tables, branches, strict=True):
            table.append(1 + len(guesses))
        num_right = [self._num_right(guesses, right) for guesses in branches]
        # After a wrong guess, the model says something for a text that never was.
        self.choices = [
            [*right[: n + 1], *[90] * (len(guesses) - n)]
            for n, guesses in zip(num_right, branches, strict=True)
        ]
        self.best = num_right.index(max(num_right))
        self.new = list(right[: max(num_right) + 1])
        # What other branches would bring.
        self.shorter = [list(right[: n + 1]) for n in num_right if n < max(num_right)]

    @staticmethod
    def _num_right(guesses: Sequence[int], right: Sequence[int]) -> int:
        pairs = enumerate(zip(guesses, right, strict=False))
        return next((n for n, (a, b) in pairs if a != b), len(guesses))

    def check(self) -> None:
        """Raise Rejected unless table, tokens and blocks are as they must be."""
        others = [b.block_ids.copy() for b in self.tables]
        arguments = self.tables, self.branches, self.choices, self.num_known
        story = (
            f"{self.num_known} known tokens, branches {self.branches}, "
            f"choices {self.choices}"
        )
        with telling(story):
            found = self.attempt.shared(*arguments)
            is_pair = isinstance(found, tuple | list) and len(found) == 2
            want("a pair: the table, and the new tokens", found, is_pair)
            table, tokens = found
            want("a list of tokens, second", tokens, isinstance(tokens, list | tuple))
            self._check_tokens(list(tokens))
            if table is not self.tables[self.best]:
                raise Rejected(
                    f"expected the table of branch {self.best}, the first of those "
                    f"whose guesses are right for longest; got {table}"
                )
            num_tokens = self.num_known + len(self.new) - 1
            if table.num_tokens != num_tokens:
                raise Rejected(
                    f"the table has room for {table.num_tokens} tokens, expected "
                    f"{num_tokens}: all but the newest, which is not computed yet"
                )
            self._check_holders(others, num_tokens)

    def _check_tokens(self, tokens: list[int]) -> None:
        mistakes = {
            "another branch is right for longer": tokens in self.shorter,
            "after the right guesses comes one token more, the model's own": (
                tokens == self.new[:-1]
            ),
            "what follows a wrong guess was said of a text that never was": 90
            in tokens,
            "return the new tokens alone": len(tokens) > len(self.new),
        }
        diagnose("new tokens", tokens, self.new, mistakes, write=str)

    def _check_holders(self, held: list[list[int]], num_tokens: int) -> None:
        kept = held[self.best][: -(-num_tokens // 4)]
        for block in sorted({block for ids in held for block in ids}):
            holders = self.pool.refcount(block)
            right = (block in kept) + (block == self.shared)
            if holders != right:
                said = (
                    "free the tables of the other branches"
                    if holders > right
                    else ("the text needs it")
                )
                raise Rejected(
                    f"block {block} has {many(holders, 'holder')}, expected {right}; "
                    f"{said}"
                )
