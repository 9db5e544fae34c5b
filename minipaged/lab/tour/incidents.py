"""Lab: three systems with a planted fault each, and what whoever watches them sees (G).

Each `morning` takes the function in which the fault lies, and runs the system with it.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import zip_longest
from typing import Any

from transformers import GenerationConfig, PreTrainedTokenizerBase

from minipaged.decoding.text_pieces import TextPieces
from minipaged.engine.engine import Engine
from minipaged.engine.stream import Stream
from minipaged.memory.prefix_cache import PrefixCache
from minipaged.model.load import load
from minipaged.model.paged_model import PagedModel

Texts = Callable[[int, int], str]  # (number of the answer, token) -> text to send
Row = dict[str, int]

# --- 1 --------------------------------------------------------------------------------

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


def prompt_of(system: str, question: str, now: str) -> str:
    """The prompt of a chat: the model is told the time, too."""
    return (
        f"<|system|>It is {now}. {system}<|end|><|user|>{question}<|end|><|assistant|>"
    )


def morning_1(prompt_of: Callable[[str, str, str], str] = prompt_of) -> Row:
    """Twelve questions within a minute; the counters of /metrics afterwards."""
    model, tokenizer = _pocket()
    paged = PagedModel(model, num_blocks=128, block_size=16)
    with Engine(paged, PrefixCache(paged.pool)) as engine:
        for number, question in enumerate(QUESTIONS):
            text = prompt_of(SYSTEM, question, f"09:00:{5 * number:02}")
            prompt = tokenizer(text, add_special_tokens=False).input_ids
            engine.add(prompt, GenerationConfig(max_new_tokens=4))
            engine.run()
        stats = engine.stats
        return {
            "prefix_cache_queries": stats.prefix_cache_queries,
            "prefix_cache_hits": stats.prefix_cache_hits,
            "num_preemptions": stats.num_preemptions,
            "most_used_blocks": max(step.used_blocks for step in stats.history),
            "num_blocks": paged.pool.num_blocks,
        }


# --- 2 --------------------------------------------------------------------------------

ANSWERS = {"Zoë": "A naïve café.", "Ben": "The sea is cold.", "Пётр": "Привет, тюлень!"}


def make_texts(tokenizer: PreTrainedTokenizerBase) -> Texts:
    """Called as the server starts: what makes the text of each token."""
    pieces = TextPieces(tokenizer)

    def text_of(user: int, token: int) -> str:
        return pieces.add(token)

    return text_of


def morning_2(
    answers: Sequence[str], make_texts: Callable[[Any], Texts] = make_texts
) -> list[str]:
    """The model says these answers at one time, token by token; what users receive."""
    tokenizer = _pocket()[1]
    text_of = make_texts(tokenizer)
    texts = [""] * len(answers)
    for step in zip_longest(*[tokenizer(answer).input_ids for answer in answers]):
        for user, token in enumerate(step):
            if token is not None:
                texts[user] += text_of(user, token)
    return texts


# --- 3 --------------------------------------------------------------------------------

STAYS = 10**6  # steps


def answer(stream: Stream) -> Iterator[int | None]:
    """Tokens to send, None while there are none; it is closed if the client leaves."""
    while not stream.tokens and not stream.finished:
        yield None
    sent = 0
    try:
        while sent < stream.num_tokens or not stream.finished:
            if sent < stream.num_tokens:
                yield stream.tokens[sent]
                sent += 1
            else:
                yield None
    finally:
        stream.abort()


def morning_3(
    answer: Callable[[Stream], Iterator[int | None]] = answer,
    patience: Sequence[int] = (STAYS, 4, 4, STAYS, 4, 4, 4, STAYS, 30, 4),
) -> tuple[list[Row], list[list[int]]]:
    """Ten clients come, one in each step; two requests may run at a time.

    patience: for how many steps each client stays. Returns a row of metrics every ten
    steps, and what was sent to each client.
    """
    model, tokenizer = _pocket()
    paged = PagedModel(model, num_blocks=64, block_size=16)
    prompt = tokenizer("Once upon a time").input_ids
    config = GenerationConfig(max_new_tokens=40, eos_token_id=model.config.vocab_size)
    sent: list[list[int]] = [[] for _ in patience]
    inside: dict[int, Iterator[int | None]] = {}
    rows: list[Row] = []
    with Engine(paged, max_sequences=2) as engine:
        for step in range(121):
            if step < len(patience):
                stream = engine.add([*prompt, step], config)
                inside[step] = iter(answer(stream))
            engine.step()
            for client in [*inside]:
                token = next(inside[client], STAYS)
                if token is not None and token != STAYS:
                    sent[client].append(token)
                if step - client >= patience[client]:
                    inside[client].close()
                if token == STAYS or step - client >= patience[client]:
                    del inside[client]
            if step % 10 == 0:
                running = len(engine.scheduler.running)
                rows.append(
                    {
                        "step": step,
                        "connections": len(inside),
                        "running": running,
                        "waiting": len(engine.streams) - running,
                        "preemptions": engine.stats.num_preemptions,
                    }
                )
    return rows, sent


@cache
def _pocket() -> tuple[Any, Any]:
    return load("pocket", device="cpu")


# --- tickets --------------------------------------------------------------------------


def incident(number: int) -> str:
    """The ticket: symptoms, and what the running system says of itself."""
    return (_ticket_1, _ticket_2, _ticket_3)[number - 1]()


def _ticket_1() -> str:
    counters = "\n".join(f"  {name} {value}" for name, value in morning_1().items())
    return (
        "Since the release of 09:00, first tokens come late. All chats have the same "
        "long\nsystem prompt, and the prefix cache is on. After twelve chats, with "
        f"twelve\nquestions, /metrics says:\n{counters}"
    )


def _ticket_2() -> str:
    tokenizer, answers = _pocket()[1], [*ANSWERS.values()]
    lines = []
    for user, right, got in zip(ANSWERS, answers, morning_2(answers), strict=True):
        alone = tokenizer.decode(tokenizer(right).input_ids)
        lines.append(f"  {user:5} tokens of the log, decoded: {alone!r}")
        lines.append(f"  {'':5} received:                    {got!r}")
    return (
        "A few users receive nonsense in the morning, when many are there. At night, "
        "the\nsame questions are answered well. Ben says that he saw letters that "
        "nobody wrote.\n" + "\n".join(lines)
    )


def _ticket_3() -> str:
    rows, _ = morning_3()
    heads = [*rows[0]]
    lines = [" ".join(f"{head:>11}" for head in heads)]
    lines += [" ".join(f"{row[head]:11}" for head in heads) for row in rows]
    return (
        "In the rush, users wait long, and many give up. But those who stay wait on, "
        "though\nhardly anybody is left. No request is slow once it runs.\n"
        + "\n".join(lines)
    )
