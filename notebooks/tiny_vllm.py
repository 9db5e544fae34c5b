"""A small vLLM in one file: many answers at once over blocks of K and V.

    python tiny_vllm.py FOLDER "Once upon a time" "Why is the sky blue?"

FOLDER holds a Qwen3 model as HuggingFace stores it: config.json, *.safetensors and, for
texts, tokenizer.json. A step of the engine computes the next tokens of many sequences
in one forward; K and V lie in blocks, which a table of each sequence names.

Z_capstone.ipynb builds this file in eight steps. Brackets name the lessons of a part.
"""

import json
import sys
from array import array
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import embedding, linear, scaled_dot_product_attention, silu

# --- What is asked, and what becomes of it (lesson 2) ---------------------------------


@dataclass
class Options:
    """How one request is answered. Temperature 0: the likeliest token, always."""

    max_new_tokens: int = 64
    temperature: float = 0.0
    top_k: int = 0  # 0: all
    top_p: float = 1.0
    num_samples: int = 1
    seed: int = 0  # of the first sample; the next one has seed + 1
    eos: tuple[int, ...] = ()


@dataclass(eq=False)
class Sequence:
    """One answer: its tokens, prompt included, and the blocks of their K and V."""

    request: int
    sample: int
    tokens: list[int]
    num_prompt: int
    options: Options
    generator: torch.Generator
    table: list[int] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)  # of its full blocks
    num_computed: int = 0  # so many tokens have K and V
    num_new: int = 0  # so many more get them in this step

    @property
    def is_done(self) -> bool:
        num_answered = len(self.tokens) - self.num_prompt
        ended = num_answered > 0 and self.tokens[-1] in self.options.eos
        return ended or num_answered >= self.options.max_new_tokens


# --- The block pool (lessons 2 and 3) -------------------------------------------------


class BlockPool:
    """Which blocks are free, how many tables name each, and what full ones hold."""

    def __init__(self, num_blocks: int, block_size: int):
        self.block_size = block_size
        self.num_holders = [0] * num_blocks
        self.free = OrderedDict.fromkeys(range(num_blocks))  # longest unused first
        self.by_hash: dict[bytes, int] = {}
        self.hash_of: dict[int, bytes] = {}

    def take(self) -> int:
        """A free block, for one holder. What it held cannot be found any more."""
        block, _ = self.free.popitem(last=False)
        self.forget(block)
        self.num_holders[block] = 1
        return block

    def share(self, block: int) -> None:
        """One holder more; the block may be free, if it was found by its hash."""
        self.free.pop(block, None)
        self.num_holders[block] += 1

    def give_back(self, block: int) -> None:
        """One holder less. Without any it is free, and can still be found."""
        self.num_holders[block] -= 1
        if self.num_holders[block] == 0:
            self.free[block] = None

    def chain(self, parent: bytes, tokens: list[int]) -> bytes:
        """The hash of a full block: of its tokens, and of all tokens before it."""
        return sha256(parent + array("q", tokens).tobytes()).digest()

    def publish(self, block: int, chained: bytes) -> None:
        """From now on, others find this full block. The first of equals is found."""
        if chained not in self.by_hash:
            self.by_hash[chained] = block
            self.hash_of[block] = chained

    def forget(self, block: int) -> None:
        """Nobody finds this block any more."""
        chained = self.hash_of.pop(block, None)
        self.by_hash.pop(chained, None)


# --- The model: Qwen3 over a ragged batch (lesson 2; attention also 5 and 6) ----------


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMS norm over the last dimension, in float32."""
    y = x.float()
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps)
    return weight * y.to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair of numbers by an angle that grows with the token's position."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class Qwen3:
    """The weights, and the K and V of all layers: [layers, slots, KV heads, dim]."""

    def __init__(self, folder: str | Path, num_slots: int, device: str = "cpu"):
        config = json.loads(Path(folder, "config.json").read_text())
        self.num_layers = config["num_hidden_layers"]
        self.num_heads = config["num_attention_heads"]
        self.num_kv_heads = config["num_key_value_heads"]
        self.dim = config["head_dim"]
        self.eps = config["rms_norm_eps"]
        self.eos = config["eos_token_id"]
        base = config.get("rope_parameters", config)["rope_theta"]
        self.weights: dict[str, Tensor] = {}
        for path in sorted(Path(folder).glob("*.safetensors")):
            self.weights |= load_file(path, device=device)
        dtype = getattr(torch, config.get("dtype") or config["torch_dtype"])
        self.weights = {name: w.to(dtype) for name, w in self.weights.items()}
        exponents = torch.arange(0, self.dim, 2, device=device) / self.dim
        self.frequencies = base**-exponents
        shape = self.num_layers, num_slots, self.num_kv_heads, self.dim
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)

    def copy(self, source: range, target: range) -> None:
        """K and V of one block to another, in all layers."""
        for cache in self.keys, self.values:
            cache[:, target.start : target.stop] = cache[:, source.start : source.stop]

    def forward(self, batch: "Batch") -> Tensor:
        """Logits [sequences, vocabulary] of the last token of each sequence."""
        angles = batch.positions[:, None] * self.frequencies
        angles = torch.cat([angles, angles], dim=-1)[:, None]  # for all heads
        dtype = self.keys.dtype
        turn = angles.cos().to(dtype), angles.sin().to(dtype)
        x = embedding(batch.tokens, self.weights["model.embed_tokens.weight"])
        for number in range(self.num_layers):
            layer = f"model.layers.{number}."
            y = self.norm(x, layer + "input_layernorm")
            x = x + self.attention(y, number, layer + "self_attn.", turn, batch)
            y = self.norm(x, layer + "post_attention_layernorm")
            gate = silu(self.linear(y, layer + "mlp.gate_proj"))
            up = self.linear(y, layer + "mlp.up_proj")
            x = x + self.linear(gate * up, layer + "mlp.down_proj")
        x = self.norm(x[batch.last_rows], "model.norm")
        tied = "lm_head.weight" not in self.weights
        return self.linear(x, "model.embed_tokens" if tied else "lm_head").float()

    def attention(
        self, x: Tensor, number: int, name: str, turn: tuple, batch: "Batch"
    ) -> Tensor:
        """Write K and V of the new tokens to their slots; attend to whole contexts."""
        keys, values = self.keys[number], self.values[number]
        q = self.linear(x, name + "q_proj").unflatten(-1, (self.num_heads, self.dim))
        k = self.linear(x, name + "k_proj").unflatten(-1, (self.num_kv_heads, self.dim))
        v = self.linear(x, name + "v_proj").unflatten(-1, (self.num_kv_heads, self.dim))
        q = rotate(self.norm(q, name + "q_norm"), *turn)
        keys[batch.slots] = rotate(self.norm(k, name + "k_norm"), *turn)
        values[batch.slots] = v
        out = torch.empty_like(q)
        for rows, context, mask in batch.groups:
            # [sequences, tokens, heads, dim] -> [sequences, heads, tokens, dim]
            tensors = q[rows], keys[context], values[context]
            q_, k_, v_ = (tensor.transpose(1, 2) for tensor in tensors)
            y = scaled_dot_product_attention(q_, k_, v_, mask, enable_gqa=True)
            out[rows] = y.transpose(1, 2)
        return self.linear(out.flatten(1), name + "o_proj")

    def linear(self, x: Tensor, name: str) -> Tensor:
        return linear(x, self.weights[name + ".weight"])

    def norm(self, x: Tensor, name: str) -> Tensor:
        return norm(x, self.weights[name + ".weight"], self.eps)


@dataclass
class Batch:
    """What one forward needs: the new tokens of all sequences, one after another."""

    tokens: Tensor  # [T]
    positions: Tensor  # [T], in their sequences
    slots: Tensor  # [T], where their K and V go
    last_rows: Tensor  # [S], the last new token of each sequence
    groups: list[tuple[Tensor, Tensor, Tensor]]  # as `group` makes them


def ragged_batch(sequences: list[Sequence], block_size: int, device: str) -> Batch:
    """Sequences with as many new tokens attend together: they make a group."""
    tokens: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    last_rows = []
    groups = defaultdict(list)
    for seq in sequences:
        start, stop = seq.num_computed, seq.num_computed + seq.num_new
        context = [b * block_size + i for b in seq.table for i in range(block_size)]
        groups[seq.num_new].append((len(tokens), start, context[:stop]))
        tokens += seq.tokens[start:stop]
        positions += range(start, stop)
        slots += context[start:stop]
        last_rows.append(len(tokens) - 1)
    lists = tokens, positions, slots, last_rows
    tensors = (torch.tensor(numbers, device=device) for numbers in lists)
    grouped = [group(num, members, device) for num, members in groups.items()]
    return Batch(*tensors, grouped)


def group(
    num_new: int, members: list[tuple[int, int, list[int]]], device: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Of each member: its first row, its first new position, its context's slots.

    Returns the rows of the new tokens [B, N], the slots of the contexts, filled up to
    the longest [B, L], and which of them each new token sees [B, 1, N, L].
    """
    new = torch.arange(num_new, device=device)
    first_rows, starts, contexts = zip(*members, strict=True)
    rows = torch.tensor(first_rows, device=device)[:, None] + new
    positions = torch.tensor(starts, device=device)[:, None] + new
    longest = max(map(len, contexts))
    # Any slot would do: nobody sees what fills up.
    filled = [slots + [0] * (longest - len(slots)) for slots in contexts]
    sees = torch.arange(longest, device=device) <= positions[:, :, None]
    return rows, torch.tensor(filled, device=device), sees[:, None]


# --- The engine (lessons 3 and 4, appendices A and B) ---------------------------------


class Engine:
    """Requests come at any time; each step brings the next tokens of many."""

    def __init__(
        self,
        folder: str | Path,
        num_blocks: int = 256,
        block_size: int = 16,
        max_tokens: int = 512,  # of a step
        device: str = "cpu",
    ):
        self.pool = BlockPool(num_blocks, block_size)
        self.model = Qwen3(folder, num_blocks * block_size, device)
        self.max_tokens = max_tokens
        self.device = device
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.num_requests = 0

    def add(self, tokens: list[int], options: Options) -> int:
        """Ask for answers to a prompt; returns the request's number."""
        most = len(tokens) + options.max_new_tokens
        if not tokens or options.max_new_tokens < 1:
            raise ValueError("a prompt and its answer have at least one token each")
        if most > len(self.pool.num_holders) * self.pool.block_size:
            raise ValueError(f"{most} tokens do not fit the pool")
        generator = torch.Generator(self.device).manual_seed(options.seed)
        number = self.num_requests
        args = number, 0, list(tokens), len(tokens), options, generator
        self.waiting.append(Sequence(*args))
        self.num_requests += 1
        return number

    @torch.inference_mode()
    def step(self) -> list[tuple[int, int, int]]:
        """One forward. Returns (request, sample, token) of all that got a token."""
        chosen = []
        batch = self.schedule()
        inputs = ragged_batch(batch, self.pool.block_size, self.device)
        for seq, logits in zip(batch, self.model.forward(inputs), strict=True):
            seq.num_computed += seq.num_new
            self.publish_full(seq)
            if seq.num_computed < len(seq.tokens):
                continue  # a part of a prompt, or of what was preempted
            is_first = len(seq.tokens) == seq.num_prompt
            family = [seq, *self.forks(seq)] if is_first else [seq]
            for one in family:
                one.tokens.append(choose(logits, one.options, one.generator))
                chosen.append((one.request, one.sample, one.tokens[-1]))
                if one.is_done:
                    self.release(one)
                    self.running.remove(one)
        return chosen

    def schedule(self) -> list[Sequence]:
        """Who computes how many tokens: those who run first, then those who wait."""
        budget, batch = self.max_tokens, []
        for seq in list(self.running):
            if budget and seq in self.running:  # not preempted meanwhile
                seq.num_new = min(len(seq.tokens) - seq.num_computed, budget)
                while not self.make_room(seq):
                    loser = self.running.pop()  # the last one: not in the batch yet
                    self.release(loser)
                    self.waiting.appendleft(loser)
                    if loser is seq:
                        break
                else:
                    batch.append(seq)
                    budget -= seq.num_new
        while budget and self.waiting:
            seq = self.waiting[0]
            self.reuse_prefix(seq)
            seq.num_new = min(len(seq.tokens) - seq.num_computed, budget)
            if not self.make_room(seq):
                self.release(seq)
                break
            self.running.append(self.waiting.popleft())
            batch.append(seq)
            budget -= seq.num_new
        return batch

    def make_room(self, seq: Sequence) -> bool:
        """Give it the blocks that its new tokens need, or nothing and False."""
        num_tokens = seq.num_computed + seq.num_new
        num_blocks = -(-num_tokens // self.pool.block_size)
        num_more = num_blocks - len(seq.table)
        if num_more + self.must_copy(seq) > len(self.pool.free):
            return False
        if self.must_copy(seq):
            self.copy_on_write(seq)
        seq.table += [self.pool.take() for _ in range(num_more)]
        return True

    def must_copy(self, seq: Sequence) -> bool:
        """Will its first new token be written into a block that others hold, too?"""
        written = seq.num_computed // self.pool.block_size
        if written == len(seq.table):
            return False  # into a new block
        return self.pool.num_holders[seq.table[written]] > 1

    def copy_on_write(self, seq: Sequence) -> None:
        """A block of its own, with the same K and V, in the place of the shared one."""
        written = seq.num_computed // self.pool.block_size
        shared = seq.table[written]
        seq.table[written] = self.pool.take()
        self.model.copy(self.slots(shared), self.slots(seq.table[written]))
        self.pool.give_back(shared)

    def slots(self, block: int) -> range:
        """Where the K and V of a block's tokens lie."""
        size = self.pool.block_size
        return range(block * size, block * size + size)

    def release(self, seq: Sequence) -> None:
        """All its blocks go back, the last one first: others are found without it."""
        for block in reversed(seq.table):
            self.pool.give_back(block)
        seq.table, seq.hashes, seq.num_computed = [], [], 0

    def reuse_prefix(self, seq: Sequence) -> None:
        """Take the published blocks that begin as it does, but not its last token's."""
        size = self.pool.block_size
        parent = b""
        # The last token is computed in any case: its logits choose the next one.
        for start in range(0, len(seq.tokens) - size, size):
            parent = self.pool.chain(parent, seq.tokens[start : start + size])
            block = self.pool.by_hash.get(parent)
            if block is None:
                break
            self.pool.share(block)
            seq.table.append(block)
            seq.hashes.append(parent)
        seq.num_computed = len(seq.table) * size

    def publish_full(self, seq: Sequence) -> None:
        """Let others find the blocks that are full now."""
        size = self.pool.block_size
        for i in range(len(seq.hashes), seq.num_computed // size):
            parent = seq.hashes[-1] if seq.hashes else b""
            tokens = seq.tokens[i * size : i * size + size]
            seq.hashes.append(self.pool.chain(parent, tokens))
            self.pool.publish(seq.table[i], seq.hashes[-1])

    def forks(self, seq: Sequence) -> list[Sequence]:
        """The other samples of a request, which run now. Each names the same blocks."""
        others = []
        for sample in range(1, seq.options.num_samples):
            generator = torch.Generator(self.device)
            generator.manual_seed(seq.options.seed + sample)
            args = seq.request, sample, list(seq.tokens), seq.num_prompt, seq.options
            fork = Sequence(*args, generator, list(seq.table), list(seq.hashes))
            fork.num_computed = seq.num_computed
            for block in fork.table:
                self.pool.share(block)
            self.running.append(fork)
            others.append(fork)
        return others

    def stream(self) -> Iterator[tuple[int, int, int]]:
        """Steps until all are answered: (request, sample, token), as they come."""
        while self.running or self.waiting:
            yield from self.step()

    def generate(self, prompts: list[list[int]], options: Options) -> list:
        """The answers without the prompts: samples of each. Nobody else asks."""
        numbers = [self.add(tokens, options) for tokens in prompts]
        samples = range(options.num_samples)
        answers: dict = {number: [[] for _ in samples] for number in numbers}
        for request, sample, token in self.stream():
            answers[request][sample].append(token)
        return list(answers.values())


def choose(logits: Tensor, options: Options, generator: torch.Generator) -> int:
    """The next token: the likeliest, or drawn as HuggingFace draws."""
    if not options.temperature:
        return int(logits.argmax())
    logits = logits / options.temperature
    if options.top_k:
        worst = logits.topk(min(options.top_k, len(logits))).values[-1]
        logits = logits.masked_fill(logits < worst, -torch.inf)
    if options.top_p < 1:
        ascending, order = logits.sort()
        is_rest = ascending.softmax(-1).cumsum(-1) <= 1 - options.top_p
        is_rest[-1] = False  # the likeliest always stays
        logits = logits.index_fill(0, order[is_rest], -torch.inf)
    return int(torch.multinomial(logits.softmax(-1), 1, generator=generator))


def main(folder: str, *texts: str) -> None:
    """Answer all texts at once, and print them."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(folder, "tokenizer.json")))
    engine = Engine(folder)
    options = Options(eos=(engine.model.eos,))
    prompts = [tokenizer.encode(text).ids for text in texts]
    for text, (answer,) in zip(texts, engine.generate(prompts, options), strict=True):
        print(f"{text}{tokenizer.decode(answer)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
