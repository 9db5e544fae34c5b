"""Lab: the fields of a server's requests: OpenAI's, and vLLM's additions.

An unknown field is refused by its name. So is a known one that is not honoured here,
with the reason, unless its value means that it is not used. `null` means "not given".
"""

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

MOST_LOGPROBS = 20
MOST_STOPS = 4


class Refusal(NamedTuple):
    """Why a field is not honoured, and the values of it that ask for nothing."""

    why: str
    harmless: tuple[Any, ...] = ()


_NO_TOOLS = "describe tools in the messages; a call of one is text"
_NO_GRAMMAR = "answers are not bound to a form; ask for the form in the prompt"
_NO_OTHER_MEDIA = "answers are text only"
_NO_STORE = "nothing is stored here"
_NO_EFFORT = "the model decides; a template may take it by chat_template_kwargs"
_OTHER_DECODING = "special tokens are never shown"
REFUSED = {
    # OpenAI's
    "audio": Refusal(_NO_OTHER_MEDIA),
    "function_call": Refusal(_NO_TOOLS, ("none",)),
    "functions": Refusal(_NO_TOOLS, ([],)),
    "metadata": Refusal(_NO_STORE, ({},)),
    "modalities": Refusal(_NO_OTHER_MEDIA, (["text"],)),
    "moderation": Refusal("nothing is moderated here"),
    "parallel_tool_calls": Refusal(_NO_TOOLS, (True, False)),
    "prediction": Refusal("predicted answers are not used"),
    "prompt_cache_key": Refusal("use cache_salt: requests with equal salts share"),
    "prompt_cache_options": Refusal("blocks stay until others need the room"),
    "prompt_cache_retention": Refusal("blocks stay until others need the room"),
    "reasoning_effort": Refusal(_NO_EFFORT),
    "response_format": Refusal(_NO_GRAMMAR, ({"type": "text"},)),
    "service_tier": Refusal("all requests are served alike", ("auto", "default")),
    "store": Refusal(_NO_STORE, (False,)),
    "suffix": Refusal("text is continued, not filled in", ("",)),
    "tool_choice": Refusal(_NO_TOOLS, ("none", "auto")),
    "tools": Refusal(_NO_TOOLS, ([],)),
    "verbosity": Refusal(_NO_EFFORT),
    "web_search_options": Refusal(_NO_TOOLS),
    # vLLM's
    "allowed_token_ids": Refusal("use logit_bias to favour tokens"),
    "bad_words": Refusal("use logit_bias with -100 for their tokens", ([],)),
    "chat_template": Refusal("a template is code: the model's own is used"),
    "documents": Refusal("put them into the messages"),
    "include_reasoning": Refusal("reasoning is part of the text", (True,)),
    "kv_transfer_params": Refusal("K and V stay in this server"),
    "logits_processors": Refusal("no code of a client is run", ([],)),
    "mm_processor_kwargs": Refusal(_NO_OTHER_MEDIA),
    "priority": Refusal("first come, first served", (0,)),
    "prompt_embeds": Refusal("give text or token ids"),
    "request_id": Refusal("ids are made here"),
    "return_token_ids": Refusal("use return_tokens_as_token_ids", (False,)),
    "skip_special_tokens": Refusal(_OTHER_DECODING, (True,)),
    "spaces_between_special_tokens": Refusal(_OTHER_DECODING, (True,)),
    "structured_outputs": Refusal(_NO_GRAMMAR),
    "truncate_prompt_tokens": Refusal("cut the prompt yourself: /tokenize counts"),
    "vllm_xargs": Refusal("there are no extensions"),
}  # fmt: skip


# Of fields that may be of several types, what to send.
MUST_BE = {
    "content": "must be text or text parts; images are not taken",
    "prompt": "must be a text, token ids, or a list of either",
    "stop": "must be a text or a list of texts",
}


def _encodable(text: str) -> str:
    """The text; ValueError for half a letter, which JSON can hold and UTF-8 cannot."""
    text.encode()
    return text


Text = Annotated[str, AfterValidator(_encodable)]


class Fields(BaseModel):
    """A body whose fields are all known, of the right types, and finite."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def drop_unused(cls, given: Any) -> Any:
        """Leave out fields that ask for nothing."""
        if not isinstance(given, dict):
            return given
        return {
            name: value for name, value in given.items() if not _unused(name, value)
        }


def _unused(name: str, value: Any) -> bool:
    if name not in REFUSED:
        return False
    # `in` alone takes 0 for False.
    harmless = REFUSED[name].harmless
    return value is None or any(
        type(value) is type(one) and value == one for one in harmless
    )


class StreamOptions(Fields):
    """What a stream tells besides text."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class Generating(Fields):
    """What both ways to ask for text have in common."""

    model: Text | None = None
    # How tokens are chosen.
    temperature: Annotated[float, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=100)] | None = None
    logit_bias: Annotated[dict[str, float], Field(max_length=1024)] | None = None
    # How many answers.
    n: Annotated[int, Field(ge=1)] | None = None
    use_beam_search: bool | None = None
    best_of: Annotated[int, Field(ge=1)] | None = None
    length_penalty: Annotated[float, Field(ge=-10, le=10)] | None = None
    # Where they end.
    max_tokens: Annotated[int, Field(ge=0)] | None = None
    min_tokens: Annotated[int, Field(ge=0)] | None = None
    stop: Text | list[Text] | None = None
    stop_token_ids: Annotated[list[int], Field(max_length=64)] | None = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    # How they come.
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    return_tokens_as_token_ids: bool | None = None
    prompt_logprobs: Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None = None
    # Who asks.
    cache_salt: Annotated[Text, Field(min_length=1)] | None = None
    user: Text | None = None  # changes no answer; nor does the next one
    safety_identifier: Text | None = None

    @property
    def stops(self) -> list[str]:
        """The stop strings as a list."""
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    @property
    def num_answers(self) -> int:
        """For each prompt."""
        return self.n or 1

    @property
    def num_beams(self) -> int | None:
        """The width of the beam search; None: tokens are drawn."""
        return (self.best_of or self.num_answers) if self.use_beam_search else None


class CompletionRequest(Generating):
    """The body of /v1/completions."""

    # From left to right: of many ids, no other type's faults are looked for.
    prompt: Annotated[
        list[int] | Text | list[Text] | list[list[int]],
        Field(union_mode="left_to_right"),
    ]
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None = None
    add_special_tokens: bool | None = None

    @property
    def has_text(self) -> bool:
        """Is there text to be tokenised, or shown?"""
        prompt = self.prompt
        is_text = isinstance(prompt, str) or any(isinstance(p, str) for p in prompt[:1])
        return is_text or bool(self.echo)


class TextPart(Fields):
    """A part of a message."""

    type: Literal["text"]
    text: Text


class Message(Fields):
    """What somebody said in a chat."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Text | list[TextPart]
    name: Text | None = None  # most templates do not show it

    @property
    def for_template(self) -> dict[str, str]:
        """As templates take it. Parts are lines; a developer speaks as the system."""
        content = self.content
        if not isinstance(content, str):
            content = "\n".join(part.text for part in content)
        role = "system" if self.role == "developer" else self.role
        named = {} if self.name is None else {"name": self.name}
        return {"role": role, "content": content, **named}


class Chat(Fields):
    """Messages, and how the template makes a prompt of them."""

    messages: Annotated[list[Message], Field(min_length=1)]
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    add_special_tokens: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class ChatRequest(Chat, Generating):
    """The body of /v1/chat/completions."""

    has_text: ClassVar[bool] = True

    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None = None


class TokenizeText(Fields):
    """The body of /tokenize for a text."""

    prompt: Text
    model: Text | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None


class TokenizeChat(Chat):
    """The body of /tokenize for messages."""

    model: Text | None = None
    return_token_strs: bool | None = None


# pydantic names the kind, too, before the field in which it finds a fault.
KINDS = "of text", "of messages"


def _kind(given: Any) -> str:
    """Which of the two a body of /tokenize is: the faults of the other are none."""
    return KINDS[isinstance(given, dict) and "messages" in given]


TokenizeRequest = Annotated[
    Annotated[TokenizeText, Tag(KINDS[0])] | Annotated[TokenizeChat, Tag(KINDS[1])],
    Discriminator(_kind),
]


class DetokenizeRequest(Fields):
    """The body of /detokenize."""

    tokens: list[int]
    model: Text | None = None
