"""Lab: two chats that begin alike, computed once and forked (lesson 4)."""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from minipaged.memory.block_table import BlockTable
from minipaged.model.inputs import Chunk, RaggedBatch
from minipaged.model.paged_model import PagedModel


def forward(
    paged: PagedModel, tables: Sequence[BlockTable], new: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Compute the new tokens of each table; return the token that follows each."""
    copies = []
    for table, tokens in zip(tables, new, strict=True):
        copies += table.append(len(tokens))
    chunks = [Chunk(tokens, table) for table, tokens in zip(tables, new, strict=True)]
    logits = paged.forward(RaggedBatch.build(chunks, copies, paged.device))
    return logits.argmax(dim=-1, keepdim=True).tolist()


def two_chats(
    paged: PagedModel, tokenizer: PreTrainedTokenizerBase, num_tokens: int = 7
) -> str:
    """What the model answers in both: the beginning is forked, they go on together."""
    beginning = tokenizer("<|system|>Answer briefly. Mia has a horse. Ben has a")
    question = ".<|end|><|user|>Which pet does Ben have?<|end|><|assistant|>"
    table = BlockTable(paged.pool)
    forward(paged, [table], [beginning.input_ids])
    chats = [table.fork(), table.fork()]
    table.free()
    # New are first the end of each prompt, then one token each.
    new = tokenizer([pet + question for pet in (" dog", " cat")]).input_ids
    texts: list[list[int]] = [[], []]
    for _ in range(num_tokens):
        new = forward(paged, chats, new)
        texts = [[*text, *token] for text, token in zip(texts, new, strict=True)]
    for chat in chats:
        chat.free()
    return " and ".join(tokenizer.batch_decode(texts))
