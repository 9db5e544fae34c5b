"""Lab: /metrics for Prometheus: vLLM's names and units under our prefix."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    generate_latest,
)
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from minipaged.engine.engine import Engine
    from minipaged.serving.link import Reply

PREFIX = "minipaged:"
_FIRST_TOKEN = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1,
                2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560)  # fmt: skip
_NEXT_TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1,
               2.5, 5, 7.5, 10, 20, 40, 80)  # fmt: skip
_WHOLE = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480,
          960, 1920, 7680)  # fmt: skip
_REASONS = {"aborted": "abort"}  # vLLM's word
_GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
_COUNTERS = {
    "prompt_tokens": "prompt_tokens",
    "generation_tokens": "generation_tokens",
    "prefix_cache_queries": "prefix_cache_queries",
    "prefix_cache_hits": "prefix_cache_hits",
    "num_preemptions": "num_preemptions",
    "num_copied_blocks": "num_copied_blocks",
    "num_drafts": "spec_decode_num_drafts",
    "num_draft_tokens": "spec_decode_num_draft_tokens",
    "num_accepted_tokens": "spec_decode_num_accepted_tokens",
}  # names of Stats, and of vLLM


def figures_of(engine: "Engine", num_arrived: int = 0) -> dict[str, Any]:
    """An engine's own figures, between two steps.

    num_arrived: requests that are not handed to it yet.
    """
    stats, running = engine.stats, len(engine.scheduler.running)
    return {
        "num_requests_running": running,
        "num_requests_waiting": max(0, len(engine.streams) - running) + num_arrived,
        "kv_cache_usage_perc": stats.kv_cache_usage,  # from 0 to 1, as vLLM's
        "request_success": stats.request_success.copy(),
        **{name: getattr(stats, name) for name in _COUNTERS},
    }


class Times:
    """How often something took how long: a histogram that is quick to write to."""

    def __init__(self, name: str, text: str, borders: Sequence[float]):
        """borders: seconds, the longest of each bucket."""
        self._name, self._text, self._borders = name, text, (*borders, inf)
        self._counts = [0] * len(self._borders)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count it."""
        self._counts[bisect_left(self._borders, seconds)] += 1
        self._sum += seconds

    def family(self, model_name: str) -> HistogramMetricFamily:
        """As Prometheus takes it: each bucket counts those before it, too."""
        buckets, total = [], 0
        for border, number in zip(self._borders, self._counts, strict=True):
            total += number
            buckets.append((floatToGoString(border), total))
        made = HistogramMetricFamily(
            PREFIX + self._name, self._text, labels=["model_name"]
        )
        made.add_metric([model_name], buckets, self._sum)
        return made


class Metrics(Collector):
    """What a server tells Prometheus: an engine's figures, and times of its requests.

    Attributes: queue, next_token: Times that whoever notices them writes to.
    """

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self, model_name: str):
        """Nothing has happened yet."""
        self._model_name = model_name
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._first = Times(
            "time_to_first_token_seconds", "From the arrival.", _FIRST_TOKEN
        )
        self.next_token = Times(
            "inter_token_latency_seconds", "From token to token.", _NEXT_TOKEN
        )
        self._whole = Times(
            "e2e_request_latency_seconds", "From the arrival to the end.", _WHOLE
        )
        self.queue = Times("request_queue_time_seconds", "Until it first runs.", _WHOLE)
        self._figures: Mapping[str, Mapping[str, Any]] = {}

    def page(self, figures: Mapping[str, Mapping[str, Any]]) -> bytes:
        """The text that Prometheus reads.

        figures: `figures_of` each engine, by its name, which becomes vLLM's label
        `engine`. An engine that is alone has the name "", and no label.
        """
        self._figures = figures
        return generate_latest(self._registry)

    def left(self, reply: "Reply") -> None:
        """A reply's job is over."""
        if reply.first_token_at is not None:
            self._first.observe(reply.first_token_at - reply.arrival)
        if reply.finished_at is not None:
            self._whole.observe(reply.finished_at - reply.arrival)

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        labels = ["model_name"]
        engines = [([self._model_name], each) for each in self._figures.values()]
        if "" not in self._figures:
            labels.append("engine")
            for (values, _), name in zip(engines, self._figures, strict=True):
                values.append(name)
        for name in _GAUGES:
            gauge = GaugeMetricFamily(PREFIX + name, name, labels=labels)
            for values, figures in engines:
                gauge.add_metric(values, figures[name])
            yield gauge
        for own, name in _COUNTERS.items():
            counter = CounterMetricFamily(PREFIX + name, own, labels=labels)
            for values, figures in engines:
                counter.add_metric(values, figures[own])
            yield counter
        success = CounterMetricFamily(
            PREFIX + "request_success",
            "requests that have ended",
            labels=[*labels, "finished_reason"],
        )
        for values, figures in engines:
            for reason, number in figures["request_success"].items():
                success.add_metric([*values, _REASONS.get(reason, reason)], number)
        yield success
        for times in (self._first, self.next_token, self._whole, self.queue):
            yield times.family(self._model_name)
