"""The document, and the answers about the process itself."""

import re

from calls import decide, ok


def test_the_document_has_the_arguments_of_policies(client):
    schemas = ok(client.get("/openapi.json"))["components"]["schemas"]
    assert schemas["DecisionRequest"]["required"] == ["event_id", "arms"]
    arguments = schemas["PolicyRequest"]["properties"]
    assert {"name", "dim", "discount", "window", "mode", "half_life_s"} <= set(arguments)


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
