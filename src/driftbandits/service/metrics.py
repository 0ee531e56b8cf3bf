"""Counts and times in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator

from driftbandits.service.fold import Fold

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Histogram:
    """Observations by size."""

    def __init__(self, buckets: tuple[float, ...]) -> None:
        self._buckets = buckets
        self._counts = [0] * (len(buckets) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._buckets, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: str = "") -> Iterator[str]:
        total, comma = 0, "," if labels else ""
        for edge, count in zip((*self._buckets, "+Inf"), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels}{comma}le="{edge}"}} {total}'
        braces = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{braces} {self._sum}"
        yield f"{name}_count{braces} {total}"


class Metrics:
    """What the process counts about itself."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.seconds: dict[str, Histogram] = {}
        self.batches = Histogram(BATCH_BUCKETS)
        self.transactions = Histogram(BUCKETS_S)
        self.refused_overload = 0

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests[method, route, status] += 1
        histogram = self.seconds.get(route)
        if histogram is None:
            histogram = self.seconds[route] = Histogram(BUCKETS_S)
        histogram.observe(seconds)

    def transaction(self, jobs: int, seconds: float) -> None:
        self.batches.observe(jobs)
        self.transactions.observe(seconds)

    def text(self, folds: Iterable[Fold], *, waiting: int, ready: bool) -> str:
        """Everything; of policies only those given."""
        return "\n".join(self._lines(list(folds), waiting, ready)) + "\n"

    def _lines(self, folds: list[Fold], waiting: int, ready: bool) -> Iterator[str]:
        yield from _heading("ready", "gauge", "1 when requests are served")
        yield f"driftbandits_ready {int(ready)}"
        yield from _heading("queue_waiting", "gauge", "requests that wait for the writer")
        yield f"driftbandits_queue_waiting {waiting}"
        yield from _heading("overloaded_total", "counter", "requests refused for want of room")
        yield f"driftbandits_overloaded_total {self.refused_overload}"
        yield from _heading("requests_total", "counter", "answers by route and status")
        for (method, route, status), count in sorted(self.requests.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            yield f"driftbandits_requests_total{{{labels}}} {count}"
        yield from _heading("request_seconds", "histogram", "time to an answer")
        for route, histogram in sorted(self.seconds.items()):
            yield from histogram.lines("driftbandits_request_seconds", f'route="{route}"')
        yield from _heading("transaction_seconds", "histogram", "time of a transaction, synced")
        yield from self.transactions.lines("driftbandits_transaction_seconds")
        yield from _heading("transaction_requests", "histogram", "requests in a transaction")
        yield from self.batches.lines("driftbandits_transaction_requests")
        yield from _heading("events_total", "counter", "events in the log by kind")
        for fold in folds:
            for kind, count in sorted(dict(fold.counts).items()):  # the writer may add one
                labels = f'policy="{fold.policy}",kind="{kind}"'
                yield f"driftbandits_events_total{{{labels}}} {count}"
        yield from _heading("pending", "gauge", "decisions that wait for a reward")
        for fold in folds:
            yield f'driftbandits_pending{{policy="{fold.policy}"}} {len(fold.pending)}'
        yield from _heading(
            "replay_differences", "gauge", "replayed events that came out otherwise"
        )
        for fold in folds:
            yield f'driftbandits_replay_differences{{policy="{fold.policy}"}} {fold.differences}'


def _heading(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP driftbandits_{name} {text}"
    yield f"# TYPE driftbandits_{name} {kind}"
