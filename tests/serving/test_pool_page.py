"""/pool: what it tells is the engine's own state, step by step, and only if watched."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import httpx
import pytest
from transformers import GenerationConfig

import minipaged as mp
from helpers.apart import run_in_a_thread
from helpers.http_serving import FRANCE, make_engine, pocket, served, wait_until
from minipaged.serving.pool_page import MOST
from minipaged.serving.pool_states import KEPT, TOTALS, PoolStates
from minipaged.serving.pool_watch import PoolWatch
from serving.test_leaving import LONG, Steps, is_healthy, raw
from serving.test_limits import bearer


def decoded(messages):
    """The tables of each message, as a page puts them together."""
    tables, found = {}, []
    for message in messages:
        now = {}
        for request, number, *_, num_tokens, kept, new in message["tables"]:
            _, ids = tables.get((request, number), (0, []))
            now[request, number] = num_tokens, ids[:kept] + new
        found.append(now)
        tables = now
    return found


class Truth(mp.Observer):
    """Notes each step's tables and figures by itself."""

    def __init__(self):
        self.steps = []
        self.engine = None

    def committed(self, plan):
        scheduler, stats = self.engine.scheduler, self.engine.stats
        tables = {
            (request.number, number): (one.table.num_tokens, [*one.table.block_ids])
            for request in scheduler.running
            for number, one in enumerate(request.sequences)
            if one.table
        }
        totals = [getattr(stats, name) for name in TOTALS]
        figures = stats.history[-1].used_blocks, stats.history[-1].cached_blocks
        self.steps.append((totals, figures, tables, len(scheduler.waiting)))


def watch_of(engine):
    """Its watch, without a server."""
    states = PoolStates(engine)

    async def take():
        return states.take()

    return PoolWatch(take, states.forget)


def watched(engine):
    """Its watch, with somebody watching in a thread, whose messages are in a list."""
    watch, messages, has_ended = watch_of(engine), [], threading.Event()
    watch.is_over = has_ended.is_set

    async def follow():
        async for message in watch.messages():
            messages.append(json.loads(message))

    thread = threading.Thread(target=lambda: asyncio.run(follow()))
    thread.start()
    wait_until(lambda: messages)
    return watch, messages, lambda: (has_ended.set(), thread.join())


def history_of(watch):
    return json.loads(run_in_a_thread(watch.history))


def test_every_step_is_the_engine_s_own():
    """Forks and copies, preemptions, a queue, shared prefixes: all of it is told."""
    truth = Truth()
    engine = make_engine(20, max_sequences=4, observers=[truth])
    truth.engine = engine
    watch, messages, leave = watched(engine)
    story = pocket()[1]("The penguin has a hat. " * 5).input_ids
    for config in (
        GenerationConfig(max_new_tokens=40, eos_token_id=1024, num_beams=3),
        GenerationConfig(max_new_tokens=90, eos_token_id=1024),
    ):
        for number in range(4):
            engine.add([*story, number], config)
    engine.run()
    wait_until(lambda: messages[-1]["num_steps"] == engine.stats.num_steps)
    said = history_of(watch)
    leave()
    # Between steps, a state may be told, too: as the one before, or of who has come.
    by_step = {}
    for message, tables in zip(said, decoded(said), strict=True):
        by_step.setdefault(message["num_steps"], (message, tables))
    assert len(by_step) > min(len(truth.steps), 100)
    for totals, figures, tables, num_waiting in truth.steps:
        if totals[0] in by_step:
            message, found = by_step[totals[0]]
            assert [message[name] for name in TOTALS] == totals
            assert (message["used"], message["cached"]) == figures
            assert found == tables
            assert len(message["waiting"]) == num_waiting
    stats = engine.stats
    assert stats.num_preemptions and stats.prefix_cache_hits
    assert stats.num_copied_blocks
    assert not messages[-1]["tables"]


def test_of_a_table_that_was_told_only_new_blocks_are_told():
    engine = make_engine(24)
    _, messages, leave = watched(engine)
    config = GenerationConfig(max_new_tokens=40, eos_token_id=1024)
    stream = engine.add([5] * 10, config)
    for num_tokens, kept, num_new in ((10, 0, 1), (11, 1, 0), (17, 1, 1)):
        while stream.request.sequences[0].num_computed < num_tokens:
            engine.step()
        wait_until(lambda n=num_tokens: [t[4] for t in messages[-1]["tables"]] == [n])
        (table,) = messages[-1]["tables"]
        assert table[2:4] == [10, 0] and table[5] == kept and len(table[6]) == num_new
    leave()
    engine.close()


def test_nothing_is_kept_unless_somebody_watches():
    engine = make_engine()
    watch = watch_of(engine)
    engine.add(pocket()[1](FRANCE).input_ids)
    engine.run()
    assert history_of(watch) == []
    watch, _, leave = watched(engine)
    assert len(history_of(watch)) == 1
    leave()
    assert history_of(watch) == []


def test_the_last_states_are_kept_and_no_more():
    engine = make_engine(600)
    watch, messages, leave = watched(engine)
    config = GenerationConfig(max_new_tokens=KEPT + 50, eos_token_id=1024)
    engine.add([5] * 4, config)
    engine.run()
    wait_until(lambda: messages[-1]["num_steps"] == engine.stats.num_steps)
    steps = [state["num_steps"] for state in history_of(watch)]
    leave()
    assert len(steps) == KEPT and steps[-1] == engine.stats.num_steps


def first_event(server, **options):
    with httpx.stream("GET", server.url + "/pool/events", timeout=30, **options) as one:
        assert one.status_code == 200, one.read()
        for line in one.iter_lines():
            if line:
                return json.loads(line.removeprefix("data: "))


def test_whoever_leaves_between_steps_is_seen_leaving():
    engine = make_engine(600, observers=[Steps()])
    with (
        served(engine) as server,
        httpx.stream("GET", server.url + "/pool/events", timeout=30) as events,
    ):
        lines = (json.loads(line[6:]) for line in events.iter_lines() if line)
        assert next(lines)["used"] == 0
        asked = raw(server.port, "/v1/completions", {"prompt": FRANCE, **LONG})
        assert next(lines)["used"] > 0
        asked.close()
        assert next(state for state in lines if not state["tables"])["used"] == 0


def test_a_server_ends_though_somebody_watches():
    with served() as server:
        watching = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        watching.sendall(b"GET /pool/events HTTP/1.1\r\nHost: me\r\n\r\n")
        time.sleep(0.3)
        assert b"data: {" in watching.recv(5000)
        start = time.monotonic()
    assert time.monotonic() - start < 5
    watching.close()


def test_the_command_ends_though_somebody_watches():
    """A real process: SIGTERM is not held up by a page that stays open."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "minipaged.serving", "pocket", "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: is_healthy(url), 90)
        with httpx.stream("GET", url + "/pool/events", timeout=30) as events:
            lines = events.iter_lines()
            assert json.loads(next(lines)[6:])["used"] == 0
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.wait()


def test_with_keys_the_page_is_empty_and_the_rest_is_locked():
    with served(api_keys=("one",)) as server:
        page = httpx.get(server.url + "/pool")
        assert page.status_code == 200 and 'data-key="yes"' in page.text
        for path in ("/pool/events", "/pool/steps"):
            assert httpx.get(server.url + path).status_code == 401
        assert first_event(server, **bearer("one"))["used"] == 0
        steps = httpx.get(server.url + "/pool/steps", **bearer("one"))
        assert steps.status_code == 200


def test_a_few_may_watch_at_one_time():
    kept = []  # an iterator that is dropped closes its connection
    with served() as server, ExitStack() as stack:

        def watch():
            url = server.url + "/pool/events"
            answer = stack.enter_context(httpx.stream("GET", url, timeout=30))
            if answer.status_code == 200:
                kept.append(answer.iter_raw())
                next(kept[-1])
            return answer.status_code

        assert [watch() for _ in range(MOST + 1)] == [200] * MOST + [429]


def test_the_page_can_be_left_out():
    with served(pool_page=False) as server:
        for path in ("/pool", "/pool/events", "/pool/steps"):
            assert httpx.get(server.url + path).status_code == 404


@pytest.mark.parametrize("name", ["pocket", "<script>alert(1)</script>"])
def test_the_page_names_the_model(name):
    with served(names=(name,)) as server:
        page = httpx.get(server.url + "/pool").text
        assert "<script>alert" not in page and "Block pool" in page
