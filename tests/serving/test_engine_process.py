"""The engine in a process of its own: the same answers, and nobody is left behind."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import httpx
import psutil
import pytest

from helpers.http_serving import FRANCE, huggingface_texts, make_engine, wait_until
from minipaged.serving.hosts import EngineInProcess
from serving.test_leaving import LONG, is_healthy, raw
from serving.test_metrics import figures, of


class Command:
    """`minipaged serve`, as a process. Attributes: process, engine, url, port."""

    def __init__(self, port, process):
        self.port, self.process = port, process
        self.url = f"http://127.0.0.1:{port}"
        wait_until(lambda: is_healthy(self.url), 120)
        (self.engine,) = [
            child
            for child in psutil.Process(process.pid).children()
            if "spawn_main" in " ".join(child.cmdline())
        ]

    def complete(self, **fields):
        body = {"prompt": FRANCE, "temperature": 0, "ignore_eos": True, **fields}
        return httpx.post(self.url + "/v1/completions", json=body, timeout=60)

    def ended(self):
        """The front's exit status and last words, when both processes have ended."""
        _, said = self.process.communicate(timeout=60)
        self.engine.wait(60)
        return self.process.returncode, said


@contextmanager
def command(*flags):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "minipaged.serving", "pocket", "--port", str(port)]
    process = subprocess.Popen(
        [*words, *flags], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield Command(port, process)
    finally:
        if process.poll() is None:  # a test has failed
            for one in [*psutil.Process(process.pid).children(), process]:
                one.kill()
        process.wait()
        process.stderr.close()


def test_answers_are_generates_and_whoever_leaves_gives_blocks_back():
    right = huggingface_texts(FRANCE, max_new_tokens=40, eos_token_id=1024)[0]
    with command("--num-blocks", "300") as server:
        asked = server.complete(max_tokens=40)
        assert asked.json()["choices"][0]["text"] == right
        streamed = server.complete(max_tokens=40, stream=True, stop=["\n\n"]).text
        texts = [
            json.loads(line[6:])["choices"][0]["text"]
            for line in streamed.split("\n\n")
            if line.startswith("data: {")
        ]
        assert "".join(texts) == right.partition("\n\n")[0]
        beams = server.complete(use_beam_search=True, n=2, best_of=3, max_tokens=9)
        theirs = huggingface_texts(
            FRANCE, num_beams=3, num_return_sequences=2, max_new_tokens=9,
            eos_token_id=1024,
        )  # fmt: skip
        assert [one["text"] for one in beams.json()["choices"]] == theirs
        assert server.complete(logprobs=2, max_tokens=3).json()["choices"][0][
            "logprobs"
        ]
        assert server.complete(max_tokens=-1).status_code == 400
        body = {"prompt": FRANCE, "stream": True, **LONG}
        leaving = raw(server.port, "/v1/completions", body)
        wait_until(lambda: of(figures(server), "num_requests_running") == 1)
        leaving.close()
        wait_until(lambda: of(figures(server), "num_requests_running") == 0)
        assert of(figures(server), "kv_cache_usage_perc") == 0
        with httpx.stream("GET", server.url + "/pool/events", timeout=30) as events:
            first = json.loads(next(events.iter_lines())[6:])
        assert first["used"] == 0 and first["generation_tokens"] > 80


def test_if_the_engine_is_killed_the_front_says_so_and_ends():
    with command() as server:
        body = {"prompt": FRANCE, "stream": True, **LONG}
        with httpx.stream("POST", server.url + "/v1/completions", json=body) as answer:
            lines = answer.iter_lines()
            next(lines)
            server.engine.kill()
            *_, event, _done = [line for line in lines if line]
        assert json.loads(event[6:])["error"]["code"] == 500
        assert "engine has ended" in event
        status, said = server.ended()
        assert status == 1 and "the engine has ended" in said


def test_if_the_front_is_killed_the_engine_ends():
    with command() as server:
        asking = raw(server.port, "/v1/completions", {"prompt": FRANCE, **LONG})
        wait_until(lambda: of(figures(server), "num_requests_running") == 1)
        server.process.kill()
        server.ended()
        asking.close()


def test_a_signal_for_both_processes_lets_answers_be_completed():
    """As Ctrl-C in a terminal."""
    with command() as server:
        body = {"prompt": FRANCE, "stream": True, "ignore_eos": True, "max_tokens": 200}
        with httpx.stream("POST", server.url + "/v1/completions", json=body) as answer:
            lines = answer.iter_lines()
            next(lines)
            os.killpg(server.process.pid, signal.SIGINT)
            *_, event, done = [line for line in lines if line]
        assert '"finish_reason":"length"' in event and done == "data: [DONE]"
        status, said = server.ended()
        assert status == 0 and "Traceback" not in said


def no_engine(words):
    if words is None:
        os._exit(3)
    raise MemoryError(words)


@pytest.mark.parametrize(
    ("words", "told"), [("buy some memory", "buy some memory"), (None, "see above")]
)
def test_an_engine_that_cannot_be_made_is_told_in_words(words, told):
    host = EngineInProcess(no_engine, words)
    with pytest.raises(ValueError, match=told):
        _ = host.about
    host.stop()


def test_a_process_that_still_loads_can_be_stopped():
    host = EngineInProcess(make_engine, 160)
    host.stop()
    assert not psutil.pid_exists(host.pid)
