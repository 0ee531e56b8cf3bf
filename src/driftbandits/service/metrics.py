"""Counts and times for Prometheus.

Requests are counted in plain numbers, which cost next to nothing; a scrape makes metrics of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily as Counts
from prometheus_client.metrics_core import GaugeMetricFamily as Gauge
from prometheus_client.metrics_core import HistogramMetricFamily as Sizes
from prometheus_client.metrics_core import Metric, SummaryMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

from driftbandits.service.state import CALLER_DECIDED, CLIPPED, State
from driftbandits.store import Kind

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
MOST_ARMS = 30
"""The number of arms of a policy that have a line of their own."""

OTHERS = "(others)"
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Histogram:
    """Observations by size."""

    def __init__(self, edges: tuple[float, ...]) -> None:
        self._edges = edges
        self._counts = [0] * (len(edges) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._edges, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """Return for each edge the number of values up to it."""
        total, buckets = 0, []
        for edge, count in zip((*self._edges, "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((str(edge), float(total)))
        return buckets


class Tally:
    """Counts of what this process has committed for one policy: rewards and plays.

    An arm that has a line of its own keeps it, so that no counter ever goes back. While there are
    few arms all of them have one; those that come later share one.
    """

    def __init__(self) -> None:
        self.rewards = 0
        self.reward_sum = 0.0
        self.arms: Counter[str] = Counter()

    def add(self, kind: str, record: Any) -> None:
        if kind in (Kind.DECISION, Kind.CORRECTED):
            arm = record.arms[record.index]
            has_line = arm in self.arms or len(self.arms) < MOST_ARMS
            self.arms[arm if has_line else OTHERS] += 1
        elif kind in (Kind.REWARD, Kind.DEFAULT):
            self.rewards += 1
            self.reward_sum += record.value


class Metrics:
    """Counters of this process."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.seconds: dict[str, Histogram] = {}
        self.batches = Histogram(BATCH_BUCKETS)
        self.transactions = Histogram(BUCKETS_S)
        self.commits = Histogram(BUCKETS_S)
        self.queue = Histogram(BUCKETS_S)
        self.tallies: defaultdict[str, Tally] = defaultdict(Tally)
        self.refused_overload = 0

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests[method, route, status] += 1
        histogram = self.seconds.get(route)
        if histogram is None:
            histogram = self.seconds[route] = Histogram(BUCKETS_S)
        histogram.observe(seconds)

    def committed(self, events: Iterable[tuple[str, str, Any]], seconds: float) -> None:
        """Count the events of a transaction, and the seconds that its commit took."""
        self.commits.observe(seconds)
        for policy, kind, record in events:
            self.tallies[policy].add(kind, record)

    def transaction(self, jobs: int, seconds: float) -> None:
        self.batches.observe(jobs)
        self.transactions.observe(seconds)


class Scrape(Collector):
    """Everything as of now; of policies only those given, and of requests only `of_all`.

    A tenant sees neither the requests of others nor how long they wait.
    """

    def __init__(
        self,
        metrics: Metrics,
        states: Sequence[State],
        *,
        waiting: int,
        ready: bool,
        of_all: bool = True,
        failed: Mapping[str, int] | None = None,
    ) -> None:
        self._of_all = of_all
        self._failed = failed or {}  # candidates, by policy
        self._metrics = metrics
        self._states = states
        self._waiting = waiting
        self._ready = ready

    def text(self) -> bytes:
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        yield _family(Gauge, "ready", "1 when requests are served", (), [((), self._ready)])
        if self._of_all:
            yield from self._of_process()
        yield from self._of_events()
        families: Any = ((Counts, _COUNTERS), (Gauge, _GAUGES))
        for kind, figures in families:
            for name, (about, figure) in figures.items():
                rows = [((state.policy,), figure(state)) for state in self._states]
                yield _family(kind, name, about, ("policy",), rows)

    def _of_process(self) -> Iterator[Metric]:
        seen = self._metrics
        waiting = "requests that wait for the writer"
        yield _family(Gauge, "queue_waiting", waiting, (), [((), self._waiting)])
        overloaded = "requests refused for want of room"
        yield _family(Counts, "overloaded", overloaded, (), [((), seen.refused_overload)])
        answers = [((m, r, str(status)), n) for (m, r, status), n in sorted(seen.requests.items())]
        labels = ("method", "route", "status")
        yield _family(Counts, "requests", "answers by route and status", labels, answers)
        seconds = [((r,), h.buckets(), h.sum) for r, h in sorted(seen.seconds.items())]
        yield _family(Sizes, "request_seconds", "time to an answer", ("route",), seconds)
        for name, about, sizes in (
            ("transaction_seconds", "time of a transaction, synced", seen.transactions),
            ("transaction_requests", "requests in a transaction", seen.batches),
            ("commit_seconds", "time to bring a transaction to disk", seen.commits),
            ("queue_seconds", "time that a request waited for its turn", seen.queue),
        ):
            yield _family(Sizes, name, about, (), [((), sizes.buckets(), sizes.sum)])

    def _of_events(self) -> Iterator[Metric]:
        events, rewards, arms = list[Row](), list[Row](), list[Row]()
        for state in self._states:
            name, counts = state.policy, dict(state.counts)  # the writer may add one
            kinds = counts.keys() - {CALLER_DECIDED, CLIPPED}
            events += [((name, kind), counts[kind]) for kind in kinds]
            tally = self._metrics.tallies.get(name, Tally())
            rewards.append(((name,), tally.rewards, tally.reward_sum))
            arms += [((name, arm), n) for arm, n in sorted(dict(tally.arms).items())]
        yield _family(Counts, "events", "events in the log by kind", ("policy", "kind"), events)
        about = "changes and shadows that cannot learn the log"
        failed = [((name,), count) for name, count in self._failed.items()]
        yield _family(Gauge, "candidates_failed", about, ("policy",), failed)
        about = "rewards and defaults that this process has recorded, as reported"
        yield _family(SummaryMetricFamily, "reward", about, ("policy",), rewards)
        about = (
            f"what this process has recorded as played: the first {MOST_ARMS} arms, and {OTHERS}"
        )
        yield _family(Counts, "arm_decisions", about, ("policy", "arm"), arms)


Row = tuple[Any, ...]
"""Labels, and what stands beside them."""


def _family(
    kind: Callable[..., Any], name: str, about: str, labels: Sequence[str], rows: Iterable[Row]
) -> Any:
    family = kind(f"driftbandits_{name}", about, labels=labels)
    for row in rows:
        family.add_metric(*row)
    return family


Figures = dict[str, tuple[str, Callable[[State], float]]]
_COUNTERS: Figures = {
    "rewards_clipped": ("rewards learned from the end of their range", lambda s: s.counts[CLIPPED]),
    "caller_decisions": (
        "decisions that callers had made by themselves, as a fallback",
        lambda s: s.counts[CALLER_DECIDED],
    ),
    "values_limited": (
        "numbers far beyond what their column had shown, limited by the model in force",
        lambda s: sum(one.count for one in s.agent.limited) if s.agent else 0,
    ),
}
_GAUGES: Figures = {
    "pending": ("decisions that wait for a reward", lambda s: len(s.pending)),
    "replay_differences": ("replayed events that came out otherwise", lambda s: s.differences),
    "detections": (
        "changes that the model in force has detected, up to 1000",
        lambda s: len(s.observers.history.detected),
    ),
}
