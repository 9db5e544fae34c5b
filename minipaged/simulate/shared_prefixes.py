"""Appendix H: what a cluster is asked: prompts that begin as others do.

Two traces, made up. Users of a few applications talk for some rounds: a prompt is the
application's system prompt and all that was said. Or each request puts a question
behind one of many texts, some of which are asked for more often than others.
"""

from collections.abc import Sequence
from random import Random

from minipaged.scheduling.routing import chain_hashes
from minipaged.simulate.lengths import LogNormal
from minipaged.simulate.traces import Asked

TEXT = 1_000_000_000  # the first number of a system prompt, or of a text
SAID = -1  # the token of all answers, as a Script says it


def applications(
    count: int,
    rate: float,
    seed: int = 0,
    *,
    systems: int = 8,
    system_tokens: int = 256,
    rounds: tuple[int, int] = (2, 6),
    question: float = 40.0,
    answer: float = 60.0,
    pause: float = 10.0,
    salts: int = 0,
    max_length: int = 2048,
) -> list[Asked]:
    """So many conversations, of which `rate` begin in a second.

    Each begins with one of `systems` system prompts, of `system_tokens` tokens, and has
    from `rounds[0]` to `rounds[1]` rounds, with `question` and `answer` tokens in the
    mean. From one question to the next it takes `pause` seconds in the mean, and half
    of that at least, whatever the servers do meanwhile. A round that would pass
    `max_length` positions ends the conversation. With `salts`, each conversation has
    one of so many salts: customers who share no blocks, even of equal system prompts.
    """
    chance = Random(seed)
    drawn = [chance.randint(*rounds) for _ in range(count)]
    questions = LogNormal(question, 0.6, int(8 * question)).draw(sum(drawn), chance)
    answers = LogNormal(answer, 0.6, int(8 * answer)).draw(sum(drawn), chance)
    number = 0
    moment = 0.0
    trace = []
    for chat, num_rounds in enumerate(drawn):
        moment += chance.expovariate(rate)
        asked_at = moment
        system = chance.randrange(systems)
        salt = b"customer %d" % chance.randrange(salts) if salts else b""
        said = [TEXT + system] * system_tokens
        for _ in range(num_rounds):
            prompt = said + [number] * questions[number]
            length = answers[number]
            if len(prompt) + length > max_length:
                break
            number += 1
            trace.append(Asked(asked_at, prompt, (length,), salt=salt, chat=chat))
            said = prompt + [SAID] * length
            asked_at += pause / 2 + chance.expovariate(2 / pause)
    return sorted(trace, key=lambda asked: asked.arrival)


def shared_texts(
    count: int,
    rate: float,
    seed: int = 0,
    *,
    texts: int = 200,
    text_tokens: int = 1024,
    question: float = 40.0,
    answer: float = 60.0,
) -> list[Asked]:
    """So many requests, `rate` of them a second; each asks about one of `texts` texts.

    The first text is asked for twice as often as the second, three times as often as
    the third, and so on (Zipf's law).
    """
    chance = Random(seed)
    questions = LogNormal(question, 0.6, int(8 * question)).draw(count, chance)
    answers = LogNormal(answer, 0.6, int(8 * answer)).draw(count, chance)
    weights = [1 / rank for rank in range(1, texts + 1)]
    chosen = chance.choices(range(texts), weights, k=count)
    moment = 0.0
    trace = []
    for number, text in enumerate(chosen):
        moment += chance.expovariate(rate)
        prompt = [TEXT + text] * text_tokens + [number] * questions[number]
        trace.append(Asked(moment, prompt, (answers[number],)))
    return trace


def repeated(trace: Sequence[Asked], block_size: int = 16) -> float:
    """Of the prompts' tokens, those in blocks that came before: no cache finds more.

    Answers count, too: a next prompt repeats them. As a cache does, it takes whole
    blocks only, and never the whole prompt.
    """
    known: set[int] = set()
    found = 0
    for asked in trace:
        chain = chain_hashes(asked.prompt, block_size, asked.salt)
        chain = chain[: (len(asked.prompt) - 1) // block_size]
        found += block_size * sum(chain_hash in known for chain_hash in chain)
        said = asked.prompt + [SAID] * (asked.lengths[0] - 1)
        known.update(chain_hashes(said, block_size, asked.salt))
    return found / sum(len(asked.prompt) for asked in trace)
