"""Lab: appendix G's incidents: three running systems with a planted fault, and tickets.

The first system is here; the others are `desk` and `tunnels`. Each runs with the
function that it is given in the place of that in which the fault lies.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import zip_longest
from statistics import fmean
from typing import Any

from transformers import PreTrainedTokenizerBase

from minipaged.decoding.text_pieces import TextPieces
from minipaged.lab.tour.desk import BEFORE, TODAY, Desk
from minipaged.lab.tour.tunnels import LENGTH, Server
from minipaged.model.load import load

Texts = Callable[[int, int], str]  # (number of the answer, token) -> text to send

ANSWERS = {"Zoë": "A naïve café.", "Ben": "The sea is cold.", "Пётр": "Привет, тюлень!"}


def make_texts(tokenizer: PreTrainedTokenizerBase) -> Texts:
    """Called as the server starts: what makes the text of each token."""
    pieces = TextPieces(tokenizer)

    def text_of(answer: int, token: int) -> str:
        return pieces.add(token)

    return text_of


def receive(
    answers: Sequence[str], make_texts: Callable[[Any], Texts] = make_texts
) -> list[str]:
    """The model says these answers at one time, token by token; what users receive."""
    tokenizer = _tokenizer()
    text_of = make_texts(tokenizer)
    texts = [""] * len(answers)
    for step in zip_longest(*[tokenizer(answer).input_ids for answer in answers]):
        for number, token in enumerate(step):
            if token is not None:
                texts[number] += text_of(number, token)
    return texts


@cache
def _tokenizer() -> PreTrainedTokenizerBase:
    return load("pocket", device="cpu")[1]


# --- tickets --------------------------------------------------------------------------


def incident(number: int) -> str:
    """The ticket: symptoms, and what the running system says of itself."""
    return (_of_letters, _of_the_desk, _of_tunnels)[number - 1]()


def _of_letters() -> str:
    tokenizer, answers = _tokenizer(), [*ANSWERS.values()]
    lines = []
    for user, right, got in zip(ANSWERS, answers, receive(answers), strict=True):
        alone = tokenizer.decode(tokenizer(right).input_ids)
        lines.append(f"  {user:5} tokens of the log, decoded: {alone!r}")
        lines.append(f"  {'':5} received:                    {got!r}")
    return (
        "A few users receive nonsense in the morning, when many are there. At night, "
        "the\nsame questions are answered well. Ben says that he saw letters that "
        "nobody wrote.\n" + "\n".join(lines)
    )


def _of_the_desk() -> str:
    mornings = [Desk(release).morning() for release in (BEFORE, TODAY)]
    waits = [fmean(row["first_token_after"] for row in one.log) for one in mornings]
    before, now = (one.metrics() for one in mornings)
    rates = [
        counters["prefix_cache_hits"] / counters["prefix_cache_queries"]
        for counters in (before, now)
    ]
    lines = [f"  {'':22}{'Saturday':>9}{'today':>9}"]
    shown = ("prompt_tokens", "generation_tokens", "num_preemptions")
    lines += [f"  {name:22}{before[name]:9}{now[name]:9}" for name in shown]
    lines.append(f"  {'hit rate':22}" + "".join(f"{rate:9.0%}" for rate in rates))
    return (
        "Since the release of this morning, first tokens come late, all day long: "
        f"after\n{waits[1]:.1f} steps on average, not {waits[0]:.1f}. The dashboard "
        "shows nothing bad after the same 24\nquestions, and the hit rate of the "
        "prefix cache is good:\n" + "\n".join(lines)
    )


def _of_tunnels() -> str:
    server = Server().day()
    answers = [
        f"  {user:5}{len(tokens):4} of {LENGTH} tokens"
        for user, tokens in server.received.items()
    ]
    counters = [f"  {name} {value}" for name, value in server.metrics().items()]
    return (
        "Since the weekend, the page connects again by itself when a line breaks, and "
        "the\nserver keeps the answer of a user who is gone for 25 steps. Most users "
        "on trains\nare glad. But some answers end in the middle of a word. Of "
        "today's passengers,\nEve was away for 200 steps, so hers had to end; the "
        "others were not away for\nlong, they say.\n" + "\n".join([*answers, *counters])
    )
