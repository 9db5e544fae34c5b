"""What HuggingFace's raw logits say of every token: the reference of logprobs."""

import copy

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList, PreTrainedModel

from minipaged.decoding.strategy import Output, TokenLogprob

NEAR = 1e-5


def of_answers(
    model: PreTrainedModel,
    prompt: list[int],
    config: GenerationConfig,
    seed: int | None = None,
    processors: LogitsProcessorList | None = None,
) -> list[tuple[list[int], Tensor]]:
    """For each sequence: its new tokens, and [tokens, vocabulary] logprobs.

    By `output_logits` of HuggingFace's `generate`, the prompt alone.
    """
    config = copy.deepcopy(config)
    config.return_dict_in_generate = config.output_logits = True
    if seed is not None:
        torch.manual_seed(seed)
    out = model.generate(
        torch.tensor([prompt], device=model.device),
        generation_config=config,
        logits_processor=processors,
    )
    rows = torch.stack([torch.log_softmax(one.float(), -1) for one in out.logits])
    sequences = []
    for number, tokens in enumerate(out.sequences[:, len(prompt) :].tolist()):
        row = torch.full((len(tokens),), number)
        if out.get("beam_indices") is not None:
            row = out.beam_indices[number][: len(tokens)]
            row = torch.nn.functional.pad(row, (0, len(tokens) - len(row)))
        own = rows[torch.arange(len(tokens)).clamp(max=len(rows) - 1), row.cpu()]
        sequences.append((tokens, own))
    return sequences


def of_prompt(model: PreTrainedModel, prompt: list[int]) -> Tensor:
    """[tokens but the first, vocabulary], by one forward of the model."""
    with torch.no_grad():
        logits = model(torch.tensor([prompt], device=model.device)).logits[0, :-1]
    return torch.log_softmax(logits.float(), -1)


def check_entry(entry: TokenLogprob, token: int, row: Tensor, count: int) -> None:
    """It is this token's, by this row; with so many of the likeliest, in order."""
    assert entry.token == token
    assert abs(entry.logprob - row[token].item()) < NEAR
    assert len(entry.top) == count
    tokens, logprobs = [one for one, _ in entry.top], [p for _, p in entry.top]
    best = row.topk(count).values
    assert len(set(tokens)) == count and logprobs == sorted(logprobs, reverse=True)
    # Of two that are as likely as each other, either may come first.
    assert torch.allclose(row[tokens], best, rtol=0, atol=NEAR)
    assert torch.allclose(torch.tensor(logprobs), best.cpu(), rtol=0, atol=NEAR)


def check_answers(
    output: Output, right: list[tuple[list[int], Tensor]], count: int
) -> int:
    """All its sequences and their logprobs are HuggingFace's; how many tokens."""
    assert len(output.logprobs) == len(output.sequences) == len(right)
    for ours, entries, (theirs, rows) in zip(
        output.sequences, output.logprobs, right, strict=True
    ):
        assert ours == theirs[: len(ours)] and len(entries) == len(ours)
        for token, entry, row in zip(ours, entries, rows, strict=False):
            check_entry(entry, token, row, count)
    return sum(map(len, output.sequences))


def check_prompt(output: Output, prompt: list[int], right: Tensor, count: int) -> None:
    """Each of its tokens but the first is as likely as HuggingFace says."""
    first, *others = output.prompt_logprobs
    assert first is None and len(others) == len(prompt) - 1
    for token, entry, row in zip(prompt[1:], others, right, strict=True):
        check_entry(entry, token, row, count)
