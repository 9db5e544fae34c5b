"""Right and wrong attempts at appendix G's exercises."""

import asyncio

from minipaged.decoding.text_pieces import TextPieces
from minipaged.lab.tour import incidents


async def answering(stream):
    """By polling, unlike the solution in the notebook."""
    sent = 0
    try:
        while sent < stream.num_tokens or not stream.finished:
            if sent < stream.num_tokens:
                yield stream.tokens[sent]
                sent += 1
            else:
                await asyncio.sleep(0.001)
    finally:
        stream.abort()


def cut(pieces, stop):
    """Letter by letter, unlike the solution in the notebook."""
    held = ""
    for piece in pieces:
        said = ""
        for letter in piece:
            held += letter
            if held.endswith(stop):
                yield said + held[: -len(stop)]
                return
            while held and not any(held == stop[:n] for n in range(len(stop))):
                said, held = said + held[0], held[1:]
        if said:
            yield said
    yield held


class First:
    """Time and question are told together, at the end."""

    cause = "C"

    def repair(self, system, question, now):
        said = f"{question} (It is {now}.)"
        return f"<|system|>{system}<|end|><|user|>{said}<|end|><|assistant|>"

    def guard(self, queries, hits):
        return queries >= 500 and hits / queries < 0.25


class Second:
    """A list in place of a dict."""

    cause = "D"

    def repair(self, tokenizer):
        own = []

        def text_of(user, token):
            while len(own) <= user:
                own.append(TextPieces(tokenizer))
            return own[user].add(token)

        return text_of

    def guard(self, ask):
        texts = ["ю", "abc", "éé"]
        return any(a != b for a, b in zip(ask(texts), texts, strict=True))


class Third:
    """All in a single loop."""

    cause = "B"

    def repair(self, stream):
        sent = 0
        try:
            while not (stream.finished and sent == stream.num_tokens):
                has_more = sent < stream.num_tokens
                yield stream.tokens[sent] if has_more else None
                sent += has_more
        finally:
            stream.abort()

    def guard(self, connections, running, waiting):
        return connections < running + waiting


# --- what is wrong --------------------------------------------------------------------


async def never_aborts(stream):
    sent = 0
    while sent < stream.num_tokens or not stream.finished:
        if sent < stream.num_tokens:
            yield stream.tokens[sent]
            sent += 1
        else:
            await asyncio.sleep(0.001)


async def leaves_it_to_the_stream(stream):
    async for token in stream:
        yield token


async def aborts_only_at_the_end(stream):
    async for token in stream:
        yield token
    stream.abort()


async def waits_first(stream):
    try:
        async for token in stream:
            yield token
    finally:
        await asyncio.sleep(0)
        stream.abort()


async def only_if_cancelled(stream):
    try:
        async for token in stream:
            yield token
    except asyncio.CancelledError:
        stream.abort()
        raise


async def only_if_closed(stream):
    try:
        async for token in stream:
            yield token
    except GeneratorExit:
        stream.abort()
        raise


async def says_the_first_only(stream):
    try:
        async for token in never_aborts(stream):
            yield token
            return
    finally:
        stream.abort()


def looks_at_pieces(pieces, stop):
    for piece in pieces:
        if stop in piece:
            yield piece.split(stop)[0]
            return
        yield piece


def holds_all(pieces, stop):
    yield "".join(pieces).split(stop)[0]


def forgets_the_rest(pieces, stop):
    text = said = ""
    for piece in pieces:
        text += piece
        certain = text.split(stop)[0] if stop in text else text[: 1 - len(stop) or None]
        yield certain[len(said) :]
        said = certain


def keeps_the_stop(pieces, stop):
    text = ""
    for piece in pieces:
        text += piece
        yield piece
        if stop in text:
            return


def with_(right, **parts):
    """The right answer with other parts."""
    return type("Wrong", (right,), parts)


def without_time(self, system, question, now):
    return f"<|system|>{system}<|end|><|user|>{question}<|end|><|assistant|>"


def question_first(self, system, question, now):
    told = f"<|system|>{system}<|end|><|user|>It is {now}.<|end|><|assistant|>"
    return question + told


def question_within(self, system, question, now):
    said = f"{question} It is {now}."
    return f"<|system|>{question} {system}<|end|><|user|>{said}<|end|><|assistant|>"


def hour_first(self, system, question, now):
    said = f"It is {now}. {question}"
    return (
        f"<|system|>It is {now[:2]} o'clock. {system}<|end|>"
        f"<|user|>{said}<|end|><|assistant|>"
    )


def time_last(self, system, question, now):
    return f"{without_time(self, system, question, now)}It is {now}."


def unmarked(self, system, question, now):
    return f"{system} {question} It is {now}."


def no_user(self, system, question, now):
    return f"<|system|>{system}<|end|>It is {now}. {question}<|end|><|assistant|>"


def only_the_minute(self, system, question, now):
    return First().repair(system, question, now[:5])


def as_before(self, system, question, now):
    return incidents.prompt_of(system, question, now)


def a_dict_for_each(self, tokenizer):
    return lambda user, token: TextPieces(tokenizer).add(token)


def shared_again(self, tokenizer):
    return incidents.make_texts(tokenizer)


def deletes_what_is_unknown(self, tokenizer):
    text_of = Second().repair(tokenizer)
    return lambda user, token: text_of(user, token).replace("\ufffd", "")


def the_old_answer(self, stream):
    return incidents.answer(stream)


def gives_up(self, stream):
    try:
        while not stream.tokens:
            yield None
        yield from stream.tokens
    finally:
        stream.abort()


FAULTS = {
    "answering": [
        (never_aborts, "for nobody"),
        (leaves_it_to_the_stream, "breaks out"),
        (aborts_only_at_the_end, "breaks out"),
        (waits_first, "disconnected"),
        (only_if_cancelled, "breaks out"),
        (only_if_closed, "goes on"),
        (says_the_first_only, "1 came"),
    ],
    "cut": [
        (looks_at_pieces, "is certain"),
        (holds_all, "is certain"),
        (forgets_the_rest, "certain"),
        (keeps_the_stop, "certain"),
    ],
    "incident_1": [
        (with_(First, cause="A"), "5 of 128"),
        (with_(First, cause="B"), "at the end"),
        (with_(First, cause="D"), "one by one"),
        (with_(First, cause="the time"), "none of A, B, C, D"),
        (with_(First, repair=without_time), "not told this time"),
        (with_(First, repair=only_the_minute), "not told this time"),
        (with_(First, repair=as_before), "0% are found"),
        (with_(First, repair=question_first), "<|user|>"),
        (with_(First, repair=question_within), "% are found"),
        (with_(First, repair=hour_first), "before the system prompt ends"),
        (with_(First, repair=time_last), "<|user|>"),
        (with_(First, repair=unmarked), "<|user|>"),
        (with_(First, repair=no_user), "<|user|>"),
        (with_(First, guard=lambda self, queries, hits: hits == 0), "quiet night"),
        (with_(First, guard=lambda self, queries, hits: False), "expected an alarm"),
        (with_(First, guard=lambda self, q, hits: q > 500 and hits < q / 4), "500"),
        (with_(First, guard=lambda self, q, hits: q >= 500 and hits <= q / 4), "250"),
    ],
    "incident_2": [
        (with_(Second, cause="A"), "right tokens"),
        (with_(Second, cause="B"), "nobody else's"),
        (with_(Second, cause="C"), "in order"),
        (with_(Second, repair=a_dict_for_each), "users receive"),
        (with_(Second, repair=shared_again), "users receive"),
        (with_(Second, repair=deletes_what_is_unknown), "users receive"),
        (
            with_(Second, guard=lambda self, ask: ask(["a", "b"]) != ["a", "b"]),
            "the server of this morning",
        ),
        (with_(Second, guard=lambda self, ask: True), "silence"),
    ],
    "incident_3": [
        (with_(Third, cause="A"), "preempted"),
        (with_(Third, cause="C"), "40 tokens"),
        (with_(Third, cause="D"), "as many as may"),
        (with_(Third, repair=the_old_answer), "run or wait"),
        (with_(Third, repair=gives_up), "of 40 tokens"),
        (with_(Third, guard=lambda self, c, r, w: w > c), "expected an alarm"),
        (with_(Third, guard=lambda self, c, r, w: True), "silence"),
        (with_(Third, guard=lambda self, c, r, w: r + w != c), "[5, 2, 0]"),
        (with_(Third, guard=lambda self, c, r, w: r + w > c and w < 10), "[40, 2, 45]"),
    ],
}
