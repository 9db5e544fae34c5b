"""At every step, tables gather what contiguous caches hold: bit for bit, in all layers.

The oracle keeps a contiguous K and V of every sequence beside the pool. It is made of
the rows that the model hands to the cache, and knows of no block and no slot.
"""

import functools
from collections import Counter

import pytest
import torch
from transformers import GenerationConfig

import minipaged as mp
from helpers.answers import huggingface_outputs
from helpers.thorough import all_or
from helpers.tiny_models import VOCABULARY, tiny_model
from minipaged.attention.backend import Backend
from minipaged.lab.tour.proof import same_answer
from minipaged.lab.tour.reference import huggingface_cache
from minipaged.memory.kv_cache import KVCache
from minipaged.model.inputs import RaggedBatch
from minipaged.scheduling.observer import Observer
from minipaged.scheduling.sharing import PrefixSharing

NUM_BLOCKS = {1: 64, 3: 24, 16: 9}  # few, so that prompts wait and cached blocks go
STRANGE = "a prefix was found that holds something else"


class NotingCache(KVCache):
    """Keeps, for each layer, the rows that it was last told to write."""

    def write(self, layer, slots, keys, values):
        self.__dict__.setdefault("rows", {})[layer] = keys.clone(), values.clone()
        super().write(layer, slots, keys, values)


class Oracle(Observer):
    """Watches a model while it generates; an assertion says what goes wrong first.

    `shadow` has each sequence's K of all layers and then V, [tokens, num_kv_heads, dim]
    each. Only concatenation changes them.
    """

    def __init__(self, paged):
        self.paged, self.running, self.shadow = paged, [], {}
        self.blocks = [*paged.cache.keys, *paged.cache.values]
        self.seen = Counter()  # that there is something to watch
        if (prefix := paged.pool.prefix_cache) is not None:
            forget = prefix.forget
            prefix.forget = lambda b: self.seen.update(["evictions"]) or forget(b)
        paged.observers.append(self)

    def admitted(self, request):
        self.running.append(request)
        self.adopt(request)

    def planned(self, plan):
        self.plan = plan
        sources, copies = {a for a, _ in plan.copies}, {b for _, b in plan.copies}
        clash = len(copies) < len(plan.copies) or sources & copies
        assert not clash, "block copies clash"
        self.seen["copies"] += len(copies)

    def computed(self, batch, logits):
        self.grow(batch)
        self.check()

    def committed(self, plan):
        self.check()

    def forked(self, parent, child):
        self.shadow[child] = self.shadow[parent]
        self.seen["forks"] += 1

    @property
    def live(self):
        return [sequence for request in self.running for sequence in request.live]

    def gather(self, table):
        slots = torch.tensor(table.slots(0, table.num_tokens), dtype=torch.int64)
        return [blocks.flatten(0, 1)[slots] for blocks in self.blocks]

    def adopt(self, request):
        """A new sequence starts with what it found, if HuggingFace has the same."""
        for sequence in request.live:
            self.shadow[sequence] = found = self.gather(sequence.table)
            if known := sequence.tokens[: sequence.table.num_tokens]:
                theirs = keys_and_values(self.paged.model, known)
                for pair in zip(found, theirs, strict=True):
                    assert torch.allclose(*pair, rtol=0, atol=1e-4), STRANGE
                self.seen["adoptions"] += 1

    def grow(self, batch):
        """Lay the step's rows behind the old ones of their sequences."""
        new = {work.sequence: work.stop - work.start for work in self.plan.works}
        grown = {s: s.table.num_tokens - len(self.shadow[s][0]) for s in self.live}
        assert new == {sequence: n for sequence, n in grown.items() if n}
        right = batch.query_starts.diff().tolist() == list(new.values())
        assert right, "the batch is not what the tables made room for"
        layers = [rows for _, rows in sorted(self.paged.cache.rows.items())]
        rows = [keys for keys, _ in layers] + [values for _, values in layers]
        parts = zip(*(row.split(list(new.values())) for row in rows), strict=True)
        for sequence, part in zip(new, parts, strict=True):
            pairs = zip(self.shadow[sequence], part, strict=True)
            self.shadow[sequence] = [torch.cat(pair) for pair in pairs]

    def check(self):
        pool = self.paged.pool
        held = Counter(b for one in self.live for b in one.table.block_ids)
        counts = {b: pool.refcount(b) for b in range(pool.num_blocks)}
        assert held == Counter(counts), "holders are not counted right"
        assert pool.num_free + len(held) == pool.num_blocks, "blocks are lost"
        for sequence in self.live:
            gathered, shadow = self.gather(sequence.table), self.shadow[sequence]
            for index, pair in enumerate(zip(gathered, shadow, strict=True)):
                layer = index % len(self.paged.cache.keys)
                assert torch.equal(*pair), f"layer {layer} is not the contiguous cache"
        self.seen["checks"] += 1


def keys_and_values(model, tokens):
    """K of every layer, then V: what the unmodified model keeps of these tokens."""
    layers = huggingface_cache(model, tokens).layers
    kept = [layer.keys for layer in layers] + [layer.values for layer in layers]
    return [tensor[0].transpose(0, 1) for tensor in kept]


def draw_prompts():
    """Common starts, parts that are equal after another past, lengths of 1 to 21."""
    generator = torch.Generator().manual_seed(0)

    def draw(n):
        return torch.randint(3, VOCABULARY, (n,), generator=generator).tolist()

    stem = draw(17)
    longer = [[*stem, *draw(1)], [*stem, *draw(4)], [*stem, *draw(2)]]
    return [stem[:5], [*stem[:5], 0, 0, *draw(7)], *longer, stem[3:], draw(1)]


def draw_configs():
    """Greedy, three samples, four beams; the beams end early now and then."""
    long = {"max_new_tokens": 7, "eos_token_id": VOCABULARY - 1, "pad_token_id": 0}
    ending = {**long, "max_new_tokens": 8, "eos_token_id": list(range(5, 13))}
    greedy = GenerationConfig(**long)
    samples = GenerationConfig(**long, do_sample=True, num_return_sequences=3)
    beams = GenerationConfig(**ending, num_beams=4, num_return_sequences=4)
    return [samples, beams, greedy, samples, beams, beams, samples]


PROMPTS, CONFIGS = draw_prompts(), draw_configs()


@functools.cache
def huggingface_answers(name):
    return huggingface_outputs(tiny_model(name), PROMPTS, CONFIGS, seed=7)


def generate_twice(name, block_size, cached, num_blocks=None):
    """Prompts in parts, then the same again, whole; returns what the oracle has seen.

    Slots are poisoned, and blocks are handed out in any order.
    """
    noting = Backend(mp.gathered_attention.attend, NotingCache)
    num_blocks = num_blocks or NUM_BLOCKS[block_size]
    paged = mp.PagedModel(tiny_model(name), num_blocks, block_size, noting)
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(paged.pool.num_blocks, generator=generator)
    paged.pool._free = order.tolist()
    for tensor in (*paged.cache.keys, *paged.cache.values):
        tensor.fill_(torch.nan)
    options = {"prefix_cache": mp.PrefixCache(paged.pool)} if cached else {}
    oracle = Oracle(paged)
    for limit in (5, None):
        ours = mp.generate(
            paged, PROMPTS, CONFIGS, seed=7, max_prompt_tokens=limit, **options
        )
        assert all(map(same_answer, huggingface_answers(name), ours)), "other answers"
        assert paged.pool.num_free == paged.pool.num_blocks
    return oracle.seen


@pytest.mark.parametrize("cached", [False, True], ids=["alone", "cached"])
@pytest.mark.parametrize("block_size", NUM_BLOCKS)
@pytest.mark.parametrize("name", all_or(["qwen3", "mistral", "gpt2"], ["mistral"]))
def test_every_step_gathers_what_a_contiguous_cache_holds(name, block_size, cached):
    seen = generate_twice(name, block_size, cached)
    assert seen["checks"] > 100 and seen["forks"] > 50
    assert (seen["copies"] > 40) == (block_size > 1)  # nobody writes into a full block
    assert (seen["adoptions"] > 2) == cached
    # With blocks of 16 few are ever full, and plain free ones are handed out first.
    assert (seen["evictions"] > 10) == (cached and block_size < 16)


# --- wrong versions, which the oracle itself must reject ------------------------------

BUILD, RELEASE = RaggedBatch.build, mp.BlockPool.release
PUBLISH = mp.PrefixCache.publish


def forgets_the_copies(chunks, copies=(), device="cpu"):
    """Wrong: a copied block starts as whatever was there before."""
    return BUILD(chunks, (), device)


def copies_only_layer_0(cache, copies):
    """Wrong: the other layers of a copied block are whatever was there before."""
    for source, copy in copies:
        cache.keys[0][copy] = cache.keys[0][source]
        cache.values[0][copy] = cache.values[0][source]


def frees_at_the_first_release(pool, block_id):
    """Wrong: does not wait for the last holder."""
    if pool.refcount(block_id):
        pool._refcounts[block_id] = 1
        RELEASE(pool, block_id)


def loses_blocks(pool, block_id):
    """Wrong: a block that nobody holds any more is not free."""
    pool._refcounts[block_id] -= 1


def publishes_too_soon(sharing, work):
    """Wrong: fills the last block up with tokens that are known, but not computed."""
    tokens, block_ids = work.sequence.tokens[: work.stop], work.sequence.table.block_ids
    such = [p for p in PROMPTS if p[: len(tokens)] == tokens]
    known = max(such, key=len, default=tokens)
    cache, salt = sharing._cache, work.request.salt
    cache.publish(known[: len(block_ids) * cache.pool.block_size], block_ids, salt)


def publishes_tails(prefix, tokens, block_ids, salt=b"", *, stop=None):
    """Wrong: publishes the part-filled last block, as if it ended in zeros."""
    tokens = tokens[:stop]
    missing = -len(tokens) % prefix.pool.block_size
    PUBLISH(prefix, [*tokens, *[0] * missing], block_ids, salt)


def finds_by_own_tokens(prefix, chain_hash, parent, content):
    """Wrong: whatever came before."""
    known = prefix._contents.items()
    return next((block for block, one in known if one.tokens == content), None)


@pytest.mark.parametrize(
    ("where", "method", "wrong", "complaint"),
    [
        (mp.BlockTable, "must_copy", lambda table, n: False, "layer 0"),
        (RaggedBatch, "build", forgets_the_copies, "layer 0"),
        (KVCache, "copy", copies_only_layer_0, "layer 1"),
        (mp.BlockPool, "release", frees_at_the_first_release, "holders"),
        (mp.BlockPool, "release", loses_blocks, "blocks are lost"),
        (PrefixSharing, "_publish", publishes_too_soon, STRANGE),
        (mp.PrefixCache, "publish", publishes_tails, STRANGE),
        (mp.PrefixCache, "_lookup", finds_by_own_tokens, STRANGE),
        (mp.PrefixCache, "forget", lambda prefix, block_id: None, STRANGE),
    ],
)
def test_the_oracle_rejects(monkeypatch, where, method, wrong, complaint):
    monkeypatch.setattr(where, method, wrong)
    with pytest.raises(AssertionError, match=complaint):
        for num_blocks in (24, 64):  # few are evicted, of many more are found
            generate_twice("qwen3", 3, True, num_blocks)
