"""Lab: /metrics for Prometheus: vLLM's names and units under our prefix."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Histogram,
    generate_latest,
)
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from minipaged.engine.stats import generated_by
from minipaged.scheduling.observer import Observer
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.request import Request

if TYPE_CHECKING:
    from minipaged.engine.engine import Engine
    from minipaged.engine.stream import Stream

PREFIX = "minipaged:"
_FIRST_TOKEN = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1,
                2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560)  # fmt: skip
_NEXT_TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1,
               2.5, 5, 7.5, 10, 20, 40, 80)  # fmt: skip
_WHOLE = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480,
          960, 1920, 7680)  # fmt: skip
_REASONS = {"aborted": "abort"}  # vLLM's word


class Metrics(Observer):
    """What a server tells Prometheus: an engine's Stats, and times of its requests.

    It observes the engine, and notes times after each step.
    """

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self, engine: "Engine", model_name: str):
        """For one engine, which it observes from now on."""
        self._engine = engine
        self._registry = CollectorRegistry()
        self._registry.register(_Counts(engine, model_name))

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            made = Histogram(
                PREFIX + name, text, ["model_name"],
                buckets=buckets, registry=self._registry,
            )  # fmt: skip
            return made.labels(model_name)

        self._first = histogram(
            "time_to_first_token_seconds", "From the arrival.", _FIRST_TOKEN
        )
        self._next = histogram(
            "inter_token_latency_seconds", "From token to token.", _NEXT_TOKEN
        )
        self._whole = histogram(
            "e2e_request_latency_seconds", "From the arrival to the end.", _WHOLE
        )
        self._queue = histogram(
            "request_queue_time_seconds", "Until it first runs.", _WHOLE
        )
        self._last: dict[Request, float] = {}  # when a running request got its tokens
        engine.scheduler.observers.append(self)

    def page(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self._registry)

    def admitted(self, request: Request) -> None:
        """A request starts: it has waited until now."""
        stream = self._engine.streams.get(request)
        if stream is not None and not request.num_restarts:
            self._queue.observe(max(0.0, self._engine.clock.now() - stream.arrival))

    def committed(self, plan: Plan) -> None:
        """A step is over: its requests have new tokens."""
        now = self._engine.clock.now()
        for work in plan.works:
            if not generated_by(work):
                continue
            request = work.request
            last = self._last.get(request)
            if last is not None:
                self._next.observe(now - last)
            if request.live:
                self._last[request] = now
            else:
                self._last.pop(request, None)

    def left(self, stream: "Stream") -> None:
        """A stream's job is over."""
        self._last.pop(stream.request, None)
        if stream.time_to_first_token is not None:
            self._first.observe(stream.time_to_first_token)
        if stream.finished_at is not None:
            self._whole.observe(stream.finished_at - stream.arrival)


class _Counts(Collector):
    """The engine's own figures, read when they are asked for."""

    def __init__(self, engine: "Engine", model_name: str):
        self._engine, self._model_name = engine, model_name

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        engine = self._engine
        stats = engine.stats
        running = len(engine.scheduler.running)
        gauges = {
            "num_requests_running": running,
            "num_requests_waiting": max(0, len(engine.streams) - running),
            "kv_cache_usage_perc": stats.kv_cache_usage,  # from 0 to 1, as vLLM's
        }
        for name, value in gauges.items():
            gauge = GaugeMetricFamily(PREFIX + name, name, labels=["model_name"])
            gauge.add_metric([self._model_name], value)
            yield gauge
        for name in (
            "prompt_tokens",
            "generation_tokens",
            "prefix_cache_queries",
            "prefix_cache_hits",
            "num_preemptions",
            "num_copied_blocks",
        ):
            counter = CounterMetricFamily(PREFIX + name, name, labels=["model_name"])
            counter.add_metric([self._model_name], getattr(stats, name))
            yield counter
        for name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens"):
            counter = CounterMetricFamily(
                PREFIX + "spec_decode_" + name, name, labels=["model_name"]
            )
            counter.add_metric([self._model_name], getattr(stats, name))
            yield counter
        success = CounterMetricFamily(
            PREFIX + "request_success",
            "requests that have ended",
            labels=["model_name", "finished_reason"],
        )
        for reason, number in stats.request_success.copy().items():
            reason = _REASONS.get(reason, reason)
            success.add_metric([self._model_name, reason], number)
        yield success
