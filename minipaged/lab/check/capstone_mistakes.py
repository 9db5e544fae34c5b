"""Lab: mistakes that the capstone's checks know: each is planted into the file."""

# What to say, and how it is made: a part, what is right there, and what is wrong.
Mistakes = dict[str, tuple[str, str, str]]

ONE_TOKEN: Mistakes = {
    "divide by the root of the mean of the squares, not of their sum": (
        "norm",
        ".mean(-1, keepdim=True)",
        ".sum(-1, keepdim=True)",
    ),
    "each row has a mean of its own, over the last dimension": (
        "norm",
        ".mean(-1, keepdim=True)",
        ".mean()",
    ),
    "eps stands under the root, added to the mean": (
        "norm",
        "torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps)",
        "(torch.rsqrt(y.pow(2).mean(-1, keepdim=True)) + eps)",
    ),
    "the squares are too large for 16 bits: compute in float32": (
        "norm",
        "x.float()",
        "x",
    ),
    "the weight is missing": ("norm", "weight * ", ""),
    "of the mean: RMS norm takes no mean away": (
        "norm",
        "y = x.float()",
        "y = x.float() - x.float().mean(-1, keepdim=True)",
    ),
    "a pair is a number of the first half and one of the second": (
        "rotate",
        "first, second = x.chunk(2, dim=-1)\n    "
        "return x * cos + torch.cat([-second, first], dim=-1) * sin",
        "odd = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)\n    "
        "return x * cos + odd * sin",
    ),
    "it is turned the other way round": (
        "rotate",
        "[-second, first]",
        "[second, -first]",
    ),
    "attention's output is added to x": ("forward", "x = x + self.att", "x = self.att"),
    "the output of the MLP is added to x": (
        "forward",
        "x = x + self.linear(gate",
        "x = self.linear(gate",
    ),
    "silu is for the gate alone": (
        "forward",
        "self.linear(gate * up,",
        "self.linear(silu(gate * up),",
    ),
    "silu of the gate is missing": (
        "forward",
        'silu(self.linear(y, layer + "mlp.gate_proj"))',
        'self.linear(y, layer + "mlp.gate_proj")',
    ),
    "logits are asked of the last tokens, batch.last_rows": (
        "forward",
        "x[batch.last_rows]",
        "x[-1:]",
    ),
    "the last norm is missing": (
        "forward",
        'self.norm(x[batch.last_rows], "model.norm")',
        "x[batch.last_rows]",
    ),
    "if the model has an lm_head, it gives the logits": (
        "forward",
        '"lm_head.weight" not in self.weights',
        "True",
    ),
}

ONE_PROMPT: Mistakes = {
    "K is turned before it is stored": (
        "attention",
        'rotate(self.norm(k, name + "k_norm"), *turn)',
        'self.norm(k, name + "k_norm")',
    ),
    "K has a norm of its own": (
        "attention",
        'rotate(self.norm(k, name + "k_norm"), *turn)',
        "rotate(k, *turn)",
    ),
    "Q has a norm of its own": (
        "attention",
        'rotate(self.norm(q, name + "q_norm"), *turn)',
        "rotate(q, *turn)",
    ),
    "Q is turned, as K is": (
        "attention",
        'rotate(self.norm(q, name + "q_norm"), *turn)',
        'self.norm(q, name + "q_norm")',
    ),
    "V is not turned": (
        "attention",
        "values[batch.slots] = v",
        "values[batch.slots] = rotate(v, *turn)",
    ),
    "K and V of the new tokens are stored before anybody reads": (
        "attention",
        "tensors = q[rows], keys[context], values[context]",
        "tensors = q[rows], keys[context] * 0, values[context]",
    ),
    "nobody sees what comes later: the mask is missing": (
        "attention",
        "(q_, k_, v_, mask, ",
        "(q_, k_, v_, ",
    ),
    "heads and tokens change places, and must change back": (
        "attention",
        "y.transpose(1, 2)",
        "y.reshape(q[rows].shape)",
    ),
    "what a group gives goes to the rows of the group": (
        "attention",
        "out[rows] = y.transpose(1, 2)",
        "out[: rows.numel()] = y.transpose(1, 2).flatten(0, 1)",
    ),
    "each layer has its own K and V": (
        "attention",
        "self.keys[number], self.values[number]",
        "self.keys[0], self.values[0]",
    ),
    "the last projection, o_proj, is missing": (
        "attention",
        'return self.linear(out.flatten(1), name + "o_proj")',
        "return out.flatten(1)",
    ),
}

MANY_PROMPTS: Mistakes = {
    "positions count on from what is computed": (
        "ragged_batch",
        "positions += range(start, stop)",
        "positions += range(stop - start)",
    ),
    "only tokens that are not computed yet are new": (
        "ragged_batch",
        "seq.tokens[start:stop]",
        "seq.tokens[: stop - start]",
    ),
    "a slot follows from the block: table[position // size] * size + position % size": (
        "ragged_batch",
        "b * block_size + i for b in seq.table",
        "n * block_size + i for n, b in enumerate(seq.table)",
    ),
    "the context of a sequence ends with its last new token": (
        "ragged_batch",
        "context[:stop]",
        "context",
    ),
    "the context begins with the first token, also where it is computed already": (
        "ragged_batch",
        "context[:stop]",
        "context[start:stop]",
    ),
    "a row is a place in the batch; positions are places in a sequence": (
        "ragged_batch",
        "last_rows.append(len(tokens) - 1)",
        "last_rows.append(stop - 1)",
    ),
    "sequences with as many new tokens make a group": (
        "ragged_batch",
        "groups[seq.num_new].append",
        "groups[len(tokens)].append",
    ),
    "each token sees itself, too": ("group", "<= positions", "< positions"),
    "each token sees what is at its position or before, not the whole context": (
        "group",
        "<= positions[:, :, None]",
        "<= positions.max(-1, keepdim=True)[0][:, :, None]",
    ),
    "a context shorter than the longest is filled up behind its end": (
        "group",
        "slots + [0] * (longest - len(slots))",
        "[0] * (longest - len(slots)) + slots",
    ),
    "the mask lacks a dimension for the heads: [B, 1, N, L]": (
        "group",
        "sees[:, None]",
        "sees",
    ),
}

BLOCKS_AND_TABLES: Mistakes = {
    "take the block that has been free for longest, the first of `free`": (
        "take",
        "last=False",
        "last=True",
    ),
    "the block that is taken has a holder now": (
        "take",
        "self.num_holders[block] = 1",
        "self.num_holders[block] = 0",
    ),
    "what the block held must be forgotten": ("take", "self.forget(block)", "pass"),
    "a block that was found may be free: it must not stay among the free ones": (
        "share",
        "self.free.pop(block, None)",
        "self.free.get(block)",
    ),
    "a block is free only when nobody holds it": (
        "give_back",
        "self.num_holders[block] == 0",
        "True",
    ),
    "without holders, the block is free": (
        "give_back",
        "self.free[block] = None",
        "pass",
    ),
    "a block that is given back goes to the end of `free`": (
        "give_back",
        "self.free[block] = None",
        "self.free[block] = None\n        self.free.move_to_end(block, last=False)",
    ),
    "a part of a block is a block: round up": (
        "make_room",
        "-(-num_tokens // self.pool.block_size)",
        "num_tokens // self.pool.block_size",
    ),
    "a full block needs no further one": (
        "make_room",
        "-(-num_tokens // self.pool.block_size)",
        "num_tokens // self.pool.block_size + 1",
    ),
    "blocks that the sequence has need not be taken again": (
        "make_room",
        "num_blocks - len(seq.table)",
        "num_blocks",
    ),
    "a sequence gets all blocks that it needs, or none and False": (
        "make_room",
        "return False",
        "num_more = len(self.pool.free)",
    ),
    "give the last block back first: others need the first ones for longer": (
        "release",
        "reversed(seq.table)",
        "seq.table",
    ),
    "nothing is computed any more: K and V are gone": (
        "release",
        "seq.table, seq.hashes, seq.num_computed = [], [], 0",
        "seq.table, seq.hashes = [], []",
    ),
    "the table of a sequence without blocks is empty": (
        "release",
        "seq.table, seq.hashes, seq.num_computed = [], [], 0",
        "seq.hashes, seq.num_computed = [], 0",
    ),
}

A_SHARED_PREFIX: Mistakes = {
    "the hash must stand for all tokens before, too: the parent is missing": (
        "chain",
        "parent + ",
        "",
    ),
    "1, 23 and 12, 3 look alike if the numbers stand side by side": (
        "chain",
        'array("q", tokens).tobytes()',
        '"".join(map(str, tokens)).encode()',
    ),
    "the first of two equal blocks stays the one that is found": (
        "publish",
        "if chained not in self.by_hash:",
        "if True:",
    ),
    "`hash_of` must know what to forget": (
        "publish",
        "self.hash_of[block] = chained",
        "pass",
    ),
    "after `forget`, nobody finds the block": (
        "forget",
        "self.by_hash.pop(chained, None)",
        "pass",
    ),
    "compute the last token anew: without its logits nothing follows": (
        "reuse_prefix",
        "len(seq.tokens) - size, size",
        "len(seq.tokens) - size + 1, size",
    ),
    "who finds a block becomes its holder": (
        "reuse_prefix",
        "self.pool.share(block)",
        "pass",
    ),
    "each hash is chained to the one before": (
        "reuse_prefix",
        "parent = self.pool.chain(parent, ",
        'parent = self.pool.chain(b"", ',
    ),
    "K and V of the blocks that were found are computed already": (
        "reuse_prefix",
        "seq.num_computed = len(seq.table) * size",
        "pass",
    ),
    "a sequence notes the hashes of its full blocks": (
        "reuse_prefix",
        "seq.hashes.append(parent)",
        "pass",
    ),
    "publish blocks whose K and V are computed, all of them": (
        "publish_full",
        "seq.num_computed // size",
        "len(seq.tokens) // size",
    ),
    "a block is published when it is full, not before": (
        "publish_full",
        "seq.num_computed // size",
        "-(-seq.num_computed // size)",
    ),
    "begin with the first full block that has no hash yet": (
        "publish_full",
        "seq.table[i], seq.hashes[-1]",
        "seq.table[0], seq.hashes[-1]",
    ),
    "the parent is the hash of the block before": (
        "publish_full",
        'seq.hashes[-1] if seq.hashes else b""',
        'b""',
    ),
}

TWO_SAMPLES: Mistakes = {
    "temperature 0 takes the likeliest token": (
        "choose",
        "int(logits.argmax())",
        "int(logits.argmin())",
    ),
    "divide the logits by the temperature": (
        "choose",
        "logits / options.temperature",
        "logits * options.temperature",
    ),
    "top_k: all but the k largest become minus infinity": (
        "choose",
        "logits < worst",
        "logits <= worst",
    ),
    "top_p: the token with which the sum reaches p stays": (
        "choose",
        "is_rest = ascending.softmax(-1).cumsum(-1) <= 1 - options.top_p",
        "is_rest = ascending.softmax(-1).cumsum(-1) <= 1.1 - options.top_p",
    ),
    "draw with the generator of this sequence": (
        "choose",
        "generator=generator",
        "generator=torch.Generator().manual_seed(5)",
    ),
    "the logits are not yours to change: make new ones": (
        "choose",
        "logits = logits / options.temperature",
        "logits /= options.temperature",
    ),
    "each sample has a seed of its own: seed + sample": (
        "forks",
        "seq.options.seed + sample",
        "seq.options.seed",
    ),
    "a list of its own: tokens of one sample are not those of another": (
        "forks",
        "list(seq.tokens)",
        "seq.tokens",
    ),
    "a table of its own, with the same blocks": (
        "forks",
        "list(seq.table)",
        "seq.table",
    ),
    "each block has one holder more": ("forks", "self.pool.share(block)", "pass"),
    "the fork runs, as the first sample does": (
        "forks",
        "self.running.append(fork)",
        "pass",
    ),
    "K and V of the prompt are computed for the fork, too": (
        "forks",
        "fork.num_computed = seq.num_computed",
        "pass",
    ),
    "num_samples counts the first one, too": (
        "forks",
        "range(1, seq.options.num_samples)",
        "range(seq.options.num_samples)",
    ),
    "a block with one holder is written in place": ("must_copy", "> 1", "> 0"),
    "a block with other holders must not be written": ("must_copy", "> 1", "> 2"),
    "the block that is written is that of the first new token": (
        "must_copy",
        "seq.num_computed // self.pool.block_size",
        "max(seq.num_computed - 1, 0) // self.pool.block_size",
    ),
    "the copy has the K and V of the block": (
        "copy_on_write",
        "self.model.copy(self.slots(shared), self.slots(seq.table[written]))",
        "pass",
    ),
    "from the shared block to the new one, not back": (
        "copy_on_write",
        "self.slots(shared), self.slots(seq.table[written])",
        "self.slots(seq.table[written]), self.slots(shared)",
    ),
    "the shared block has one holder less": (
        "copy_on_write",
        "self.pool.give_back(shared)",
        "pass",
    ),
    "V is copied, too": ("copy", "self.keys, self.values", "(self.keys,)"),
    "K and V of all layers are copied": ("copy", "cache[:, target", "cache[:1, target"),
}

TOO_SMALL_A_POOL: Mistakes = {
    "a step computes max_tokens tokens at most, of all sequences together": (
        "schedule",
        "budget -= seq.num_new\n    while",
        "pass\n    while",
    ),
    "whoever waits, too, computes no more than is left of the budget": (
        "schedule",
        "self.reuse_prefix(seq)\n        seq.num_new = min(",
        "self.reuse_prefix(seq)\n        seq.num_new = max(1, ",
    ),
    "whoever came last is preempted first": (
        "schedule",
        "self.running.pop()",
        "self.running.pop(0)",
    ),
    "a preempted sequence gives its blocks back": (
        "schedule",
        "self.release(loser)",
        "pass",
    ),
    "a preempted sequence is the first who waits": (
        "schedule",
        "appendleft(loser)",
        "append(loser)",
    ),
    "whoever waits looks for a prefix first": (
        "schedule",
        "self.reuse_prefix(seq)",
        "pass",
    ),
    "if there is no room for whoever waits, the blocks that were found go back": (
        "schedule",
        "self.release(seq)\n            break",
        "break",
    ),
    "nobody overtakes: if the first has no room, the others wait": (
        "schedule",
        "self.release(seq)\n            break",
        "self.release(seq)\n            self.waiting.rotate(-1)\n            break",
    ),
    "whoever was preempted in this step does not compute in it": (
        "schedule",
        "if budget and seq in self.running:",
        "if budget:",
    ),
    "whoever begins no longer waits, and runs": (
        "schedule",
        "self.running.append(self.waiting.popleft())",
        "self.waiting.popleft()",
    ),
}

A_STREAM: Mistakes = {
    "a request that can never fit must be refused by a ValueError": (
        "add",
        "most > len(self.pool.num_holders) * self.pool.block_size",
        "False",
    ),
    "an empty prompt must be refused by a ValueError": (
        "add",
        "not tokens or options",
        "options",
    ),
    "an answer of no token must be refused by a ValueError": (
        "add",
        " or options.max_new_tokens < 1",
        "",
    ),
    "the answer needs room, too": (
        "add",
        "len(tokens) + options.max_new_tokens",
        "len(tokens)",
    ),
    "each request has a number of its own": ("add", "self.num_requests += 1", "pass"),
    "a copy of the tokens: the caller's list may change": (
        "add",
        "list(tokens)",
        "tokens",
    ),
    "the generator begins with the seed": (
        "add",
        "manual_seed(options.seed)",
        "manual_seed(0)",
    ),
    "what this step computed is computed": (
        "step",
        "seq.num_computed += seq.num_new",
        "pass",
    ),
    "full blocks are published after the forward": (
        "step",
        "self.publish_full(seq)",
        "pass",
    ),
    "a part of a prompt brings no token": (
        "step",
        "continue  # a part of a prompt, or of what was preempted",
        "pass",
    ),
    "with the first token, the other samples begin": (
        "step",
        "[seq, *self.forks(seq)] if is_first else [seq]",
        "[seq]",
    ),
    "samples are forked once, with the first token": (
        "step",
        "is_first = len(seq.tokens) == seq.num_prompt",
        "is_first = True",
    ),
    "whoever is done gives its blocks back": ("step", "self.release(one)", "pass"),
    "whoever is done no longer runs": ("step", "self.running.remove(one)", "pass"),
    "each sample chooses with its own generator": (
        "step",
        "one.options, one.generator",
        "one.options, seq.generator",
    ),
    "somebody may wait while nobody runs": (
        "stream",
        "self.running or self.waiting",
        "self.running",
    ),
    "for each prompt, a list of samples": ("generate", "[[] for _ in samples]", "[[]]"),
}
