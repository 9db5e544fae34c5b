"""Lab: checks of appendix H's exercises: heads, weights, and a sum over many ranks."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from math import ceil
from queue import Empty, Queue
from random import Random
from threading import Thread
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, silu

from minipaged.lab.check.diagnose import compare, diagnose, want, why
from minipaged.lab.check.verdict import Attempt, Rejected, attempted, exercise, short

# --- who has which heads --------------------------------------------------------------

Heads = tuple[list[int], list[int]]  # of queries; of K and V


@exercise
def heads(attempt: Attempt) -> Callable[[], str]:
    """(rank, num_ranks, num_heads, num_kv_heads) -> (query heads, KV heads)."""
    sizes = [(2, 6, 2), (1, 6, 2), (2, 8, 8), (4, 32, 8), (8, 32, 8), (2, 4, 4)]
    cases = [(rank, count, *own) for count, *own in sizes for rank in range(count)]
    compare(attempt, cases, _heads, HEAD_FLAWS, read=_two_lists)
    for case in ((0, 4, 6, 2), (2, 3, 12, 4), (1, 4, 12, 6)):
        found, error = attempt.or_refused(ValueError, *case)
        if error is None:
            _, num_ranks, _, num_kv_heads = case
            raise Rejected(
                f"{attempt.call(*case)}: got {short(found)}, expected a ValueError; "
                f"{num_ranks} ranks cannot share out {num_kv_heads} KV heads"
            )
    return lambda: "as transformers cuts q_proj, k_proj and v_proj: piece after piece"


def _two_lists(found: Any) -> Heads:
    is_it = isinstance(found, Sequence) and len(found) == 2
    want("two lists", found, is_it)
    try:
        queries, keys = ([int(head) for head in own] for own in found)
    except TypeError:
        raise Rejected(f"returned {short(found)}, expected two lists") from None
    return queries, keys


def _piece(rank: int, num_ranks: int, number: int) -> list[int]:
    share = number // num_ranks
    return [*range(rank * share, (rank + 1) * share)]


def _heads(rank: int, num_ranks: int, num_heads: int, num_kv_heads: int) -> Heads:
    return _piece(rank, num_ranks, num_heads), _piece(rank, num_ranks, num_kv_heads)


def _in_turn(rank: int, num_ranks: int, num_heads: int, num_kv_heads: int) -> Heads:
    def own(number: int) -> list[int]:
        return [*range(rank, number, num_ranks)]

    return own(num_heads), own(num_kv_heads)


HEAD_FLAWS: dict[str, Callable[..., Heads]] = {
    "a query head and the KV head that it reads must have the same rank": _in_turn,
    "each rank needs the KV heads of its own query heads only": (
        lambda rank, n, q, kv: (_piece(rank, n, q), [*range(kv)])
    ),
    "these are the query heads; of KV heads there are fewer": (
        lambda rank, n, q, kv: (_piece(rank, n, q), _piece(rank, n, q))
    ),
    "these are the heads of rank 0": lambda rank, n, q, kv: _heads(0, n, q, kv),
    "the KV heads come second": lambda *case: _heads(*case)[::-1],
}

# --- weights --------------------------------------------------------------------------

Weights = tuple[Tensor, Tensor, Tensor]  # gate and up [inner, hidden]; down the other


@exercise
def shares(attempt: Attempt) -> Callable[[], str]:
    """(gate, up, down, num_ranks) -> for each rank, its (gate, up, down)."""
    draw = torch.Generator().manual_seed(0)
    for hidden, inner, num_ranks in (
        (4, 6, 2), (4, 6, 3), (6, 4, 1), (8, 8, 4), (8, 8, 2), (192, 576, 2),
    ):  # fmt: skip
        gate, up = (
            torch.randn(inner, hidden, generator=draw, dtype=torch.float64)
            for _ in range(2)
        )
        down = torch.randn(hidden, inner, generator=draw, dtype=torch.float64)
        x = torch.randn(3, hidden, generator=draw, dtype=torch.float64)
        found = attempt(gate, up, down, num_ranks)
        call = f"hidden {hidden}, inner {inner}, {num_ranks} ranks"
        _check_shares(call, found, (gate, up, down), num_ranks, x)
    found, error = attempt.or_refused(ValueError, gate, up, down, 5)
    if error is None:
        raise Rejected(
            f"5 ranks cannot share out {gate.shape[0]} rows of gate; got "
            f"{short(found)}, expected a ValueError"
        )
    return lambda: "as transformers: gate_proj and up_proj colwise, down_proj rowwise"


def _check_shares(
    call: str, found: Any, whole: Weights, num_ranks: int, x: Tensor
) -> None:
    want("a list", found, isinstance(found, Sequence))
    diagnose(f"{call}: shares", len(found), num_ranks)
    inner, hidden = whole[0].shape
    part = inner // num_ranks
    for rank, own in enumerate(found):
        want("(gate, up, down) of each rank", own, len(own) == 3)
        shapes = [tuple(weight.shape) for weight in own]
        right = [(part, hidden), (part, hidden), (hidden, part)]
        flaws = {
            "each rank has all of the weights": shapes == [(*w.shape,) for w in whole],
            "down must be cut along the numbers that it reads, as gate and up are "
            "along those that they give": shapes[:2] == right[:2],
            "silu of a part of a sum is not a part of silu of the sum: gate and up "
            "must be cut along what they give": shapes[0] != right[0],
        }
        diagnose(f"{call}: shapes of rank {rank}", shapes, right, flaws, write=str)
    terms = [
        linear(silu(linear(x, gate)) * linear(x, up), down) for gate, up, down in found
    ]
    gate, up, down = whole
    right = linear(silu(linear(x, gate)) * linear(x, up), down)
    error = (torch.stack(terms).sum(0) - right).abs().max().item()
    if error > 1e-9 * inner * hidden:
        same = len({_bytes(own) for own in found}) < num_ranks
        said = why(
            found,
            {
                "two ranks have the same share": same,
                "rank r must have the same places of gate, of up and of down": True,
            },
        )
        raise Rejected(f"{call}: the ranks' sum is off by {error:.2g}{said}")


def _bytes(weights: Weights) -> bytes:
    return b"".join(weight.contiguous().numpy().tobytes() for weight in weights)


# --- a sum over all ranks -------------------------------------------------------------

ENDS = object()  # to a rank that waits: another one has failed
PATIENCE = 3.0  # seconds that a rank waits for its neighbour


@exercise
def all_reduce(attempt: Attempt) -> Callable[[], str]:
    """(numbers, rank, num_ranks, send, receive) -> the sums, on all ranks."""
    draw = Random(0)
    for num_ranks, length in (
        (2, 4), (1, 3), (2, 8), (3, 6), (4, 8), (4, 12), (3, 7), (4, 2), (5, 5),
    ):  # fmt: skip
        numbers = [
            [draw.randint(-99, 99) for _ in range(length)] for _ in range(num_ranks)
        ]
        story = f"{num_ranks} ranks with {length} numbers each"
        attempt.num_cases += 1
        found, num_sent = _on_ring(attempt, numbers, story)
        right = [sum(column) for column in zip(*numbers, strict=True)]
        for rank, own in enumerate(found):
            own = list(own) if isinstance(own, Sequence | Tensor) else own
            flaws = {
                "these are its own numbers": numbers[rank],
                "some pieces lack the numbers of some ranks": (
                    lambda own, length=length: (
                        isinstance(own, list) and len(own) == length
                    )
                ),
            }
            diagnose(f"{story}: sums of rank {rank}", own, right, flaws)
        most = 2 * (num_ranks - 1) * ceil(length / num_ranks)
        for rank, sent in enumerate(num_sent):
            if sent > most:
                raise Rejected(
                    f"{story}: rank {rank} sends {sent} numbers, and {most} are "
                    f"enough; a piece of {ceil(length / num_ranks)} at a time"
                )
    return lambda: "what gloo and NCCL do for large tensors"


def _on_ring(
    attempt: Attempt, numbers: list[list[int]], story: str
) -> tuple[list[Any], list[int]]:
    """What each rank returns, and how many numbers it has sent to the next one."""
    num_ranks = len(numbers)
    pipes: list[Queue] = [Queue() for _ in numbers]
    found: list[Any] = [None] * num_ranks
    errors: list[BaseException] = []
    num_sent = [0] * num_ranks

    def work(rank: int) -> None:
        def send(values: Any) -> None:
            values = deepcopy(values)
            want("a list to send", values, isinstance(values, Sequence | Tensor))
            num_sent[rank] += len(values)
            pipes[(rank + 1) % num_ranks].put(values)

        def receive() -> Any:
            try:
                values = pipes[rank].get(timeout=PATIENCE)
            except Empty:
                raise Rejected(
                    f"{story}: rank {rank} waits, and rank {(rank - 1) % num_ranks} "
                    "sends nothing; send before you receive"
                ) from None
            if values is ENDS:
                raise Rejected(f"{story}: another rank has failed")
            return values

        arguments = deepcopy(numbers[rank]), rank, num_ranks, send, receive
        call = f"{story}: rank {rank}"
        try:
            found[rank] = attempted(call, attempt.function, *arguments)
        except BaseException as error:
            errors.append(error)
            for pipe in pipes:
                pipe.put(ENDS)

    threads = [
        Thread(target=work, args=(rank,), daemon=True) for rank in range(num_ranks)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE)
    if errors:
        raise errors[0]
    if any(thread.is_alive() for thread in threads):
        raise Rejected(f"{story}: it has not ended within {2 * PATIENCE:g} seconds")
    for rank, pipe in enumerate(pipes):
        if not pipe.empty():
            raise Rejected(f"{story}: rank {rank} has not received all that was sent")
    return found, num_sent
