"""Lab: what the capstone's checks do with the reader's parts, and what they look at."""

from collections.abc import Callable, Iterator
from random import Random
from types import ModuleType
from typing import Any

import torch

from minipaged.model.load import POCKET

Told = Iterator[tuple[str, Any]]  # what is looked at, and what is seen
Scenario = Callable[[ModuleType], Told]


# --- 1: one token ---------------------------------------------------------------------


def one_token(tiny: ModuleType) -> Told:
    """Norms and rotations of random numbers; logits of one and of two sequences."""
    torch.manual_seed(0)
    x, weight = torch.randn(3, 2, 8), torch.rand(8)
    yield "norm of numbers [3, 2, 8]", tiny.norm(x, weight, 1e-6)
    yield "norm of small numbers, eps 0.5", tiny.norm(x / 9, weight, 0.5)
    half, weight = 300 * x.half(), weight.half()
    yield "norm of float16, times 300", tiny.norm(half, weight, 1e-6)
    angles = torch.rand(3, 1, 4).repeat(1, 1, 2)
    yield "rotate of [3, 2, 8]", tiny.rotate(x, angles.cos(), angles.sin())
    model = tiny.Qwen3(POCKET, 64)
    yield "logits of a token", model.forward(_batch(tiny, [9]))
    yield (
        "logits after 2 and after 3 tokens",
        model.forward(_batch(tiny, [5, 6], [7] * 3)),
    )
    model.weights["lm_head.weight"] = torch.randn(10, 192)
    yield "logits of a model with an lm_head", model.forward(_batch(tiny, [9]))


def _batch(tiny: ModuleType, *prompts: list[int], size: int = 4) -> Any:
    """A first step of these prompts; their blocks count down from 7."""
    sequences, free = [], list(range(8))
    for tokens in prompts:
        seq = _sequence(tiny, tokens)
        seq.table = [free.pop() for _ in range(0, len(tokens), size)]
        seq.num_new = len(tokens)
        sequences.append(seq)
    return tiny.ragged_batch(sequences, size, "cpu")


def _sequence(tiny: ModuleType, tokens: list[int], **options: Any) -> Any:
    generator = torch.Generator().manual_seed(options.get("seed", 0))
    how = tiny.Options(**options)
    return tiny.Sequence(0, 0, list(tokens), len(tokens), how, generator)


# --- 2: one prompt --------------------------------------------------------------------


def one_prompt(tiny: ModuleType) -> Told:
    """Attention in a layer: what is written where, and what comes out."""
    torch.manual_seed(0)
    model = tiny.Qwen3(POCKET, 64)
    batch = _batch(tiny, [5] * 6)
    x = torch.randn(6, 192)
    angles = torch.rand(6, 1, 16).repeat(1, 1, 2)
    turn = angles.cos(), angles.sin()
    out = model.attention(x, 1, "model.layers.1.self_attn.", turn, batch)
    yield (
        f"values in layer 1, slots {batch.slots.tolist()}",
        model.values[1, batch.slots],
    )
    yield f"keys in layer 1, slots {batch.slots.tolist()}", model.keys[1, batch.slots]
    others = [model.keys[0], model.keys[2:], model.keys[1, :24], model.values[1, :24]]
    yield "numbers in all other slots", [int(each.count_nonzero()) for each in others]
    yield "attention of a prompt of 6 tokens", out
    x = torch.randn(9, 192)
    angles = torch.rand(9, 1, 16).repeat(1, 1, 2)
    turn = angles.cos(), angles.sin()
    batch = _batch(tiny, [5] * 3, [6], [7] * 3, [8] * 2)
    out = model.attention(x, 0, "model.layers.0.self_attn.", turn, batch)
    yield "attention of prompts of 3, 1, 3 and 2 tokens", out


# --- 3: many prompts ------------------------------------------------------------------


def many_prompts(tiny: ModuleType) -> Told:
    """Groups, and a batch of prompts, parts of prompts and single tokens."""
    rows, filled, sees = tiny.group(1, [(2, 4, [9, 8, 7, 6, 5])], "cpu")
    yield "the rows of a group: 1 new token, first row 2", rows
    yield "its slots", filled
    yield "what it sees", sees
    members = [(0, 0, [4, 5]), (5, 3, [9, 8, 7, 6, 5])]
    rows, filled, sees = tiny.group(2, members, "cpu")
    yield "the rows of a group: 2 new tokens each, first rows 0 and 5", rows
    yield "the slots of 2 and 5 tokens", filled
    yield "who sees what: positions 0, 1 and 3, 4", sees
    ones = [
        ([5, 6, 7], [2], 0, 3),
        ([1, 2, 3, 4, 5, 6], [7, 0], 5, 1),
        ([8] * 9, [3, 6, 1], 2, 3),
        ([9], [4], 0, 1),
    ]
    sequences = []
    for tokens, table, num_computed, num_new in ones:
        seq = _sequence(tiny, tokens)
        seq.table, seq.num_computed, seq.num_new = table, num_computed, num_new
        sequences.append(seq)
    batch = tiny.ragged_batch(sequences, 4, "cpu")
    many = "four sequences that compute 3, 1, 3 and 1 tokens, after 0, 5, 2 and 0: "
    for name in "tokens", "positions", "slots", "last_rows":
        yield many + name, getattr(batch, name)
    yield many + "the number of groups", len(batch.groups)
    groups = sorted(batch.groups, key=lambda group: group[0].shape[1])
    for number, (rows, filled, sees) in enumerate(groups):
        yield f"{many}rows of group {number}", rows
        yield f"{many}context of group {number}", filled
        yield f"{many}mask of group {number}", sees


# --- 4: blocks ------------------------------------------------------------------------


def blocks_and_tables(tiny: ModuleType) -> Told:
    """Blocks of a small pool are taken, shared and given back; tables grow."""
    pool = tiny.BlockPool(4, 4)

    def state() -> dict[str, Any]:
        return {"holders": list(pool.num_holders), "free": list(pool.free)}

    taken = pool.take(), pool.take()
    yield "take() of a new pool, twice", taken
    yield "the pool of 4 after take() twice", state()
    pool.share(1)
    yield "the pool after share(1)", state()
    pool.give_back(1)
    yield "the pool after give_back(1): one holder is there still", state()
    pool.give_back(1)
    yield "the pool after give_back(1) again: it is the last to be taken", state()
    pool.publish(1, b"found")
    pool.share(1)
    yield "the pool after share(1) of a free block, found by its hash", state()
    pool.give_back(1)
    names = [pool.take() for _ in range(3)]
    yield "take() three times", names
    yield "the hashes that can be found: block 1 was taken anew", dict(pool.by_hash)
    engine = tiny.Engine(POCKET, num_blocks=6, block_size=4)
    pool = engine.pool
    seq, other = _sequence(tiny, [5] * 30), _sequence(tiny, [6] * 30)
    for one, num_new in (
        (seq, 5),
        (other, 4),
        (seq, 3),
        (seq, 1),
        (other, 13),
        (other, 5),
    ):
        one.num_new = num_new
        got = engine.make_room(one)
        said = f"make_room for {num_new} more tokens after {one.num_computed}"
        yield said, (got, list(one.table))
        yield f"the pool after {said}", state()
        if got:
            one.num_computed += num_new
    engine.release(seq)
    yield "a sequence after release", (list(seq.table), seq.hashes, seq.num_computed)
    yield "the pool after release", state()


# --- 5: a shared prefix ---------------------------------------------------------------


def a_shared_prefix(tiny: ModuleType) -> Told:
    """Hashes, and who finds which blocks of a prompt."""
    engine = tiny.Engine(POCKET, num_blocks=12, block_size=4)
    pool = engine.pool

    def findable() -> list[int]:
        return sorted(pool.by_hash.values())

    first = pool.chain(b"", [1, 2, 3, 4])
    yield "the same tokens, the same hash", first == pool.chain(b"", [1, 2, 3, 4])
    yield "another order, another hash", first != pool.chain(b"", [4, 3, 2, 1])
    yield (
        "1, 23 and 12, 3: two hashes",
        pool.chain(b"", [1, 23]) != pool.chain(b"", [12, 3]),
    )
    yield (
        "the same tokens after others: another hash",
        first != pool.chain(first, [1, 2, 3, 4]),
    )
    pool.publish(3, first)
    yield "what hash_of knows after publish(3, ...)", list(pool.hash_of)
    pool.publish(5, first)
    yield "of two blocks with one hash, the first is found", findable()
    pool.forget(5)
    yield "forget(5), which nobody finds: block 3 is found still", findable()
    pool.forget(3)
    yield "the hashes after forget(3)", (findable(), list(pool.hash_of))
    prompt = list(range(10, 20))  # two full blocks, and half of one
    seq = _sequence(tiny, prompt)
    for num_new in 3, 4, 3:
        seq.num_new = num_new
        engine.make_room(seq)
        seq.num_computed += num_new
        engine.publish_full(seq)
        said = f"the blocks that can be found after {seq.num_computed} tokens"
        yield said, (findable(), len(seq.hashes))
    yield "its hashes are two", len(set(seq.hashes))
    cases = {
        "the same prompt": prompt,
        "its first 8 tokens: the last is computed anew": prompt[:8],
        "its first 9 tokens": prompt[:9],
        "another first token": [9, *prompt[1:]],
        "another fifth token": [*prompt[:4], 9, *prompt[5:]],
        "only its second block": prompt[4:],
        "a prompt of 2 tokens": prompt[:2],
    }
    for what, tokens in cases.items():
        one = _sequence(tiny, tokens)
        engine.reuse_prefix(one)
        seen = one.table, one.num_computed, len(one.hashes)
        yield f"{what}: table, computed tokens, hashes", seen
        yield f"{what}: holders", list(pool.num_holders)
        engine.release(one)
    engine.release(seq)
    one = _sequence(tiny, prompt)
    engine.reuse_prefix(one)
    yield "blocks that are free, found by their hashes", (one.table, list(pool.free))


# --- 6: two samples -------------------------------------------------------------------


def two_samples(tiny: ModuleType) -> Told:
    """Draws, copies, and three samples that write into one block in turn."""
    torch.manual_seed(0)
    logits = 2 * torch.randn(50)
    for how in (
        {},
        {"temperature": 1.0},
        {"temperature": 0.5},
        {"temperature": 2.0, "top_k": 5},
        {"temperature": 2.0, "top_k": 99},
        {"temperature": 1.0, "top_p": 0.6},
        {"temperature": 1.0, "top_p": 0.0},
        {"temperature": 3.0, "top_k": 8, "top_p": 0.7},
    ):
        options, generator = tiny.Options(**how), torch.Generator().manual_seed(1)
        drawn = [tiny.choose(logits, options, generator) for _ in range(40)]
        yield "the type of a chosen token", type(drawn[0]).__name__
        yield f"choose, 40 times, with {how or 'temperature 0'}", drawn
    yield "the logits after `choose`", logits
    model = tiny.Qwen3(POCKET, 64)
    model.keys.normal_()
    model.values.normal_()
    model.copy(range(8, 12), range(20, 24))
    yield "keys after copy(8...11 to 20...23)", model.keys
    yield "values after copy(8...11 to 20...23)", model.values
    engine = tiny.Engine(POCKET, num_blocks=8, block_size=4)
    pool = engine.pool
    seq = _sequence(tiny, [5, 6, 7, 8, 9], num_samples=3, seed=7)
    seq.num_new = 5
    engine.make_room(seq)
    seq.num_computed = 5
    engine.publish_full(seq)
    engine.running.append(seq)
    engine.model.keys.normal_()
    engine.model.values.normal_()
    forks = list(engine.forks(seq))
    yield "the samples' numbers", [(fork.request, fork.sample) for fork in forks]
    yield "their seeds, of seed 7", [fork.generator.initial_seed() for fork in forks]
    for what in "table", "hashes", "num_computed", "tokens", "num_prompt":
        yield f"their {what}", [getattr(fork, what) for fork in forks]
    forks[0].tokens.append(1)
    forks[0].table.append(99)
    yield "the first after tokens and table of another grew", (seq.tokens, seq.table)
    forks[0].table.pop()
    yield "holders of the blocks", list(pool.num_holders)
    yield "who runs", [one.sample for one in engine.running]
    for one, name in (
        (seq, "the first"),
        (forks[0], "the second"),
        (forks[1], "the third"),
    ):
        one.num_new = 1
        must = engine.must_copy(one)
        yield f"{name} writes its sixth token: must it copy?", must
        if must:
            engine.copy_on_write(one)
        yield f"the table of {name} then", list(one.table)
        yield "holders then", list(pool.num_holders)
        slots = torch.tensor([4 * block + i for block in one.table for i in range(4)])
        yield f"K of {name}", engine.model.keys[:, slots[:5]]
        yield f"V of {name}", engine.model.values[:, slots[:5]]
    seq.num_computed = 8
    yield "all blocks of the table are full: must it copy?", engine.must_copy(seq)
    seq.num_computed, seq.table = 4, seq.table[:1]
    yield "the shared block is full: must it copy?", engine.must_copy(seq)


# --- 7: too small a pool --------------------------------------------------------------


def too_small_a_pool(tiny: ModuleType) -> Told:
    """Engines without a forward: whoever has computed all gets a token."""
    draw = Random(0)
    for num_blocks, max_tokens in (40, 99), (40, 10), (7, 99), (7, 6), (9, 12):
        engine = tiny.Engine(POCKET, num_blocks, 4, max_tokens)
        for number in range(6):
            if number == 3:
                prompt = [1] * 9  # and of the next ones, it is the beginning
            else:
                prompt = [1] * (8 * (number > 3)) + draw.choices(range(9), k=4 + number)
            engine.add(prompt, tiny.Options(max_new_tokens=draw.randint(3, 9)))
        yield from _planned(
            engine, f"{num_blocks} blocks of 4, {max_tokens} tokens a step"
        )


def _planned(engine: Any, pool: str) -> Told:
    for number in range(60):
        if not (engine.running or engine.waiting):
            break
        batch = engine.schedule()
        step = f"{pool}: step {number}: "
        yield (
            step + "(request, new tokens)",
            [(one.request, one.num_new) for one in batch],
        )
        yield step + "who runs", [one.request for one in engine.running]
        yield step + "who waits", [one.request for one in engine.waiting]
        yield step + "free blocks", len(engine.pool.free)
        for seq in batch:
            seq.num_computed += seq.num_new
            engine.publish_full(seq)
            if seq.num_computed == len(seq.tokens):
                seq.tokens.append(7)
                if seq.is_done:
                    engine.release(seq)
                    engine.running.remove(seq)
    yield f"{pool}: are all done?", not (engine.running or engine.waiting)


# --- 8: a stream ----------------------------------------------------------------------


def a_stream(tiny: ModuleType) -> Told:
    """Requests that are refused, end at once, come in parts, or fork."""
    engine = tiny.Engine(POCKET, num_blocks=10, block_size=4)
    for tokens, most in ([5] * 50, 3), ([5] * 30, 11), ([], 3), ([5] * 3, 0):
        try:
            engine.add(tokens, tiny.Options(max_new_tokens=most))
            said = "nothing"
        except ValueError:
            said = "ValueError"
        yield f"add of {len(tokens)} + {most} tokens to a pool of 40: raises", said
    prompt = [5, 6, 7]
    numbers = [
        engine.add(prompt, tiny.Options(max_new_tokens=2, seed=s)) for s in (3, 4)
    ]
    yield "the numbers of two requests", numbers
    yield "who waits", [one.request for one in engine.waiting]
    yield "their seeds", [one.generator.initial_seed() for one in engine.waiting]
    prompt.append(9)
    yield "the tokens, after the caller changed the list", engine.waiting[0].tokens
    steps = [list(engine.step()) for _ in range(2)]
    yield "(request, sample, token) of two steps", steps
    yield "the free blocks at the end", len(engine.pool.free)
    yield "who runs at the end", len(engine.running)
    engine = tiny.Engine(POCKET, num_blocks=12, block_size=4, max_tokens=8)
    warm = {"temperature": 1.0, "num_samples": 3, "max_new_tokens": 6, "seed": 5}
    engine.add([40, 50, 60, 70, 80, 90], tiny.Options(**warm))
    engine.add(list(range(30, 50)), tiny.Options(max_new_tokens=4))
    for number in range(12):
        yield f"three samples and a long prompt, step {number}", list(engine.step())
        yield f"blocks that can be found after step {number}", len(engine.pool.by_hash)
        if not (engine.running or engine.waiting):
            break
    yield "the free blocks at the end", len(engine.pool.free)
    (eos,) = {token for _, _, token in steps[0][:1]}
    engine.add([5, 6, 7], tiny.Options(max_new_tokens=9, eos=(eos,)))
    engine.add([8, 6, 7], tiny.Options(max_new_tokens=3))
    yield (
        "a stream of two requests, the first of which meets eos",
        list(engine.stream()),
    )
    prompts = [[8, 6, 7], [5, 6, 7], list(range(9, 22))]
    how = tiny.Options(max_new_tokens=4)
    yield "generate of three prompts", engine.generate(prompts, how)
    how = tiny.Options(max_new_tokens=3, num_samples=2, temperature=1.0)
    yield "generate of three prompts, two samples each", engine.generate(prompts, how)
