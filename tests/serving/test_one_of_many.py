"""One user's poison is that user's alone."""

import threading

import httpx
import torch

import minipaged as mp
from helpers.http_serving import (
    FRANCE,
    huggingface_texts,
    make_engine,
    served,
    wait_until,
)
from serving.test_leaving import LONG, Steps


class Poison(mp.Observer):
    """Logits of a request whose prompt is poison are no numbers."""

    def __init__(self, token):
        self.token = token
        self.plan = None

    def planned(self, plan):
        self.plan = plan

    def computed(self, batch, logits):
        start = 0
        for work in self.plan.works:
            stop = start + work.num_logits
            if (
                work.request.prompt[0] == self.token
                and work.request.answers[0].num_new > 2
            ):
                with torch.inference_mode():
                    logits[start:stop] = torch.nan
            start = stop


def test_a_request_for_which_nothing_can_be_drawn_fails_alone():
    good = huggingface_texts(FRANCE, max_new_tokens=16)[0]
    with served(make_engine(observers=[Poison(9), Steps()])) as server:
        fields = {"prompt": [9, 20, 30], "max_tokens": 50, "ignore_eos": True}
        found = []
        threads = [
            threading.Thread(
                target=lambda: found.append(server.complete(temperature=0))
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        status, error = server.error("/v1/completions", fields)
        assert status == 400 and "no token can be drawn" in error["message"]
        *parts, last = server.events("/v1/completions", **fields)
        assert len(parts) >= 1 and "no token can be drawn" in last["error"]["message"]
        for thread in threads:
            thread.join(60)
        assert [one["choices"][0]["text"] for one in found] == [good] * 4
        server.wait_idle()


class Fails(mp.Observer):
    """A step raises, once."""

    armed = False

    def planned(self, plan):
        if self.armed:
            self.armed = False
            raise RuntimeError("a secret of the server")


def test_a_step_that_raises_is_told_to_one_and_the_server_goes_on():
    fails = Fails()
    engine = make_engine(observers=[fails])
    good = huggingface_texts(FRANCE, max_new_tokens=16)[0]
    with served(engine) as server:
        fails.armed = True
        status, error = server.error("/v1/completions", {"prompt": FRANCE})
        assert status == 500 and error["type"] == "InternalServerError"
        assert "secret" not in error["message"]
        assert server.complete(temperature=0)["choices"][0]["text"] == good
        assert httpx.get(server.url + "/health").status_code == 200
        fails.armed = True  # before a stream has begun, and in its middle
        # If the front has heard already that it was accepted, an event tells.
        answer = server.post("/v1/completions", {"prompt": FRANCE, "stream": True})
        assert answer.status_code == 500 or '"code":500' in answer.text
        body = {"prompt": FRANCE, "stream": True, **LONG}
        with httpx.stream("POST", server.url + "/v1/completions", json=body) as answer:
            lines = answer.iter_lines()
            next(lines)
            fails.armed = True
            *_, event, _done = [line for line in lines if line]
        assert '"code":500' in event
        # Samples that wait for the first one's prompt are not forgotten.
        for stream in (False, True):
            fails.armed = True
            body = {"prompt": FRANCE, "n": 3, "stream": stream}
            answer = server.post("/v1/completions", body)
            assert "InternalServerError" in answer.text
        server.wait_idle()


def test_the_event_loop_answers_while_a_long_text_is_read(monkeypatch):
    """/health comes at once, though a tokenizer is busy."""
    with served() as server:
        text = "The penguin and the fox. " * 20_000
        gone = threading.Thread(
            target=lambda: server.post("/v1/completions", {"prompt": text})
        )
        gone.start()
        wait_until(lambda: httpx.get(server.url + "/health").status_code == 200)
        slowest = 0.0
        while gone.is_alive():
            answer = httpx.get(server.url + "/health")
            slowest = max(slowest, answer.elapsed.total_seconds())
        gone.join()
        assert slowest < 5


def test_beside_preemptions_all_answers_are_right():
    """A pool for two at a time, and eight who want much."""
    fields = {"temperature": 0, "ignore_eos": True, "max_tokens": 60}
    right = huggingface_texts(FRANCE, max_new_tokens=60, eos_token_id=1024)[0]
    engine = make_engine(10, cache=False)
    with served(engine, max_model_len=160) as server:
        found = []
        threads = [
            threading.Thread(target=lambda: found.append(server.complete(**fields)))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert [one["choices"][0]["text"] for one in found] == [right] * 8
        assert engine.stats.num_preemptions > 0
    assert LONG
