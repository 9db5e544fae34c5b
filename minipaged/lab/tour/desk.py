"""Lab: a server's desk: keys, a template, ratings, an engine (an incident of G).

Time is counted in steps. A `Release` says how the desk is set up; each part is right.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from transformers import GenerationConfig

from minipaged.engine.engine import Engine
from minipaged.engine.stream import Stream
from minipaged.memory.prefix_cache import PrefixCache
from minipaged.model.load import load
from minipaged.model.paged_model import PagedModel

SYSTEM = (
    "You are a helpful penguin. You know the sea and its fish. You answer in short "
    "words, you are kind to seals, and you never tell where the eggs are hidden."
)
QUESTIONS = (
    "Where do you live?",
    "What is 2+2?",
    "What do seals eat?",
    "Can you fly?",
    "Is the sea cold?",
    "Who is your friend?",
    "How deep do you dive?",
    "Do you like snow?",
    "Where are the eggs?",
    "Why is ice white?",
    "When do you sleep?",
    "Are seals kind?",
)
BUDGET = 32  # tokens that a step computes
ANSWER = 4  # tokens of an answer

Add = Callable[..., Stream]  # (prompt, max_new_tokens=, prompt_logprobs=)
# The answer's stream; and the rating's, or a function that asks for it, if it is rated.
Asked = tuple[Stream, Stream | Callable[[], Stream] | None]


class Release(NamedTuple):
    """How the desk is set up."""

    num_blocks: int  # of 16 tokens
    num_keys: int  # API keys; each has its salt
    together: int  # chats that come in the same step
    rated_every: int  # each second chat is rated: 2; none: 0
    says_date: bool  # in the system prompt


BEFORE = Release(num_blocks=96, num_keys=1, together=1, rated_every=0, says_date=False)
TODAY = Release(num_blocks=40, num_keys=2, together=2, rated_every=2, says_date=True)


@dataclass
class Chat:
    """What the desk keeps of a chat."""

    number: int
    key: int
    arrival: int
    answer: Stream
    rating: Stream | Callable[[], Stream] | None


def hand_in(add: Add, prompt: Sequence[int], is_rated: bool) -> Asked:
    """Hand a chat in. A rating needs the logprobs of the prompt's tokens.

    Returns the streams of the answer and of the rating. In the place of the latter, a
    function may stand: the desk calls it when it has nothing else to do.
    """
    answer = add(prompt, prompt_logprobs=0 if is_rated else None)
    return answer, answer if is_rated else None


class Desk:
    """`send` chats, make `step`s, read `metrics()` and the `log`."""

    def __init__(
        self, release: Release = TODAY, hand_in: Callable[..., Asked] = hand_in
    ):
        """hand_in: hands a chat in, as `hand_in` does."""
        self.release, self._hand_in = release, hand_in
        model, self.tokenizer = _pocket()
        paged = PagedModel(model, num_blocks=release.num_blocks, block_size=16)
        self.engine = Engine(paged, PrefixCache(paged.pool), max_tokens=BUDGET)
        self.chats: list[Chat] = []
        self.now = 0
        self._first: dict[Stream, int] = {}  # the step of its first token

    def send(self, question: str, date: str = "Sunday", key: int | None = None) -> Chat:
        """A chat comes; without `key`, all keys take turns."""
        number, release = len(self.chats), self.release
        key = number % release.num_keys if key is None else key
        said = f"It is {date}. {SYSTEM}" if release.says_date else SYSTEM
        text = f"<|system|>{said}<|end|><|user|>{question}<|end|><|assistant|>"

        def add(prompt: Sequence[int], **options: Any) -> Stream:
            config = GenerationConfig(
                max_new_tokens=options.pop("max_new_tokens", ANSWER)
            )
            salt = f"key {key}".encode()
            return self.engine.add([*prompt], config, cache_salt=salt, **options)

        prompt = self.tokenizer(text, add_special_tokens=False).input_ids
        is_rated = bool(release.rated_every) and number % release.rated_every == 0
        chat = Chat(number, key, self.now, *self._hand_in(add, prompt, is_rated))
        self.chats.append(chat)
        return chat

    def step(self) -> bool:
        """A step of the engine; is there more to do?"""
        if not self.engine.streams:
            self._ask_for_a_rating()
        is_busy = self.engine.step()
        self.now += 1
        for chat in self.chats:
            if chat.answer.num_tokens:
                self._first.setdefault(chat.answer, self.now)
        return is_busy or any(callable(chat.rating) for chat in self.chats)

    def _ask_for_a_rating(self) -> None:
        for chat in self.chats:
            if callable(chat.rating):
                chat.rating = chat.rating()
                return

    def metrics(self) -> dict[str, int]:
        """Counters, as /metrics names them."""
        stats = self.engine.stats
        names = ["prompt_tokens", "generation_tokens", "prefix_cache_queries"]
        names += ["prefix_cache_hits", "num_preemptions"]
        return {name: getattr(stats, name) for name in names}

    @property
    def log(self) -> list[dict[str, int]]:
        """A row for each chat that has a token."""
        return [
            {
                "chat": chat.number,
                "key": chat.key,
                "arrival": chat.arrival,
                "prompt": len(chat.answer.request.prompt),
                "found": chat.answer.num_cached_tokens,
                "first_token_after": self._first[chat.answer] - chat.arrival,
            }
            for chat in self.chats
            if chat.answer in self._first
        ]

    def rating(self, chat: Chat) -> float | None:
        """The mean logprob of the prompt's tokens: how usual it is."""
        if chat.rating is None:
            return None
        entries = chat.rating.output.prompt_logprobs[1:]
        return sum(entry.logprob for entry in entries) / len(entries)

    def morning(self, num_chats: int = 24, pause: int = 12) -> "Desk":
        """So many chats come, `pause` steps apart; all are answered. Returns itself."""
        while len(self.chats) < num_chats:
            for _ in range(min(self.release.together, num_chats - len(self.chats))):
                self.send(QUESTIONS[len(self.chats) % len(QUESTIONS)])
            for _ in range(pause):
                self.step()
        while self.step():
            pass
        self.engine.close()
        return self


@cache
def _pocket() -> tuple[Any, Any]:
    return load("pocket", device="cpu")
