"""/metrics: vLLM's names under our prefix, and true figures."""

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

import minipaged as mp
from helpers.http_serving import FRANCE, make_engine, served, wait_until
from serving.test_leaving import LONG, Steps, raw


def figures(server):
    text = httpx.get(server.url + "/metrics").text
    return {
        (sample.name.removeprefix("minipaged:"), *sorted(sample.labels.items())[:1]):
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }  # fmt: skip


def of(found, name, *label):
    return found[name, label or ("model_name", "pocket")]


def test_what_was_served_is_counted():
    with served(make_engine()) as server:
        prompt = "The penguin has a hat. " * 8
        usages = [
            server.complete(prompt, max_tokens=5, ignore_eos=True)["usage"]
            for _ in range(3)
        ]
        server.events("/v1/completions", prompt=FRANCE, max_tokens=1)
        found = figures(server)
        num_prompt = sum(usage["prompt_tokens"] for usage in usages)
        assert of(found, "generation_tokens_total") == 16
        assert of(found, "prompt_tokens_total") == num_prompt + 7
        assert of(found, "prefix_cache_hits_total") == sum(
            usage["prompt_tokens_details"]["cached_tokens"] for usage in usages
        )
        assert of(found, "prefix_cache_queries_total") == num_prompt + 7
        assert of(found, "num_requests_running") == 0
        assert of(found, "kv_cache_usage_perc") == 0
        ended = ("finished_reason", "length")
        assert of(found, "request_success_total", *ended) == 4
        for name, count in [
            ("time_to_first_token_seconds", 4),
            ("e2e_request_latency_seconds", 4),
            ("request_queue_time_seconds", 4),
            ("inter_token_latency_seconds", 12),
        ]:
            assert of(found, f"{name}_count") == count
            assert 0 < of(found, f"{name}_sum") < 60


def test_guesses_are_counted():
    engine = make_engine(speculation=mp.PromptLookup(4))
    with served(engine) as server:
        fields = {"max_tokens": 20, "ignore_eos": True, "temperature": 0}
        server.complete([5, 6, 7, 8] * 6, **fields)
        found = figures(server)
        stats = engine.stats
        assert stats.num_draft_tokens > 0
        for name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens"):
            assert of(found, f"spec_decode_{name}_total") == getattr(stats, name)


def test_who_runs_and_waits_now():
    engine = make_engine(600, max_sequences=1, observers=[Steps()])
    with served(engine) as server:
        fields = {"prompt": FRANCE, **LONG, "stream": True}
        inside = [raw(server.port, "/v1/completions", fields) for _ in range(3)]
        wait_until(lambda: len(engine.streams) == 3 and engine.scheduler.running)
        found = figures(server)
        assert of(found, "num_requests_running") == 1
        assert of(found, "num_requests_waiting") == 2
        assert of(found, "kv_cache_usage_perc") == pytest.approx(1 / 600, rel=20)
        for connection in inside:
            connection.close()
        server.wait_idle()
        ended = ("finished_reason", "abort")
        assert of(figures(server), "request_success_total", *ended) == 3
