"""Lab: logprobs in OpenAI's two forms, of completions and of chats.

They are those of the model, before temperature and penalties. As with vLLM, the token
itself comes first, then the likeliest others.
"""

from collections.abc import Callable, Sequence
from typing import Any

from minipaged.decoding.strategy import TokenLogprob

LOWEST = -9999.0  # JSON has no infinity

Names = Callable[[int], str]


def token_ids_as_names(token: int) -> str:
    """For return_tokens_as_token_ids."""
    return f"token_id:{token}"


def of_completion(
    tokens: Sequence[int],
    entries: Sequence[TokenLogprob | None],
    count: int,
    names: Names,
    offset: int = 0,
) -> dict[str, list]:
    """Columns: the tokens, their logprobs, the first count + 1, and where each begins.

    entries: None for a token that no logits foretell. offset: of the first, in letters.
    """
    texts = [names(token) for token in tokens]
    offsets = []
    for text in texts:
        offsets.append(offset)
        offset += len(text)
    return {
        "tokens": texts,
        "token_logprobs": [e and _finite(e.logprob) for e in entries],
        "top_logprobs": [
            e
            and {names(token): _finite(lp) for token, lp in _first(e, count, count + 1)}
            for e in entries
        ],
        "text_offset": offsets,
    }


def of_chat(
    entries: Sequence[TokenLogprob], count: int, names: Names
) -> dict[str, list]:
    """A row for each token, with the first `count`."""
    content = []
    for entry in entries:
        row = _row(entry.token, entry.logprob, names)
        row["top_logprobs"] = [
            _row(*pair, names) for pair in _first(entry, count, count)
        ]
        content.append(row)
    return {"content": content}


def of_prompt(
    entries: Sequence[TokenLogprob | None], count: int, names: Names
) -> list[dict[str, Any] | None]:
    """vLLM's: for each token of a prompt, by its id, that token and the first `count`.

    The first is None. A rank is None if the token is not among the likeliest.
    """
    return [entry and _by_id(entry, count, names) for entry in entries]


def _by_id(entry: TokenLogprob, count: int, names: Names) -> dict[str, Any]:
    ranks = {token: rank for rank, (token, _) in enumerate(entry.top, 1)}
    pairs = {entry.token: entry.logprob} | dict(entry.top[:count])
    return {
        str(token): {
            "logprob": _finite(logprob),
            "rank": ranks.get(token),
            "decoded_token": names(token),
        }
        for token, logprob in pairs.items()
    }


def _row(token: int, logprob: float, names: Names) -> dict[str, Any]:
    text = names(token)
    return {
        "token": text,
        "logprob": _finite(logprob),
        "bytes": list(text.encode("utf-8", errors="replace")),
    }


def _first(entry: TokenLogprob, num_top: int, count: int) -> list[tuple[int, float]]:
    others = [pair for pair in entry.top[:num_top] if pair[0] != entry.token]
    return [(entry.token, entry.logprob), *others][:count]


def _finite(logprob: float) -> float:
    return max(logprob, LOWEST)
