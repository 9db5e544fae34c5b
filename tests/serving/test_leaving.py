"""Who leaves, streaming or not, gives blocks back within two steps."""

import json
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest

import minipaged as mp
from helpers.http_serving import FRANCE, make_engine, served, wait_until
from minipaged.serving.limits import Limits

LONG = {"ignore_eos": True, "max_tokens": 1500, "temperature": 0}


class Steps(mp.Observer):
    """Counts steps, each of which takes some milliseconds."""

    def __init__(self, seconds=0.003):
        self.number, self.seconds = 0, seconds

    def committed(self, plan):
        self.number += 1
        time.sleep(self.seconds)


def raw(port, path, body, length=None):
    """A connection over which a request was sent."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    length = len(data) if length is None else length
    head = (
        f"POST {path} HTTP/1.1\r\nHost: me\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.sendall(head.encode() + data)
    return connection


KINDS = [
    {"stream": True},
    {"stream": False},
    {"stream": True, "n": 3},
    {"stream": False, "n": 3, "temperature": 1.0},
    {"use_beam_search": True, "n": 2},
    {"stream": True, "stop": ["\n\n\n"]},
    {"stream": False, "stop": ["\n\n\n"]},
]


@pytest.mark.parametrize("fields", KINDS)
def test_whoever_leaves_frees_the_blocks_within_two_steps(fields):
    steps = Steps(0.04)  # so long that the loop hears of it in the same step
    engine = make_engine(600, cache=True, observers=[steps])
    with served(engine) as server:
        connection = raw(
            server.port, "/v1/completions", {"prompt": FRANCE, **LONG, **fields}
        )
        count = fields.get("n", 1) if "use_beam_search" not in fields else 1
        wait_until(lambda: len(engine.streams) == count and steps.number > 8)
        streams = list(engine.streams.values())
        connection.close()
        before = steps.number
        wait_until(lambda: not engine.streams)
        assert steps.number - before <= 2
        assert {stream.output.finish_reason for stream in streams} == {"aborted"}
        server.wait_idle()


def test_whoever_leaves_while_waiting_is_forgotten():
    engine = make_engine(600, max_sequences=1, observers=[Steps()])
    with served(engine) as server:
        fields = {"prompt": FRANCE, **LONG, "stream": True}
        running = raw(server.port, "/v1/completions", fields)
        wait_until(lambda: len(engine.streams) == 1)
        waiting = raw(server.port, "/v1/completions", fields)
        wait_until(lambda: len(engine.streams) == 2)
        waiting.close()
        wait_until(lambda: len(engine.streams) == 1)
        running.close()
        server.wait_idle()


def test_whoever_leaves_in_the_middle_of_a_body_disturbs_nobody():
    with served() as server:
        raw(server.port, "/v1/completions", b'{"prompt": "a', length=500).close()
        assert server.complete(max_tokens=2)["choices"]


def test_a_reader_that_stops_reading_holds_no_blocks():
    """Its answer is complete, and lies in the server until the connection ends."""
    with served(make_engine(600)) as server:
        fields = {"prompt": FRANCE, **LONG, "stream": True, "logprobs": 20}
        connection = raw(server.port, "/v1/completions", fields)
        server.wait_idle(60)
        connection.close()


def test_an_answer_that_takes_too_long_is_given_up():
    limits = Limits(request_seconds=0.3)
    with served(make_engine(600, observers=[Steps()]), limits=limits) as server:
        fields = {"prompt": FRANCE, **LONG}
        status, error = server.error("/v1/completions", fields)
        assert status == 504 and "0.3 seconds" in error["message"]
        *parts, last = server.events("/v1/completions", **fields)
        assert len(parts) > 3 and last["error"]["code"] == 504
        server.wait_idle()


def test_sigterm_lets_answers_be_completed(tmp_path):
    """A real process: what runs is completed, nobody new comes in, and it ends."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "minipaged.serving", "pocket", "--port", str(port)]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: is_healthy(url), 90)
        fields = {"prompt": FRANCE, "ignore_eos": True, "max_tokens": 300}
        with httpx.stream(
            "POST", url + "/v1/completions", json={**fields, "stream": True}, timeout=60
        ) as answer:
            lines = answer.iter_lines()
            next(lines)
            process.send_signal(signal.SIGTERM)
            wait_until(lambda: not is_healthy(url))
            rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]" and '"finish_reason":"length"' in rest[-2]
        assert process.wait(30) in (0, -signal.SIGTERM)
        assert "Finished server process" in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
        process.stdout.close()


def is_healthy(url):
    try:
        return httpx.get(url + "/health", timeout=5).status_code == 200
    except httpx.TransportError:
        return False
