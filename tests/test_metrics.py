"""What /metrics says, read by Prometheus' own parser."""

import httpx
import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from driftbandits.client import Client
from driftbandits.service.metrics import BATCH_BUCKETS, BUCKETS_S, MOST_ARMS, Metrics, Scrape
from servers import Served

ARMS = {"a": [1.0, 0.0], "b": [0.0, 0.5]}
DECISIONS = "/v1/policies/{policy}/decisions"
KINDS = {
    "driftbandits_ready": "gauge",
    "driftbandits_queue_waiting": "gauge",
    "driftbandits_overloaded": "counter",
    "driftbandits_requests": "counter",
    "driftbandits_request_seconds": "histogram",
    "driftbandits_transaction_seconds": "histogram",
    "driftbandits_transaction_requests": "histogram",
    "driftbandits_commit_seconds": "histogram",
    "driftbandits_queue_seconds": "histogram",
    "driftbandits_reward": "summary",
    "driftbandits_arm_decisions": "counter",
    "driftbandits_candidates_failed": "gauge",
    "driftbandits_detections": "gauge",
    "driftbandits_events": "counter",
    "driftbandits_pending": "gauge",
    "driftbandits_rewards_clipped": "counter",
    "driftbandits_values_limited": "counter",
    "driftbandits_caller_decisions": "counter",
    "driftbandits_replay_differences": "gauge",
}


def families(text: str) -> dict:
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(text: str, name: str, **labels: str) -> float:
    (found,) = [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    ]
    return found


def scraped(metrics: Metrics) -> str:
    return Scrape(metrics, [], waiting=3, ready=True).text().decode()


@pytest.fixture
def served(tmp_path):
    with Served(f"sqlite:///{tmp_path}/log.db") as served:
        yield served


def test_what_a_service_counts(served):
    with Client(served.address) as client:
        client.put_policy("news", "greedy", dim=2)
        for event_id in ("e1", "e2", "e1"):
            client.decide("news", ARMS, event_id=event_id)
        client.reward("news", "e1", 1.0)
    with httpx.Client(base_url=served.address) as browser:
        assert browser.get("/nowhere").status_code == 404
        answer = browser.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    text = answer.text
    assert {name: family.type for name, family in families(text).items()} == KINDS
    assert all(family.documentation for family in families(text).values())
    assert value(text, "driftbandits_ready") == 1.0
    answered = {"method": "POST", "route": DECISIONS, "status": "200"}
    assert value(text, "driftbandits_requests_total", **answered) == 3.0
    missing = {"method": "GET", "route": "other", "status": "404"}
    assert value(text, "driftbandits_requests_total", **missing) == 1.0
    assert value(text, "driftbandits_request_seconds_count", route=DECISIONS) == 3.0
    for kind, count in {"configured": 1, "decision": 2, "duplicate": 1, "reward": 1}.items():
        assert value(text, "driftbandits_events_total", policy="news", kind=kind) == count
    assert value(text, "driftbandits_pending", policy="news") == 1.0
    assert value(text, "driftbandits_replay_differences", policy="news") == 0.0
    in_transactions = value(text, "driftbandits_transaction_requests_sum")
    assert in_transactions >= 5.0
    assert value(text, "driftbandits_transaction_seconds_count") <= in_transactions


def test_what_was_played_and_earned(served):
    with Client(served.address) as client:
        client.put_policy("news", "LinUCB", dim=2)
        shown = [client.decide("news", ARMS, event_id=f"e{i}").arm for i in range(6)]
        for i, reward in enumerate((0.5, 0.25, 1.0)):
            client.reward("news", f"e{i}", reward)
        client.reward("news", "e0", 0.5)  # a duplicate earns nothing
        told = client.decide("news", ARMS, event_id="away", fallback="b", budget=60.0)
        text = httpx.get(f"{served.address}/metrics").text
    assert not told.caller_decided
    for arm in ARMS:
        count = (*shown, told.arm).count(arm)
        if count:
            assert value(text, "driftbandits_arm_decisions_total", policy="news", arm=arm) == count
    assert value(text, "driftbandits_reward_count", policy="news") == 3.0
    assert value(text, "driftbandits_reward_sum", policy="news") == 1.75
    assert value(text, "driftbandits_detections", policy="news") == 0.0
    assert value(text, "driftbandits_commit_seconds_count") >= 10.0
    assert value(text, "driftbandits_queue_seconds_count") >= 11.0


def test_a_policy_with_many_arms_has_few_lines(served):
    with Client(served.address) as client:
        client.put_policy("news", "greedy", dim=1)
        for i in range(2 * MOST_ARMS):
            client.decide("news", {f"arm{i}": [1.0]})
            client.decide("news", {f"arm{i}": [1.0]})
        text = httpx.get(f"{served.address}/metrics").text
    lines = families(text)["driftbandits_arm_decisions"].samples
    assert len(lines) == MOST_ARMS + 1
    assert sum(line.value for line in lines) == 4 * MOST_ARMS
    others = {"policy": "news", "arm": "(others)"}
    assert value(text, "driftbandits_arm_decisions_total", **others) == 2 * MOST_ARMS


def test_a_histogram_counts_what_is_as_small_as_an_edge():
    metrics = Metrics()
    for seconds in (0.0005, 0.001, 0.3, 60.0):
        metrics.request("GET", "/x", 200, seconds)
    metrics.transaction(2, 0.02)
    text = scraped(metrics)
    name = "driftbandits_request_seconds_bucket"
    expected = {"0.001": 2, "0.25": 2, "0.5": 3, "10.0": 3, "+Inf": 4}
    for edge, count in expected.items():
        assert value(text, name, route="/x", le=edge) == count
    assert value(text, "driftbandits_request_seconds_sum", route="/x") == pytest.approx(60.3015)
    edges = [
        s.labels["le"] for s in families(text)["driftbandits_transaction_requests"].samples[:-2]
    ]
    assert edges == [*map(str, BATCH_BUCKETS), "+Inf"]
    edges = [
        s.labels["le"] for s in families(text)["driftbandits_transaction_seconds"].samples[:-2]
    ]
    assert edges == [*map(str, BUCKETS_S), "+Inf"]


def test_nothing_is_kept_for_the_whole_process():
    metrics = Metrics()
    metrics.request("GET", "/x", 200, 0.1)
    assert scraped(metrics) == scraped(metrics)
    assert not [family.name for family in REGISTRY.collect() if "driftbandits" in family.name]
