"""Lab: the JSON of answers: a completion or a chat, whole or in chunks."""

import time
from typing import Any, NamedTuple
from uuid import uuid4

from minipaged.decoding.strategy import TokenLogprob
from minipaged.serving import logprobs
from minipaged.serving.protocol import ChatRequest, CompletionRequest
from minipaged.serving.requests import Question
from minipaged.serving.text import NamingDecoder


class Piece(NamedTuple):
    """A part of an answer, or all of it."""

    index: int  # of the answer
    question: Question
    text: str
    num_tokens: int
    entries: list[TokenLogprob] | None  # the tokens' logprobs, if they are wanted
    is_first: bool
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    prompt_entries: list[TokenLogprob | None] | None = None  # if is_first, for echo


class Form:
    """What completions and chats have in common."""

    prefix: str
    object: str
    chunk_object: str

    def __init__(
        self, asked: CompletionRequest | ChatRequest, model: str, decoder: NamingDecoder
    ):
        """model: the name by which it was asked for."""
        self._asked = asked
        self._head = {
            "id": f"{self.prefix}-{uuid4().hex}",
            "created": int(time.time()),
            "model": model,
        }
        by_id = asked.return_tokens_as_token_ids
        self._names = logprobs.token_ids_as_names if by_id else decoder.name

    def whole(self, pieces: list[Piece], usage: dict[str, Any]) -> dict[str, Any]:
        """The body of a response."""
        choices = [self._choice(piece, self._whole(piece)) for piece in pieces]
        return self._head | {
            "object": self.object,
            "choices": choices,
            "usage": usage,
        }

    def chunk(self, piece: Piece | None) -> dict[str, Any]:
        """An event of a stream; without a piece, one that has no choices."""
        choices = [] if piece is None else [self._choice(piece, self._part(piece))]
        return self._head | {"object": self.chunk_object, "choices": choices}

    def _of_prompt(self, piece: Piece) -> dict[str, Any]:
        """The prompt's logprobs, if they are wanted."""
        count = self._asked.prompt_logprobs
        if count is None:
            return {}
        entries = piece.prompt_entries
        return {"prompt_logprobs": logprobs.of_prompt(entries, count, self._names)}

    def _choice(self, piece: Piece, content: dict[str, Any]) -> dict[str, Any]:
        return {
            "index": piece.index,
            **content,
            "logprobs": self._logprobs(piece),
            "finish_reason": piece.finish_reason,
            "stop_reason": piece.stop_reason,
        }

    def _whole(self, piece: Piece) -> dict[str, Any]:
        raise NotImplementedError

    def _part(self, piece: Piece) -> dict[str, Any]:
        raise NotImplementedError

    def _logprobs(self, piece: Piece) -> dict[str, Any] | None:
        raise NotImplementedError


class CompletionForm(Form):
    """Of /v1/completions."""

    prefix, object, chunk_object = "cmpl", "text_completion", "text_completion"

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self._offsets: dict[int, int] = {}  # of the next token's text in each answer

    def _whole(self, piece: Piece) -> dict[str, Any]:
        return self._part(piece) | self._of_prompt(piece)

    def _part(self, piece: Piece) -> dict[str, Any]:
        echo = piece.question.text if self._asked.echo and piece.is_first else ""
        return {"text": echo + piece.text}

    def _logprobs(self, piece: Piece) -> dict[str, Any] | None:
        if piece.entries is None:
            return None
        entries: list[TokenLogprob | None] = [*piece.entries]
        tokens = [entry.token for entry in piece.entries]
        if piece.is_first and self._asked.echo:
            entries = [*piece.prompt_entries, *entries]
            tokens = [*piece.question.prompt, *tokens]
        offset = self._offsets.get(piece.index, 0)
        columns = logprobs.of_completion(
            tokens, entries, self._asked.logprobs, self._names, offset
        )
        self._offsets[piece.index] = offset + sum(map(len, columns["tokens"]))
        return columns


class ChatForm(Form):
    """Of /v1/chat/completions."""

    prefix, object, chunk_object = (
        "chatcmpl",
        "chat.completion",
        "chat.completion.chunk",
    )

    def whole(self, pieces: list[Piece], usage: dict[str, Any]) -> dict[str, Any]:
        """The body of a response; all answers have one prompt."""
        return super().whole(pieces, usage) | self._of_prompt(pieces[0])

    def _whole(self, piece: Piece) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": piece.text}}

    def _part(self, piece: Piece) -> dict[str, Any]:
        # With the first token, not before: clients take the first event for it.
        role = {"role": "assistant"} if piece.is_first else {}
        return {"delta": {**role, "content": piece.text}}

    def _logprobs(self, piece: Piece) -> dict[str, Any] | None:
        if piece.entries is None:
            return None
        count = self._asked.top_logprobs or 0
        return logprobs.of_chat(piece.entries, count, self._names)
