"""Right and wrong attempts at appendix G's exercises."""

import asyncio

from minipaged.decoding.text_pieces import TextPieces
from minipaged.lab.tour import desk, incidents, tunnels


async def answering(streams):
    """A task for each stream, unlike the solution in the notebook."""
    queue = asyncio.Queue()

    async def follow(number, stream):
        try:
            async for token in stream:
                queue.put_nowait((number, token))
            queue.put_nowait(None)
        except Exception as error:
            queue.put_nowait(error)

    tasks = [asyncio.create_task(follow(*one)) for one in enumerate(streams)]
    remaining = len(tasks)
    try:
        while remaining:
            found = await queue.get()
            if isinstance(found, Exception):
                raise found
            if found is None:
                remaining -= 1
            else:
                yield found
    finally:
        for task, stream in zip(tasks, streams, strict=True):
            task.cancel()
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
    """Two lines, and `setdefault`."""

    cause = "D"

    def repair(self, tokenizer):
        own = {}

        def text_of(answer, token):
            return own.setdefault(answer, TextPieces(tokenizer)).add(token)

        return text_of

    def guard(self, ask):
        texts = ["ю", "abc", "éé"]
        return any(a != b for a, b in zip(ask(texts), texts, strict=True))


class Second:
    """The rating is asked for by a named function."""

    cause = "D"

    def repair(self, add, prompt, is_rated):
        def rate():
            return add(prompt, max_new_tokens=1, prompt_logprobs=0)

        return (add(prompt), rate) if is_rated else (add(prompt), None)

    def guard(self, log):
        keys = [row["key"] for row in log]
        later = [row for at, row in enumerate(log) if row["key"] in keys[:at]]
        return bool(later) and 4 * sum(not row["found"] for row in later) >= len(later)


class Third:
    """Counts lines: unlike the solution in the notebook."""

    cause = "C"

    def repair(self, events):
        lines, last = {}, {}
        for step, what, user, _ in events:
            if what == "arrives":
                lines[user] = lines.get(user, 0) + 1
            if what == "departs":
                lines[user] -= 1
                last[user] = step
        return {user: last[user] for user, count in lines.items() if not count}

    def guard(self, log):
        lines = {}
        for _, what, user, _ in log:
            if what == "aborted" and lines[user]:
                return True
            change = {"arrives": 1, "departs": -1}.get(what, 0)
            lines[user] = lines.get(user, 0) + change
        return False


# --- what is wrong --------------------------------------------------------------------


async def merged(streams):
    """All tokens as they come; nobody is aborted."""
    sent = [0 for _ in streams]
    while any(
        not s.finished or n < s.num_tokens for n, s in zip(sent, streams, strict=True)
    ):
        for number, stream in enumerate(streams):
            if sent[number] < stream.num_tokens:
                yield number, stream.tokens[sent[number]]
                sent[number] += 1
        await asyncio.sleep(0)


async def never_waits(streams):
    """Looks again and again, and lets nobody else run."""
    sent = [0, 0]
    try:
        while any(
            not s.finished or n < s.num_tokens
            for n, s in zip(sent, streams, strict=True)
        ):
            for number, stream in enumerate(streams):
                if sent[number] < stream.num_tokens:
                    yield number, stream.tokens[sent[number]]
                    sent[number] += 1
    finally:
        for stream in streams:
            stream.abort()


async def never_aborts(streams):
    async for pair in merged(streams):
        yield pair


async def one_after_the_other(streams):
    try:
        for number, stream in enumerate(streams):
            async for token in stream:
                yield number, token
    finally:
        for stream in streams:
            stream.abort()


async def each_by_itself(streams):
    for number, stream in enumerate(streams):
        try:
            async for token in stream:
                yield number, token
        finally:
            stream.abort()


async def aborts_the_first_only(streams):
    try:
        async for pair in merged(streams):
            yield pair
    finally:
        streams[0].abort()


async def aborts_only_at_the_end(streams):
    async for pair in merged(streams):
        yield pair
    for stream in streams:
        stream.abort()


async def waits_first(streams):
    try:
        async for pair in merged(streams):
            yield pair
    finally:
        for stream in streams:
            await asyncio.sleep(0)
            stream.abort()


def only_if(*kinds):
    async def answer(streams):
        try:
            async for pair in merged(streams):
                yield pair
        except kinds:
            for stream in streams:
                stream.abort()
            raise

    return answer


async def says_the_first_only(streams):
    try:
        async for pair in merged(streams):
            yield pair
            return
    finally:
        for stream in streams:
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


def a_new_one_each_time(self, tokenizer):
    return lambda answer, token: TextPieces(tokenizer).add(token)


def shared_again(self, tokenizer):
    return incidents.make_texts(tokenizer)


def eight_for_all(self, tokenizer):
    pieces = [TextPieces(tokenizer) for _ in range(8)]
    return lambda answer, token: pieces[answer % 8].add(token)


def deletes_what_is_unknown(self, tokenizer):
    text_of = First().repair(tokenizer)
    return lambda answer, token: text_of(answer, token).replace("\ufffd", "")


def a_text(self, tokenizer):
    return "Tea"


def says_nothing(self, tokenizer):
    return lambda answer, token: None


def answers_only(self, add, prompt, is_rated):
    return add(prompt)


def returns_nothing(self, add, prompt, is_rated):
    add(prompt)


def rates_and_forgets(self, add, prompt, is_rated):
    def rate():
        add(prompt, max_new_tokens=1, prompt_logprobs=0)

    return add(prompt), rate if is_rated else None


def rates_nobody(self, add, prompt, is_rated):
    return add(prompt), None


def rates_at_once(self, add, prompt, is_rated):
    rating = add(prompt, max_new_tokens=1, prompt_logprobs=0) if is_rated else None
    return add(prompt), rating


def rates_behind(self, add, prompt, is_rated):
    answer = add(prompt)
    rating = add(prompt, max_new_tokens=1, prompt_logprobs=0) if is_rated else None
    return answer, rating


def rates_the_question(self, add, prompt, is_rated):
    rate = Second().repair(add, prompt[-8:], is_rated)[1]
    return add(prompt), rate


def says_less(self, add, prompt, is_rated):
    _, rate = Second().repair(add, prompt, is_rated)
    return add(prompt, max_new_tokens=2), rate


def rates_everybody(self, add, prompt, is_rated):
    return Second().repair(add, prompt, True)


def says_all_twice(self, add, prompt, is_rated):
    add(prompt)
    return Second().repair(add, prompt, is_rated)


def rates_by_the_answer(self, add, prompt, is_rated):
    answer = add(prompt)
    return answer, answer if is_rated else None


def knows_first_chats_by_number(self, log):
    firsts = {}
    for row in log:
        firsts.setdefault(row["key"], row["chat"])
    later = [row for row in log if row["chat"] != firsts[row["key"]]]
    return bool(later) and 4 * sum(not row["found"] for row in later) >= len(later)


def empty_found(self, log):
    return bool(log) and 4 * sum(not row["found"] for row in log) >= len(log)


def rate_of_hits(self, log):
    found = [row for row in log if row["found"]]
    asked = sum(row["prompt"] for row in found)
    return bool(found) and sum(row["found"] for row in found) < asked / 2


def last_arrival_counts(self, events):
    lines, gone = {}, {}
    for step, what, user, connection in events:
        if what == "arrives":
            lines[user] = connection
            gone.pop(user, None)
        if what == "departs" and lines[user] == connection:
            gone[user] = step
    return gone


def the_first_departure(self, events):
    gone = Third().repair(events)
    firsts = {}
    for step, what, user, _ in events:
        if what == "departs":
            firsts.setdefault(user, step)
    return {user: firsts[user] for user in gone}


def without_those_who_have_all(self, events):
    ended = {user for _, what, user, _ in events if what in ("finished", "aborted")}
    gone = Third().repair(events)
    return {user: step for user, step in gone.items() if user not in ended}


def an_abort_is_a_departure(self, events):
    gone = Third().repair(events)
    aborted = {user: step for step, what, user, _ in events if what == "aborted"}
    return {user: max(step, aborted.get(user, 0)) for user, step in gone.items()}


def judges(which):
    """A guard that looks at one abort only: 0, the first; -1, the last."""

    def guard(self, log):
        ends = [at for at, (_, what, *_) in enumerate(log) if what == "aborted"]
        return bool(ends) and Third().guard(
            [
                event
                for at, event in enumerate(log)
                if at not in ends or at == ends[which]
            ]
        )

    return guard


def with_preemptions(self, log):
    """Takes what has no line for an abort."""
    aborted = [e._replace(what="aborted") if e[3] < 0 else e for e in log]
    return Third.guard(self, aborted)


def by_steps(is_before):
    """A guard that compares steps, and does not see the order within one."""

    def guard(self, log):
        for end, what, user, _ in log:
            if what == "aborted":
                found = {"arrives": set(), "departs": set()}
                for step, done, who, line in log:
                    if who == user and done in found and is_before(step, end):
                        found[done].add(line)
                if found["arrives"] - found["departs"]:
                    return True
        return False

    return guard


def the_newest_line_counts(self, log):
    newest = {}
    for _, what, user, line in log:
        if what == "arrives":
            newest[user] = line
        elif what == "departs" and newest.get(user) == line:
            del newest[user]
        elif what == "aborted" and user in newest:
            return True
    return False


def departures_first(self, log):
    return Third().guard(sorted(log, key=lambda one: (one[0], one[1] != "departs")))


FAULTS = {
    "answering": [
        (never_waits, "never gives control back"),
        (never_aborts, "for nobody"),
        (one_after_the_other, "wait for stream 0"),
        (each_by_itself, "wait for stream 0"),
        (aborts_the_first_only, "stream 1 goes on"),
        (aborts_only_at_the_end, "breaks out"),
        (waits_first, "disconnected"),
        (only_if(asyncio.CancelledError), "breaks out"),
        (only_if(GeneratorExit), "goes on"),
        (only_if(GeneratorExit, asyncio.CancelledError), "raises RuntimeError"),
        (says_the_first_only, "1 came"),
    ],
    "cut": [
        (looks_at_pieces, "is certain"),
        (holds_all, "is certain"),
        (forgets_the_rest, "certain"),
        (keeps_the_stop, "certain"),
    ],
    "incident_1": [
        (with_(First, cause="A"), "tokens of the log"),
        (with_(First, cause="B"), "another user's"),
        (with_(First, cause="C"), "Ask alone"),
        (with_(First, cause="the text"), "none of A, B, C, D"),
        (with_(First, repair=lambda self, tokenizer: None), "None, expected from"),
        (with_(First, repair=a_text), "'Tea', expected from `repair` a function"),
        (with_(First, repair=says_nothing), "None, expected a text from the function"),
        (with_(First, repair=a_new_one_each_time), "receives"),
        (with_(First, repair=shared_again), "receives"),
        (with_(First, repair=eight_for_all), "of 300 users"),
        (with_(First, repair=deletes_what_is_unknown), "receives"),
        (
            with_(First, guard=lambda self, ask: ask(["a", "b"]) != ["a", "b"]),
            "the server of this morning",
        ),
        (with_(First, guard=lambda self, ask: True), "silence"),
    ],
    "incident_2": [
        (with_(Second, cause="A"), "num_blocks=96"),
        (with_(Second, cause="B"), "num_keys=1"),
        (with_(Second, cause="C"), "together=1"),
        (with_(Second, cause=" e "), "says_date=False"),
        (with_(Second, repair=lambda self, *asked: desk.hand_in(*asked)), "are found"),
        (with_(Second, repair=answers_only), "expected from `repair` two things"),
        (with_(Second, repair=returns_nothing), "None, expected from `repair` two"),
        (with_(Second, repair=rates_and_forgets), "None, expected a stream"),
        (with_(Second, repair=rates_nobody), "rating of chat 0 is None"),
        (with_(Second, repair=rates_at_once), "rating of another one"),
        (with_(Second, repair=rates_behind), "rating of another one"),
        (with_(Second, repair=rates_the_question), "rating of chat 0"),
        (with_(Second, repair=says_less), "has another answer"),
        (with_(Second, repair=rates_everybody), "chat 1 is -"),
        (with_(Second, repair=says_all_twice), "60 requests; 36 are enough"),
        (with_(Second, repair=rates_by_the_answer), "no logprobs"),
        (with_(Second, guard=lambda self, log: False), "an alarm"),
        (with_(Second, guard=empty_found), "silence"),
        (with_(Second, guard=rate_of_hits), "an alarm"),
    ],
    "incident_3": [
        (with_(Third, cause="a"), "num_blocks=64"),
        (with_(Third, cause="B"), "How long was Ben away"),
        (with_(Third, cause="D"), "patience=100"),
        (with_(Third, cause="E"), "may_end_early=False"),
        (
            with_(Third, repair=lambda self, events: tunnels.gone_since(events)),
            "Gone are",
        ),
        (with_(Third, repair=last_arrival_counts), "Gone are"),
        (with_(Third, repair=the_first_departure), "Gone are"),
        (with_(Third, repair=lambda self, events: {}), "Gone are"),
        (with_(Third, repair=lambda self, events: []), "expected a dict"),
        (with_(Third, repair=without_those_who_have_all), "Gone are"),
        (with_(Third, repair=an_abort_is_a_departure), "Gone are"),
        (
            with_(Third, guard=lambda self, log: any(e[1] == "aborted" for e in log)),
            "silence",
        ),
        (with_(Third, guard=lambda self, log: False), "an alarm"),
        (with_(Third, guard=with_preemptions), "is preempted"),
        (with_(Third, guard=judges(-1)), "wrongly, and then C rightly"),
        (with_(Third, guard=judges(0)), "rightly, and then B wrongly"),
        (with_(Third, guard=the_newest_line_counts), "the newer one ends"),
        (with_(Third, guard=departures_first), "then leaves in the same step"),
        (with_(Third, guard=by_steps(int.__le__)), "comes back in the same step"),
        (
            with_(Third, guard=by_steps(int.__lt__)),
            "is then aborted in the same step",
        ),
    ],
}

ALSO_RIGHT = [
    ("incident_1", with_(First, cause=" d ")),
    ("incident_2", with_(Second, guard=knows_first_chats_by_number)),
    ("incident_3", with_(Third, cause="c")),
]
