"""Lab: from a body's fields to what the engine is asked."""

from dataclasses import dataclass
from inspect import signature
from typing import Any

from transformers import GenerationConfig, PreTrainedTokenizerBase

from minipaged.serving.errors import bad
from minipaged.serving.penalties import SaidPenalty
from minipaged.serving.protocol import (
    MOST_STOPS,
    Chat,
    ChatRequest,
    CompletionRequest,
    Generating,
    TokenizeText,
)

GREEDY = 1e-5  # temperatures below it: vLLM's border
DEFAULT_COMPLETION = 16  # tokens: OpenAI's
_LONGEST_STOP = 256  # letters: to compare it with the vocabulary takes time


@dataclass(frozen=True)
class Question:
    """A prompt, and the arguments with which `Engine.add` takes it."""

    prompt: list[int]
    text: str  # the prompt's
    arguments: dict[str, Any]  # without the seed
    max_tokens: int  # 0: only the prompt is looked at


class Reader:
    """Makes questions of bodies, for one model."""

    def __init__(
        self,
        generation_config: GenerationConfig,
        tokenizer: PreTrainedTokenizerBase,
        max_model_len: int,
        num_embeddings: int,
    ):
        """generation_config: the model's own. num_embeddings: of token ids.

        max_model_len: of a prompt with its answer.
        """
        self.tokenizer = tokenizer
        self.max_model_len = max_model_len
        self._own = generation_config
        self._num_embeddings = num_embeddings
        self._of_templates = {*signature(tokenizer.apply_chat_template).parameters}

    def completion(self, asked: CompletionRequest) -> list[Question]:
        """A question for each prompt."""
        prompt = asked.prompt
        prompts = prompt if isinstance(prompt, list) else [prompt]
        if prompts and isinstance(prompts[0], int):
            prompts = [prompts]
        if not prompts:
            raise bad("prompt is an empty list; give a text, or token ids", "prompt")
        special = asked.add_special_tokens is not False
        logprobs = asked.logprobs
        questions = []
        for each in prompts:
            tokens = self.tokens_of(each, special) if isinstance(each, str) else each
            text = each if isinstance(each, str) else ""
            if asked.echo and tokens is each:
                text = self.text_of(tokens)
            limit = asked.max_tokens
            limit = DEFAULT_COMPLETION if limit is None else limit
            if limit == 0 and not asked.echo:
                raise bad(
                    "max_tokens of 0 needs echo: nothing is generated", "max_tokens"
                )
            questions.append(self._question(asked, tokens, text, limit, logprobs))
        return questions

    def chat(self, asked: ChatRequest) -> list[Question]:
        """A question of these messages."""
        if asked.top_logprobs and not asked.logprobs:
            raise bad("top_logprobs needs logprobs: true", "top_logprobs")
        limit = asked.max_completion_tokens or asked.max_tokens
        logprobs = (asked.top_logprobs or 0) if asked.logprobs else None
        tokens = self.tokens_of_chat(asked)
        return [self._question(asked, tokens, "", limit, logprobs)]

    def tokens_of(self, text: str, add_special_tokens: bool) -> list[int]:
        """The text's token ids."""
        encoded = self.tokenizer(
            text, add_special_tokens=add_special_tokens, verbose=False
        )
        return encoded.input_ids

    def text_of(self, tokens: list[int]) -> str:
        """The text of token ids, without special tokens."""
        if tokens and not 0 <= min(tokens) <= max(tokens) < self._num_embeddings:
            raise bad(f"token ids must lie from 0 to {self._num_embeddings - 1}")
        return self.tokenizer.decode(tokens, skip_special_tokens=True)

    def tokens_of_chat(self, chat: Chat) -> list[int]:
        """The token ids of messages, by the model's template."""
        options = chat.chat_template_kwargs or {}
        if taken := self._of_templates & options.keys():
            raise bad(f"{min(taken)} is not for the template", "chat_template_kwargs")
        if not self.tokenizer.chat_template:
            raise bad(
                "this model has no chat template; use /v1/completions", "messages"
            )
        try:
            text = self.tokenizer.apply_chat_template(
                [message.for_template for message in chat.messages],
                tokenize=False,
                add_generation_prompt=chat.add_generation_prompt is not False
                and not chat.continue_final_message,
                continue_final_message=bool(chat.continue_final_message),
                **options,
            )
            text.encode()  # options may hold half a letter
        except Exception as error:  # templates raise what they like
            raise bad(
                f"the chat template refuses these messages: {error!s:.200}", "messages"
            ) from error
        return self.tokens_of(text, bool(chat.add_special_tokens))

    def tokens_to_show(self, asked: TokenizeText | Chat) -> list[int]:
        """Of /tokenize."""
        if isinstance(asked, Chat):
            return self.tokens_of_chat(asked)
        return self.tokens_of(asked.prompt, asked.add_special_tokens is not False)

    def _question(
        self,
        asked: Generating,
        prompt: list[int],
        text: str,
        limit: int | None,
        logprobs: int | None,
    ) -> Question:
        _check(asked)
        room = self.max_model_len - len(prompt)
        if room < 1:
            raise bad(
                f"the prompt has {len(prompt)} tokens, and the model takes "
                f"{self.max_model_len} with the answer; shorten it",
                "messages" if isinstance(asked, Chat) else "prompt",
            )
        if limit is not None and limit > self.max_model_len:
            raise bad(
                f"max_tokens is {limit}, but a prompt and its answer have at most "
                f"{self.max_model_len} tokens",
                "max_tokens",
            )
        max_tokens = room if limit is None else min(limit, room)  # as vLLM does
        echoes = isinstance(asked, CompletionRequest) and asked.echo
        counts = [asked.prompt_logprobs, logprobs if echoes else None]
        of_prompt = max((n for n in counts if n is not None), default=None)
        arguments = {
            "generation_config": self._config(asked, max(1, max_tokens), room),
            "logprobs": logprobs,
            "prompt_logprobs": of_prompt,
            "logits_processor": _penalties(asked, len(prompt)),
            "stops_in_prompt": False,  # as OpenAI and vLLM
        }
        return Question(prompt, text, arguments, max_tokens)

    def _config(
        self, asked: Generating, max_tokens: int, room: int
    ) -> GenerationConfig:
        """Fields that are not given here are the model's own, or switched off."""
        own, beams = self._own, asked.num_beams
        options: dict[str, Any] = {"num_beams": beams or 1}
        temperature = asked.temperature
        if temperature is None:
            temperature = 1.0 if own.temperature is None else own.temperature
        if beams is not None:
            options["num_return_sequences"] = asked.num_answers
            options["length_penalty"] = asked.length_penalty
        if beams is not None or temperature < GREEDY:
            options["do_sample"] = False
        else:
            top_k = (own.top_k or 0) if asked.top_k is None else max(0, asked.top_k)
            options |= {"do_sample": True, "temperature": temperature, "top_k": top_k}
            options |= {"top_p": asked.top_p, "min_p": asked.min_p}
        if asked.logit_bias:
            options["sequence_bias"] = self._bias(asked.logit_bias)
        eos = own.eos_token_id
        eos_ids = eos if isinstance(eos, list) else [] if eos is None else [eos]
        ends = [] if asked.ignore_eos else list(eos_ids)
        ends += asked.stop_token_ids or []
        if ends and not 0 <= min(ends) <= max(ends) < self._num_embeddings:
            raise bad(
                f"token ids must lie from 0 to {self._num_embeddings - 1}",
                "stop_token_ids",
            )
        if ends and asked.min_tokens:
            options["min_new_tokens"] = min(asked.min_tokens, max_tokens)
        if max_tokens == room and own.max_new_tokens is None:
            # The same for prompts of all lengths: the engine has prepared it already.
            options["max_length"] = self.max_model_len
        else:
            options["max_new_tokens"] = max_tokens
        return GenerationConfig(
            eos_token_id=ends or self._num_embeddings,  # that is no token: no end
            repetition_penalty=asked.repetition_penalty,
            stop_strings=asked.stops or None,
            **options,
        )

    def _bias(self, given: dict[str, float]) -> list[list[Any]]:
        """In HuggingFace's words."""
        biases = []
        for name, bias in given.items():
            if not name.isdecimal() or int(name[:20]) >= self._num_embeddings:
                raise bad(
                    f"logit_bias: {name:.20} is no token id from 0 to "
                    f"{self._num_embeddings - 1}",
                    "logit_bias",
                )
            if abs(bias) > 100:
                raise bad("logit_bias: must lie from -100 to 100", "logit_bias")
            biases.append([[int(name)], float(bias)])
        return biases


def _penalties(asked: Generating, num_prompt_tokens: int) -> list[SaidPenalty] | None:
    presence, frequency = asked.presence_penalty, asked.frequency_penalty
    if not presence and not frequency:
        return None
    return [SaidPenalty(num_prompt_tokens, presence or 0.0, frequency or 0.0)]


def _check(asked: Generating) -> None:
    """Raise ApiError for values that do not go together."""
    if len(asked.stops) > MOST_STOPS:
        raise bad(f"at most {MOST_STOPS} stop strings are taken", "stop")
    for stop in asked.stops:
        if not 1 <= len(stop) <= _LONGEST_STOP:
            raise bad(f"a stop string must have 1 to {_LONGEST_STOP} letters", "stop")
    if asked.stream_options is not None and not asked.stream:
        raise bad("stream_options needs stream: true", "stream_options")
    if asked.prompt_logprobs is not None and asked.stream:
        raise bad("prompt_logprobs come with a whole answer only", "prompt_logprobs")
    if asked.num_beams is None:
        if asked.best_of not in (None, asked.num_answers):
            raise bad("best_of needs use_beam_search: true", "best_of")
        if asked.length_penalty is not None and asked.length_penalty != 1.0:
            raise bad("length_penalty needs use_beam_search: true", "length_penalty")
        return
    if asked.num_beams < asked.num_answers:
        raise bad("best_of must be at least n", "best_of")
    if asked.stream:
        raise bad("beams cannot be streamed: any of them may win", "stream")
    if asked.temperature not in (None, 0, 1):
        raise bad("beams take the likeliest; leave temperature out", "temperature")
    for name in ("top_p", "top_k", "min_p", "seed"):
        if getattr(asked, name) is not None:
            raise bad(f"beams draw nothing; leave {name} out", name)
    if asked.stop:
        raise bad("stop strings of beams are not supported; leave stop out", "stop")
