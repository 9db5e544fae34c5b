"""Appendix F: what is asked, and when: traces made up by the paper's figures (6.1).

The means of ShareGPT and Alpaca are the paper's (figure 11). The rest is assumed:
log-normal lengths, prompt and output independent; the spreads are lesson 1's, where
`lab.measure.traces` says how much of them the paper's figures tell.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from random import Random

from minipaged.memory.contiguous import RequestLengths
from minipaged.simulate.lengths import LogNormal
from minipaged.simulate.loop import Arrival
from minipaged.simulate.script import BeamScript, Script

MAX_LENGTH = 2048  # positions of the paper's models: prompt and output together
# (mean, sigma) of prompts and of outputs, in tokens.
SHAREGPT = (161.31, 1.2), (337.99, 0.8)
ALPACA = (19.31, 0.5), (58.45, 0.9)
# A sentence of WMT16, English to German. The paper gives no lengths: assumed.
WMT = (30.0, 0.5), (40.0, 0.5)
PREFIXES = {"one-shot": 80, "few-shot": 341}  # tokens, by section 6.4
CHAT_PROMPT = CHAT_OUTPUT = 1024  # tokens at most, by section 6.5
# A conversation has from 1 to so many rounds: assumed, so that most prompts are cut.
ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of a trace.

    prompt: made-up token ids; a number stands for a text, and so equal ids for equal
    texts. lengths: of each sample's answer, or of each beam's. chat: the number of the
    conversation that it belongs to, if any.
    """

    arrival: float  # seconds
    prompt: list[int]
    lengths: tuple[int, ...]
    beams: bool = False
    salt: bytes = b""  # only requests with the same one share cached blocks
    chat: int | None = None

    def arrive(self) -> Arrival:
        """A new Request, with a script of its own."""
        script = Script(self.lengths)
        if self.beams:
            script = BeamScript(len(self.lengths), self.lengths[0], self.prompt[-1])
        request = script.request(self.prompt)
        request.salt = self.salt
        return Arrival(self.arrival, request)


def arrivals(trace: Sequence[Asked]) -> Iterator[Arrival]:
    """What `simulate` takes; requests are made as they come."""
    return (asked.arrive() for asked in trace)


def sharegpt_like(count: int, seed: int = 0) -> list[RequestLengths]:
    """Made-up chats: mean 161.31 tokens in, 337.99 out.

    An answer that would pass 2,048 positions is cut there: so the mean is 336.8 out.
    """
    return _lengths(*SHAREGPT, count, seed)


def alpaca_like(count: int, seed: int = 0) -> list[RequestLengths]:
    """Made-up instructions: mean 19.31 tokens in, 58.45 out."""
    return _lengths(*ALPACA, count, seed)


def wmt_like(count: int, seed: int = 0) -> list[RequestLengths]:
    """Made-up sentences to translate: mean 30 tokens in, 40 out, both assumed."""
    return _lengths(*WMT, count, seed)


def chat_like(count: int, seed: int = 0) -> list[RequestLengths]:
    """Rounds of made-up conversations; the prompt is the end of all that was said.

    It has the last 1,024 tokens at most, and the answer has at most 1,024 (section
    6.5). How many rounds a conversation has is drawn evenly from 1 to 10.
    """
    chance = Random(seed)
    rounds = iter(sharegpt_like(count, seed))
    found: list[RequestLengths] = []
    while len(found) < count:
        said = 0
        for _ in range(chance.randint(1, ROUNDS)):
            if (lengths := next(rounds, None)) is None:
                break
            prompt = min(said + lengths.prompt, CHAT_PROMPT)
            found.append(RequestLengths(prompt, min(lengths.output, CHAT_OUTPUT)))
            said += sum(lengths)
    return found


LENGTHS = {
    "sharegpt": sharegpt_like,
    "alpaca": alpaca_like,
    "wmt": wmt_like,
    "chat": chat_like,
}


def poisson_trace(
    lengths: Sequence[RequestLengths], rate: float, seed: int = 0, prefix: int = 0
) -> list[Asked]:
    """These requests, `rate` of them a second, at random moments.

    Other rates have the same moments, stretched. No two prompts are alike, except for
    their first `prefix` tokens, which come before their own.
    """
    chance = Random(seed)
    moment = 0.0
    shared = [0] * prefix
    trace = []
    for number, (prompt, output) in enumerate(lengths, start=1):
        moment += chance.expovariate(1.0)
        own = [number] * prompt
        trace.append(Asked(moment / rate, shared + own, (output,)))
    return trace


def conversations(
    count: int,
    rate: float,
    seed: int = 0,
    pause: float = 30.0,
    max_length: int = MAX_LENGTH,
) -> list[Asked]:
    """So many conversations, whose prompts repeat all that was said: to be cached.

    `rate` conversations begin in a second; from question to question it takes `pause`
    seconds in the mean, whatever the server does meanwhile. So the last questions come
    minutes after the last conversation has begun. A conversation has 1 to 10 rounds,
    and ends early before a round that would pass `max_length` positions.
    """
    chance = Random(seed)
    rounds = [chance.randint(1, ROUNDS) for _ in range(count)]
    every_length = iter(sharegpt_like(sum(rounds), seed))
    number = 0
    moment = 0.0
    trace = []
    for num_rounds in rounds:
        moment += chance.expovariate(rate)
        asked_at = moment
        said: list[int] = []
        for lengths in islice(every_length, num_rounds):
            number += 1
            prompt = said + [number] * lengths.prompt
            if len(prompt) + lengths.output > max_length:
                break
            trace.append(Asked(asked_at, prompt, (lengths.output,)))
            said = prompt + [-1] * lengths.output  # as Script says it
            asked_at += chance.expovariate(1 / pause)
    return sorted(trace, key=lambda asked: asked.arrival)


def with_samples(trace: Sequence[Asked], num_samples: int) -> list[Asked]:
    """Each request asks for so many samples of its length."""
    return [replace(asked, lengths=asked.lengths[:1] * num_samples) for asked in trace]


def with_beams(trace: Sequence[Asked], width: int) -> list[Asked]:
    """Each request is answered by a beam search of this width."""
    return [replace(asked, beams=True) for asked in with_samples(trace, width)]


def faster(trace: Iterable[Asked], times: float, minutes: float) -> list[Asked]:
    """What comes in the first minutes, if all comes `times` as fast.

    trace: in the order of arrival; of a long one no more is made than is taken.
    """
    sped = (replace(asked, arrival=asked.arrival / times) for asked in trace)
    return [*takewhile(lambda asked: asked.arrival < minutes * 60, sped)]


def _lengths(
    prompt: tuple[float, float], output: tuple[float, float], count: int, seed: int
) -> list[RequestLengths]:
    """A prompt has at most half of the positions, an output at most the rest."""
    chance = Random(seed)
    prompts = LogNormal(*prompt, limit=MAX_LENGTH // 2).draw(count, chance)
    outputs = LogNormal(*output, limit=MAX_LENGTH).draw(count, chance)
    return [
        RequestLengths(prompt, min(output, MAX_LENGTH - prompt))
        for prompt, output in zip(prompts, outputs, strict=True)
    ]
