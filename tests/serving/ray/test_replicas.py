"""Replicas on Ray Serve, live: `make test-ray` installs what they need.

Ray starts a dozen processes for each server, so there are three of them only.
"""

import json
import signal
import time
from pathlib import Path
from threading import Thread

import httpx
import psutil
import pytest

from helpers.http_serving import FRANCE, huggingface_texts
from helpers.live_replicas import live_replicas, needs_ray, under_fire
from minipaged.serving import ray as package

pytestmark = needs_ray
FABLE = "The fox and the penguin have a hat. " * 20
GREEDY = {"temperature": 0, "ignore_eos": True}
LONG = {"max_tokens": 1800, **GREEDY}


@pytest.fixture(scope="module")
def replicas():
    with live_replicas("--num-blocks", "512", keys=("a", "b")) as made:
        yield made


@pytest.fixture(scope="module")
def other_replicas():
    flags = "--router", "round-robin", "--engine-process", "--num-blocks", "512"
    with live_replicas(*flags) as made:
        yield made


def complete(replicas, prompt=FRANCE, key=None, **fields):
    answer = replicas.post("/v1/completions", {"prompt": prompt, **fields}, key)
    assert answer.status_code == 200, answer.text
    return answer.json()


def streamed(replicas, **body):
    """The text of a stream, and how many events it had."""
    text, count = "", 0
    with httpx.stream(
        "POST", replicas.url + "/v1/completions", timeout=120,
        json={"stream": True, **body}, headers=replicas.headers,
    ) as answer:  # fmt: skip
        for line in answer.iter_lines():
            if line == "data: [DONE]":
                return text, count
            if line:
                event = json.loads(line.removeprefix("data: "))
                assert "error" not in event, event
                text += event["choices"][0]["text"]
                count += 1
    raise AssertionError("the stream ended before its end")


def test_answers_are_huggingface_s(replicas):
    greedy = {"max_new_tokens": 12, "eos_token_id": 1024}
    fields = {"max_tokens": 12, "ignore_eos": True}
    found = complete(replicas, temperature=0, **fields)["choices"][0]["text"]
    assert [found] == huggingface_texts(FRANCE, do_sample=False, **greedy)
    samples = complete(replicas, n=3, seed=5, **fields)["choices"]
    for number, sample in enumerate(samples):
        right = huggingface_texts(FRANCE, 5 + number, do_sample=True, **greedy)
        assert [sample["text"]] == right
    beams = complete(replicas, n=2, best_of=3, use_beam_search=True, **fields)
    assert [beam["text"] for beam in beams["choices"]] == huggingface_texts(
        FRANCE, num_beams=3, num_return_sequences=2, **greedy
    )
    text, num_events = streamed(replicas, prompt=FRANCE, temperature=0, **fields)
    assert text == found and num_events > 1


def test_logprobs_and_errors_pass_through(replicas):
    (choice,) = complete(replicas, max_tokens=3, logprobs=2, **GREEDY)["choices"]
    assert len(choice["logprobs"]["token_logprobs"]) == 3
    asked = {"prompt": FRANCE, "temperature": -1}
    assert replicas.post("/v1/completions", asked).status_code == 400
    assert replicas.post("/v1/completions", asked, "no key").status_code == 401


def test_a_prefix_is_asked_of_who_holds_it_and_only_of_the_same_key(replicas):
    def cached(**options):
        usage = complete(replicas, FABLE, max_tokens=1, **options)["usage"]
        return usage["prompt_tokens_details"]["cached_tokens"]

    assert [cached() > 0 for _ in range(5)] == [False] + [True] * 4
    assert [cached(key="b") > 0 for _ in range(3)] == [False] + [True] * 2
    assert cached(cache_salt="mine") == 0


def test_in_turns_each_replica_must_compute_the_prefix(other_replicas):
    """The control: the router is not by chance the same replica's."""
    usages = [complete(other_replicas, FABLE, max_tokens=1)["usage"] for _ in range(4)]
    found = [usage["prompt_tokens_details"]["cached_tokens"] > 0 for usage in usages]
    assert found == [False, False, True, True]
    assert all(other_replicas.figures("prefix_cache_hits_total").values())


def test_each_replica_tells_its_figures(replicas):
    before = replicas.figures("generation_tokens_total")
    complete(replicas, max_tokens=7, ignore_eos=True)
    after = replicas.figures("generation_tokens_total")
    assert len(before) == 2 and before.keys() == after.keys()
    assert sorted(after[name] - before[name] for name in after) == [0, 7]


def test_whoever_leaves_is_aborted(replicas):
    with httpx.stream(
        "POST", replicas.url + "/v1/completions", timeout=60,
        json={"prompt": FRANCE, "stream": True, **LONG}, headers=replicas.headers,
    ) as answer:  # fmt: skip
        lines = answer.iter_lines()  # to be kept: without it, the answer is left
        next(lines)
        assert sum(replicas.figures("num_requests_running").values()) == 1
    start = time.monotonic()
    replicas.wait_idle(20)
    assert time.monotonic() - start < 3  # to its end it would take longer


def test_a_replica_without_its_engine_ends_and_another_one_takes_over(other_replicas):
    """The engine's process is killed; the stream goes on where it was."""
    found = {}

    def ask():
        found["text"], _ = streamed(
            other_replicas, prompt=FRANCE, max_tokens=600, **GREEDY
        )

    asking = Thread(target=ask)
    asking.start()
    deadline = time.monotonic() + 30
    while not sum(other_replicas.figures("num_requests_running").values()):
        assert time.monotonic() < deadline
    (busy,) = [
        engine
        for pid in other_replicas.pids()
        for engine in psutil.Process(pid).children(recursive=True)
        if "spawn_main" in " ".join(engine.cmdline())
        and engine.cpu_percent(0.3) > 20
    ]  # fmt: skip
    before = other_replicas.pids()
    busy.send_signal(signal.SIGKILL)
    asking.join(120)
    right = {"max_new_tokens": 600, "eos_token_id": 1024, "do_sample": False}
    assert [found["text"]] == huggingface_texts(FRANCE, **right)
    other_replicas.wait(2)
    assert len({*before} & {*other_replicas.pids()}) == 1


def test_no_request_is_lost_when_replicas_are_killed():
    fire = under_fire(kills=2, clients=6)
    assert fire.report["kills"] == 2 and fire.report["answers"] > 10
    assert not fire.report["wrong"] and not fire.errors


def test_the_config_of_a_cluster_is_one_of_serve():
    import yaml
    from ray.serve import Application
    from ray.serve.schema import ServeDeploySchema

    from minipaged.serving.ray.command import parser
    from minipaged.serving.ray.front import Front
    from minipaged.serving.ray.replica import Replica

    path = Path(package.__file__).with_name("cluster.yaml")
    config = ServeDeploySchema.model_validate(yaml.safe_load(path.read_text()))
    (application,) = config.applications
    names = {deployment.name for deployment in application.deployments}
    assert names == {Front.__name__, Replica.__name__}
    flags = {action.dest for action in parser()._actions}
    assert application.args.keys() <= flags
    assert application.import_path == "minipaged.serving.ray.deploy:build"
    assert Application


def test_more_replicas_come_while_requests_are_many():
    flags = "--max-replicas", "2", "--target-ongoing-requests", "1"
    with live_replicas(*flags, "--num-blocks", "512", count=1) as replicas:
        is_over = False

        def ask():
            while not is_over:
                complete(replicas, max_tokens=400, ignore_eos=True)

        asking = [Thread(target=ask) for _ in range(4)]
        for one in asking:
            one.start()
        try:
            replicas.wait(2)
        finally:
            is_over = True
            for one in asking:
                one.join()
