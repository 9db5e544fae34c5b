"""Lab: checks of appendix D's exercises: a graph's size, fixed places, a step ahead."""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import torch
from torch import Tensor

from minipaged.lab.check.diagnose import compare, diagnose
from minipaged.lab.check.verdict import Attempt, Rejected, attempted, exercise, many
from minipaged.lab.tour.tape import on_tape

# --- which graph ----------------------------------------------------------------------

SIZES = [128, 256, 384, 512, 768, 1024]


@exercise
def graph_size(attempt: Attempt) -> Callable[[], str]:
    """(new_tokens, most, sizes) -> tokens of the smallest graph that holds the step."""
    cases = [
        ([1] * 13, 64, SIZES),
        ([1] * 16, 64, SIZES),
        ([1] * 13 + [200], 64, SIZES),
    ]
    cases += [([1] * 65, 64, SIZES), ([128], 64, SIZES), ([2], 64, SIZES)]
    cases += [([1, 1024], 64, SIZES), ([1] * 17 + [2], 16, SIZES), ([1], 8, [16])]
    draw = Random(0)
    for _ in range(80):
        new = [1] * draw.randint(1, 70)
        new += draw.choices(range(2, 400), k=draw.choice([0, 0, 1, 1, 3]))
        cases.append((new, draw.choice([16, 32, 64]), SIZES))
    compare(attempt, cases, _graph, SIZE_FLAWS, write=str)
    return lambda: _what_padding_costs(attempt.function)


def _rows(new: Sequence[int]) -> int:
    return -(-len(new) // 8) * 8


def _graph(
    new: list[int],
    most: int,
    sizes: list[int],
    rows: Callable[[Sequence[int]], int] = _rows,
    tokens: Callable[[Sequence[int]], int] = sum,
) -> int | None:
    """The right rule; the options plant mistakes."""
    if len(new) > most:
        return None
    if max(new) == 1:
        return rows(new)
    return next((size for size in sizes if size >= tokens(new)), None)


SIZE_FLAWS: dict[str, Callable[..., int | None]] = {
    "13 sequences do not fit into 8 rows: round up": (
        lambda *case: _graph(*case, rows=lambda new: len(new) // 8 * 8)
    ),
    "16 sequences fit into 16 rows, with nothing left over": (
        lambda *case: _graph(*case, rows=lambda new: len(new) // 8 * 8 + 8)
    ),
    "a step computes the tokens of all its sequences: take the sum": (
        lambda *case: _graph(*case, tokens=max)
    ),
    "a graph holds tokens, and a prompt has many: its sequences do not say how many": (
        lambda *case: _graph(*case, tokens=len)
    ),
    "a graph for exactly so many tokens holds the step": (
        lambda *case: _graph(*case, tokens=lambda new: sum(new) + 1)
    ),
    "if all have one new token, the graphs have 8, 16, 24, ... rows": (
        lambda new, most, sizes: (
            None
            if len(new) > most
            else next((size for size in sizes if size >= sum(new)), None)
        )
    ),
    "for mixed steps the graphs have as many tokens as `sizes` says": (
        lambda new, most, sizes: (
            None if len(new) > most or sum(new) > sizes[-1] else -(-sum(new) // 8) * 8
        )
    ),
    "no graph has room for more than `most` sequences: return None": (
        lambda new, most, sizes: _graph(new, len(new), sizes)
    ),
    "a mixed step has `most` sequences at most, too": (
        lambda new, most, sizes: _graph(new, len(new) if max(new) > 1 else most, sizes)
    ),
    "a step that no graph holds runs eagerly: return None": (
        lambda new, most, sizes: (
            None
            if len(new) > most
            else _graph(new, most, sizes) or (sizes[-1] if max(new) > 1 else None)
        )
    ),
}


def _what_padding_costs(rule: Callable[..., int | None]) -> str:
    """Of mixed steps with prompts of 20 to 900 tokens beside 32 that decode."""
    draw = Random(1)
    steps = [[1] * 32 + [draw.randint(20, 900)] for _ in range(200)]
    computed = sum(rule(list(new), 64, list(SIZES)) for new in steps)
    share = 1 - sum(map(sum, steps)) / computed
    return f"in 200 steps with one prompt each, {share:.0%} of the tokens are padding"


# --- fixed places ---------------------------------------------------------------------


class _Counted:
    """A function of rows in which rows of zeros count for nothing; counts its calls."""

    def __init__(self) -> None:
        self.num_calls = 0

    def __call__(self, x: Tensor) -> Tensor:
        self.num_calls += 1
        return _share(x)


def _share(x: Tensor) -> Tensor:
    """Each number's share of its column."""
    return x / (1 + x.abs().sum(dim=0, keepdim=True))


@exercise
def graphed(attempt: Attempt) -> Callable[[], str]:
    """(capture, compute, example), then called with rows: replays on fixed places."""
    draw = torch.Generator().manual_seed(0)
    compute, captures = _Counted(), []

    def capture(function: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        replay, out = on_tape(function)
        captures.append(out.clone() if isinstance(out, Tensor) else out)
        return replay, out

    example = torch.rand(8, 3, generator=draw)
    given = example.clone()
    made = attempted(
        f"{attempt.name}(capture, compute, example)",
        attempt.function,
        capture,
        compute,
        example,
    )
    attempt.num_cases += 1
    if not callable(made):
        raise Rejected(f"your object cannot be called: got {made!r:.60}")
    if len(captures) != 1:
        raise Rejected(f"`capture` was called {many(len(captures), 'time')}, not once")
    at_capture, earlier = compute.num_calls, []
    for count in (8, 5, 8, 1, 3):
        x = torch.rand(count, 3, generator=draw)
        mine, call = x.clone(), f"a call with {many(count, 'row')}"
        found = attempted(call, made, x)
        attempt.num_cases += 1
        _compare_rows(call, found, x, mine, captures[0])
        if not torch.equal(example, given):
            raise Rejected(f"{call} wrote into the caller's example: keep a clone")
        if len(captures) > 1:
            raise Rejected(f"{call} captured again: a capture takes longer than a step")
        if compute.num_calls > at_capture:
            raise Rejected(f"{call} called compute: that is eager; replay instead")
        for number, (before, right) in enumerate(earlier, 1):
            if not torch.equal(before, right):
                raise Rejected(
                    f"after {call}, the result of call {number} has changed: the next "
                    "replay writes to the same place, so return a clone"
                )
        earlier.append((found, found.clone()))
    try:
        made(torch.rand(9, 3, generator=draw))
    except ValueError:
        return lambda: f"{len(earlier)} calls, one capture: the same numbers as eager"
    except Exception as error:
        raise Rejected(
            f"9 rows in 8 places: raise ValueError, not {error!r}"
        ) from error
    raise Rejected("9 rows were captured for 8 places: raise ValueError")


def _compare_rows(
    call: str, found: Any, x: Tensor, before: Tensor, captured: Tensor
) -> None:
    """Raise Rejected unless these are the rows' results, and the rows are unspoilt."""
    if not isinstance(found, Tensor):
        raise Rejected(f"{call} returned {found!r:.60}, expected a tensor")
    if found.shape != before.shape:
        raise Rejected(
            f"{call} returned {list(found.shape)}, expected {list(before.shape)}: "
            "cut off the rows that only fill up"
        )
    if not torch.equal(x, before):
        raise Rejected(f"{call} changed the caller's rows")
    right = _share(before)
    if torch.allclose(found, right):
        return
    is_captured = torch.allclose(found, captured[: len(found)])
    said = {
        "that was captured: copy the rows to the captured place, and replay": (
            is_captured
        ),
        "rows of the call before are still in the place: set them to zero": (
            bool((found.abs() <= right.abs()).all())
        ),
    }
    diagnose(call, found[0, 0].item(), right[0, 0].item(), said)


# --- one step ahead -------------------------------------------------------------------

EOS = 0


class _Device:
    """Computes steps in order; says what a reader of it could have known."""

    def __init__(self, scripts: dict[str, list[int]], most: dict[str, int]):
        self.scripts, self.most = scripts, most
        self.launched = dict.fromkeys(scripts, 0)
        self.ended: set[str] = set()  # as far as tokens were read
        self.flights: deque[list[tuple[str, int]]] = deque()
        self.num_steps = 0

    def launch(self, users: Sequence[str]) -> None:
        """Start a step: one more token for each of these users."""
        users = list(users)
        step = f"launch({users})"
        if not users:
            raise Rejected("launch([]): a step without users")
        if len(self.flights) == 2:
            raise Rejected(f"{step}: two steps are in flight already; read one first")
        flight, waiting = [], self._waiting()
        for user in users:
            if user not in self.scripts or users.count(user) > 1:
                raise Rejected(f"{step}: each of {list(self.scripts)} once at most")
            if user in self.ended:
                raise Rejected(
                    f"{step}: {user} has said eos, and that was read before (tokens "
                    "come in the order of the launch that is read)"
                )
            if self.launched[user] == self.most[user]:
                raise Rejected(
                    f"{step}: {user} gets {many(self.most[user], 'token')} at most, "
                    "and all are launched; to count them, nothing has to be read"
                )
            # Behind eos, a model goes on with whatever is likely.
            script = self.scripts[user]
            at = self.launched[user]
            flight.append((user, script[at] if at < len(script) else 90 + at))
            self.launched[user] += 1
        left_out = [user for user in waiting if user not in users]
        if left_out:
            raise Rejected(
                f"{step}: {left_out} may need a token, too; a step for all of them "
                "takes no longer"
            )
        self.flights.append(flight)
        self.num_steps += 1

    def read(self) -> list[int]:
        """The tokens of the oldest step that was not read."""
        if not self.flights:
            raise Rejected("read(): no step is in flight")
        waiting = self._waiting()
        if len(self.flights) == 1 and waiting:
            raise Rejected(
                f"read() in step {self.num_steps}: the device is idle meanwhile; "
                f"launch the next step for {waiting} before you read this one"
            )
        flight = self.flights.popleft()
        self.ended |= {user for user, token in flight if token == EOS}
        return [token for _, token in flight]

    def _waiting(self) -> list[str]:
        """Who may need another token, as far as tokens were read."""
        return [
            user
            for user in self.scripts
            if user not in self.ended and self.launched[user] < self.most[user]
        ]


def _random_scripts(draw: Random) -> tuple[dict[str, list[int]], dict[str, int]]:
    """What each user would be told, and how much of it she may get."""
    scripts, most = {}, {}
    for user in "ABCDE"[: draw.randint(1, 5)]:
        length = draw.randint(1, 6)
        scripts[user] = [draw.randint(1, 60) for _ in range(length - 1)] + [EOS]
        most[user] = draw.randint(1, 8)
    return scripts, most


@exercise
def answers_ahead(attempt: Attempt) -> Callable[[], str]:
    """(device, most, eos) -> answers, with a step in flight while one is read."""
    draw = Random(0)
    cases = [({"A": [5, 9, EOS], "B": [7, EOS]}, {"A": 2, "B": 8})]
    cases += [
        ({"A": [4, EOS]}, {"A": 8}),
        ({"A": [EOS], "B": [3, 8, EOS]}, dict(A=3, B=3)),
    ]
    cases += [_random_scripts(draw) for _ in range(60)]
    num_dropped = 0
    for scripts, most in cases:
        device = _Device(scripts, most)
        call = f"{attempt.name}(device, most={most}, eos={EOS})"
        found = attempted(call, attempt.function, device, dict(most), EOS)
        attempt.num_cases += 1
        if not isinstance(found, dict):
            raise Rejected(f"{call} returned {found!r:.60}, expected a dict")
        right = {user: script[: most[user]] for user, script in scripts.items()}
        found = {user: list(tokens) for user, tokens in found.items()}
        diagnose(call, found, right, _ahead_mistakes(found, right), write=str)
        if device.flights:
            raise Rejected(f"{call}: a step is still in flight, and was not read")
        num_dropped += sum(device.launched.values()) - sum(map(len, right.values()))
    return lambda: f"{many(num_dropped, 'token')} after eos were computed, and dropped"


def _ahead_mistakes(
    found: dict[str, list[int]], right: dict[str, list[int]]
) -> dict[str, bool]:
    """What may have gone wrong with these answers."""
    pairs = [(found.get(user, []), own) for user, own in right.items()]
    return {
        "a user is missing": set(found) != set(right),
        "after eos one more token was computed: drop it": any(
            len(one) > len(own) and one[: len(own)] == own for one, own in pairs
        ),
        "eos is a part of the answer": any(
            own[-1] == EOS and one == own[:-1] for one, own in pairs
        ),
        "the last step was not read": any(
            len(one) < len(own) and one == own[: len(one)] for one, own in pairs
        ),
        "tokens come in the order of the launch that is read, not of the last one": (
            True
        ),
    }
