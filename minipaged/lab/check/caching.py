"""Lab: lesson 1's exercise with a KV cache: tried alone, then by HuggingFace."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from minipaged.lab.check.diagnose import diagnose
from minipaged.lab.check.verdict import Attempt, Rejected, attempted, exercise, short
from minipaged.lab.tour.chat import three_users
from minipaged.lab.tour.reference import cache_argument
from minipaged.model.load import load


@exercise
def reserved_cache(attempt: Attempt) -> Callable[[], str]:
    """A class (num_slots, num_heads, head_dim) with write(keys, values) -> all stored.

    Tensors of [heads, tokens, head_dim]. What is stored never moves: what is returned
    is a view of it, or a copy.
    """
    hands_out_copies = False
    for heads, dim, writes in (
        (2, 4, [7, 1, 1]),  # a prefill, then decodes
        (1, 8, [1, 1, 1]),  # a prompt of one token
        (3, 2, [4, 3, 1, 2]),  # a prompt in two pieces
        (2, 4, [12]),  # exactly full
        (2, 4, [10, 1, 1]),
    ):
        expected = _Expected(heads, dim)
        _write_all(attempt, expected, 12, writes)
        hands_out_copies |= expected.got_copies
    _refuses_what_does_not_fit(attempt)
    _keeps_two_apart(attempt)
    used = _serves_the_three_users(attempt)
    said = f"HuggingFace's generate ran on your cache: {used}; same tokens."
    if hands_out_copies:
        said = f"{said}\n  You return copies: a view of the slots would cost nothing."
    return lambda: said


class _Expected:
    """What a cache must hold: numbers of its own for each token, in keys negated."""

    def __init__(self, heads: int, dim: int, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.values = torch.randn(heads, 40, dim, generator=generator)
        self.num_tokens = 0
        self.seen: list[Tensor] = []  # kept alive, so that no address comes back
        self.reserved: list[Tensor] | None = None  # what the cache has at the start
        self.places: dict[str, Tensor | None] = {}  # of each number that is stored
        self.got_copies = False

    def write(self, cache: Any, size: int, story: str) -> None:
        """Hand `size` more tokens to the reader's cache; look at what it returns."""
        if self.reserved is None:
            self.reserved = list(_tensors_in(getattr(cache, "__dict__", {})))
        new = self.values[:, self.num_tokens : self.num_tokens + size].clone()
        keys, values = -new, new
        found = attempted(
            f"{story}: write()",
            lambda: cache.write(keys, values),
            hints={ValueError: "but there is room"},
        )
        is_pair = isinstance(found, tuple | list) and len(found) == 2
        if not (is_pair and all(isinstance(each, Tensor) for each in found)):
            wanted = "two tensors, all stored keys and all stored values"
            raise Rejected(f"{story}: write() returned {short(found)}, not {wanted}")
        if {each.data_ptr() for each in found} & {keys.data_ptr(), values.data_ptr()}:
            kept = "what came in was returned, only the new tokens"
            cure = "copy them into your slots, and return all that is stored"
            raise Rejected(f"{story}: {kept}; {cure}")
        for tensor in (keys, values):
            tensor.fill_(torch.nan)  # a model uses its tensors again
        self.num_tokens += size
        stored = self.values[:, : self.num_tokens]
        self._look(f"{story}: the keys returned", found[0], -stored, size)
        self._look(f"{story}: the values returned", found[1], stored, size)
        self._stay(found, (-stored, stored), story)

    def _look(self, what: str, found: Tensor, right: Tensor, size: int):
        """Raise Rejected unless `found` is `right`, with the likeliest cause."""
        if found.shape != right.shape:
            why = f"expected {short(right)}: [heads, tokens, head_dim]"
            if found.dim() == 3 and found[:, :0].shape == right[:, :0].shape:
                if found.shape[1] > self.num_tokens:
                    why = f"all slots, but only {self.num_tokens} hold tokens"
                elif found.shape[1] == size:
                    why = f"the {self.num_tokens - size} earlier tokens are missing"
            raise Rejected(f"{what} are {short(found)}: {why}")
        columns = right.unbind(1)
        for position, there in enumerate(found.unbind(1)):
            if torch.equal(there, columns[position]):
                continue
            why = "is not what was written"
            if torch.equal(there, -columns[position]):
                why = "has keys and values mixed up"
            for other, column in enumerate(columns):
                if torch.equal(there, column):
                    why = f"is token {other}: from which slot on must you write?"
            raise Rejected(f"{what}: token {position} {why}")

    def _stay(self, found: Any, right: tuple[Tensor, ...], story: str) -> None:
        """Raise Rejected unless all that is stored lies where it lay before.

        What is returned begins at the address of the first time; or it is a copy, and
        the numbers are found in what the cache has reserved, each at its old place.
        """
        self.seen += found
        rows = zip(("keys", "values"), self.seen, found, right, strict=False)
        for name, first, now, stored in rows:
            before, places = self.places.get(name), self._places(stored)
            self.places[name] = places
            if first.data_ptr() == now.data_ptr():
                continue
            is_known = before is not None and places is not None
            if is_known and torch.equal(before, places[:, : before.shape[1]]):
                self.got_copies = True
                continue
            moved = "lie elsewhere than after the first write: they were copied"
            raise Rejected(f"{story}: the {name} {moved}")

    def _places(self, stored: Tensor) -> Tensor | None:
        """Where each stored number lies in what was reserved; None if one does not."""
        slots = torch.cat([torch.empty(0), *(x.flatten() for x in self.reserved)])
        at = stored.unsqueeze(-1) == slots
        return at.int().argmax(-1) if len(slots) and at.any(-1).all() else None


def _tensors_in(held: Any) -> Iterator[Tensor]:
    """All float tensors in an object's fields, lists and dicts among them."""
    if isinstance(held, Tensor) and held.is_floating_point():
        yield held.detach()
    elif isinstance(held, dict):
        yield from _tensors_in(list(held.values()))
    elif isinstance(held, list | tuple):
        for each in held:
            yield from _tensors_in(each)


def _write_all(
    attempt: Attempt, expected: _Expected, num_slots: int, writes: list[int]
) -> Any:
    heads, _, dim = expected.values.shape
    cache, done = attempt(num_slots, heads, dim), []
    for size in writes:
        done.append(size)
        attempt.num_cases += 1
        expected.write(cache, size, f"{num_slots} slots, writes of {done} tokens")
    return cache


def _refuses_what_does_not_fit(attempt: Attempt) -> None:
    cases = ([7], 2, 1), ([8], 1, 0), ([], 9, 8), ([5, 1], 3, 2)
    for writes, too_many, rest in cases:
        expected = _Expected(2, 4)
        cache = _write_all(attempt, expected, 8, writes)
        story = f"8 slots, {expected.num_tokens} tokens stored, {too_many} more"
        new, raised = torch.full((2, too_many, 4), 99.0), "nothing"
        try:
            cache.write(new, -new)
        except Exception as error:
            raised = (
                error
                if isinstance(error, ValueError)
                else f"{type(error).__name__}: {error}"
            )
        if not isinstance(raised, ValueError):
            raise Rejected(f"{story}: expected a ValueError, got {raised}")
        if not rest:
            continue
        try:
            expected.write(cache, rest, f"{story}: refused, then {rest} more")
        except Rejected as error:
            message = f"{error}; a refused write must change nothing"
            raise Rejected(message) from error


def _keeps_two_apart(attempt: Attempt) -> None:
    both = [_Expected(2, 4, seed) for seed in (1, 2)]
    caches = [attempt(6, 2, 4), attempt(6, 2, 4)]
    for size in (3, 1, 1):
        for name, expected, cache in zip("AB", both, caches, strict=True):
            expected.write(cache, size, f"two caches, written in turns: cache {name}")


class _Layer(DynamicLayer):
    """A layer of HuggingFace's cache: the reader's class stores, this hands on."""

    def __init__(self, cache: Any) -> None:
        super().__init__()
        self.cache = cache

    def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> Any:
        """Store in the reader's cache; return all that it holds."""
        self.is_initialized = True
        stored = self.cache.write(key_states[0], value_states[0])
        self.keys, self.values = (tensor[None] for tensor in stored)
        return self.keys, self.values


@torch.no_grad()
def _serves_the_three_users(attempt: Attempt) -> str:
    model, tokenizer = load("pocket", device="cpu")
    config, used = model.config, []
    for name, prompt in three_users(tokenizer).items():
        layers = [
            _Layer(attempt(72, config.num_key_value_heads, config.head_dim))
            for _ in range(config.num_hidden_layers)
        ]
        ids, limit = torch.tensor([prompt]), {"max_new_tokens": 50}
        right = model.generate(ids, **limit)
        story = f"the pocket model's answer to {name}, with your cache"
        found = attempted(
            story,
            lambda ids=ids, layers=layers, limit=limit: model.generate(
                ids, **cache_argument(Cache(layers=layers)), **limit
            ),
        )
        found, right = (tokenizer.decode(x[0, len(prompt) :]) for x in (found, right))
        diagnose(story, found, right)
        used.append(f"{name} {layers[0].keys.shape[2]}")
    return f"{', '.join(used)} of 72 slots"
