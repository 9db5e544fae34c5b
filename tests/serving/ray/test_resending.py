"""The front's side alone: replicas that die are made up, and Ray starts nothing."""

import asyncio

from transformers import GenerationConfig

from helpers.apart import run_in_a_thread
from helpers.live_replicas import needs_ray
from minipaged.decoding.strategy import Output
from minipaged.serving.errors import ApiError
from minipaged.serving.link import Link
from minipaged.serving.messages import About, Begun
from minipaged.serving.metrics import Metrics
from minipaged.serving.ray.parts import Part

pytestmark = needs_ray
ABOUT = About(GenerationConfig(), 100, 100, 100, 4, 8, True)
GREEDY = {"generation_config": GenerationConfig(do_sample=False), "seed": None}
DRAWN = {"generation_config": GenerationConfig(do_sample=True), "seed": None}
ANSWER = [7, 8, 9, 10]
DIES = object()


class Call:
    """What a replica tells: parts, and perhaps its death."""

    def __init__(self, handle, script):
        self._handle, self._script = handle, script

    async def __aiter__(self):
        from ray.exceptions import ActorDiedError

        for part in self._script:
            await asyncio.sleep(0.01)
            if part is DIES:
                raise ActorDiedError()
            yield part

    def cancel(self):
        self._handle.num_left += 1


class Handle:
    """Of a deployment whose replicas answer by these scripts, one after the other."""

    def __init__(self, *scripts):
        self._scripts, self.serve = iter(scripts), self
        self.chains, self.num_left = [], 0

    def options(self, **_options):
        return self

    def remote(self, chain, add):
        self.chains.append(chain)
        return Call(self, next(self._scripts))


def script(tokens, end="length"):
    """An answer, two tokens a step; without an end, the replica dies."""
    parts = [Part(accepted=True)]
    for at in range(0, len(tokens), 2):
        begun = None if at else Begun(0.0, 0, None)
        parts.append(Part(begun=begun, tokens=tokens[at : at + 2]))
    return [*parts, Part(ended=Output([tokens], end)) if end else DIES]


def ask(*scripts, is_streamed=True, arguments=GREEDY, leaves=0):
    """What the front hears: tokens and the Output; the error; and the handle.

    leaves: 1, at once; 2, with two tokens.
    """
    from minipaged.serving.ray.replicas import Replicas

    handle = Handle(*scripts)

    async def run():
        link = Link(Replicas(handle, ABOUT), Metrics("made up"))
        await link.open()
        reply = link.add([1] * 9, is_streamed=is_streamed, cache_salt=b"", **arguments)
        if leaves:
            if leaves > 1:
                await reply.news(0, leaves)
            reply.abort()
        try:
            async with asyncio.timeout(5):
                output = await reply.result()
        except ApiError as error:
            output = error
        assert not link.replies
        await asyncio.sleep(0.1)  # what comes later must not matter
        await link.close()
        return reply.tokens, output

    return *run_in_a_thread(run), handle


def test_the_client_notices_nothing_of_a_death():
    tokens, output, handle = ask(script(ANSWER[:2], None), script(ANSWER))
    assert tokens == ANSWER and output.finish_reason == "length"
    assert len(handle.chains) == 2 and len(handle.chains[0]) == 2  # blocks of 4


def test_a_request_is_not_sent_again_and_again():
    dies = script([], None)
    _, error, handle = ask(dies, dies, dies, script(ANSWER))
    assert error.status == 503 and len(handle.chains) == 3


def test_a_begun_stream_that_is_drawn_freely_ends_with_an_error():
    tokens, error, handle = ask(
        script(ANSWER[:2], None), script(ANSWER), arguments=DRAWN
    )
    assert tokens == ANSWER[:2] and "the replica has ended" in error.message
    assert error.status == 503 and len(handle.chains) == 1


def test_it_is_answered_anew_if_nobody_has_seen_it():
    drawn = [20, 21, 22]
    tokens, output, _ = ask(
        script(ANSWER[:2], None), script(drawn), arguments=DRAWN, is_streamed=False
    )
    assert tokens == drawn and output.sequences == [drawn]


def test_another_answer_is_an_error():
    tokens, error, _ = ask(script(ANSWER[:2], None), script([7, 9, 9]))
    assert tokens == ANSWER[:2] and "another answer" in error.message


def test_a_client_who_leaves_at_once_is_told_and_forgotten():
    tokens, output, handle = ask(script(ANSWER), leaves=True)
    assert tokens == [] and output.finish_reason == "aborted" and not handle.chains


def test_a_client_who_leaves_later_makes_the_replica_stop():
    tokens, output, handle = ask(script(ANSWER), leaves=2)
    assert tokens == ANSWER[:2] and output.finish_reason == "aborted"
    assert handle.num_left == 1


def test_who_has_the_whole_answer_does_not_care_for_a_death():
    tokens, output, handle = ask([*script(ANSWER), DIES])
    assert tokens == ANSWER and output.finish_reason == "length"
    assert len(handle.chains) == 1 and not handle.num_left
