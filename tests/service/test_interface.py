"""The document, and the answers about the process itself."""

import json
import re

import msgspec
from calls import NEWS, decide, ok, play

from driftbandits import api
from driftbandits.service.routes import ROUTES


def test_the_document_describes_every_route(client):
    document = ok(client.get("/openapi.json"))
    assert document["openapi"].startswith("3.1")
    assert set(document["paths"]) == set(ROUTES)
    text = json.dumps(document)
    for name in re.findall(r"#/components/schemas/(\w+)", text):
        assert name in document["components"]["schemas"]
    decision = document["components"]["schemas"]["DecisionRequest"]
    assert decision["required"] == ["event_id", "arms"]
    arguments = document["components"]["schemas"]["PolicyRequest"]["properties"]
    assert {"name", "dim", "discount", "window", "mode", "half_life_s"} <= set(arguments)


def test_answers_match_the_document(client):
    play(client, 6)
    for path, type_ in (
        ("/v1/policies", api.PoliciesAnswer),
        (NEWS, api.PolicyAnswer),
        (f"{NEWS}/versions", api.VersionsAnswer),
        (f"{NEWS}/history", api.HistoryAnswer),
        (f"{NEWS}/digest", api.DigestAnswer),
        (f"{NEWS}/events", api.EventsAnswer),
    ):
        struct = msgspec.json.decode(client.get(path).content, type=type_)
        assert msgspec.json.decode(msgspec.json.encode(struct)) == client.get(path).json()


def test_health_readiness_and_metrics(client):
    ok(decide(client, "e1"))
    assert ok(client.get("/healthz")) == {"status": "ok"}
    assert ok(client.get("/readyz")) == {"status": "ok"}
    assert client.head("/readyz").content == b""
    text = client.get("/metrics").text
    assert "driftbandits_ready 1" in text
    route = '{method="POST",route="/v1/policies/{policy}/decisions",status="200"} 1'
    assert f"driftbandits_requests_total{route}" in text
    for line in text.splitlines():
        assert line.startswith("# ") or re.fullmatch(r"\w+(\{.*\})? [-+.e\d]+", line), line
