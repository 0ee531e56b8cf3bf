"""Who may do what, and how often."""

import re
import socket
import time

import httpx
import pytest
from calls import CONFIGURATION, configure, decide, ok, problem, reward
from click.testing import CliRunner

from driftbandits import store
from driftbandits.cli.commands import BAD_USAGE, FAILED, group, run
from driftbandits.service import Limits, auth
from servers import Served


def test_the_rate_of_a_key(tmp_path):
    limits = Limits(rate_per_key=3)
    with Served(f"sqlite:///{tmp_path}/log.db", limits=limits, with_keys=True) as service:
        answers = [service.client.get("/v1/policies") for _ in range(12)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert 1 <= len(refused) <= 9
        assert problem(refused[0], 429)["code"] == "rate_limited"
        assert int(refused[0].headers["retry-after"]) >= 1
        assert service.client.get("/healthz").status_code == 200


def make_key(url, *options):
    done = CliRunner().invoke(group, ["keys", "create", "--store", url, *options])
    assert done.exit_code == 0, done.output
    return done.output.strip()


def test_keys_roles_and_tenants(tmp_path):
    path = tmp_path / "log.db"
    url = f"sqlite:///{path}"
    tokens = {
        role: make_key(url, "--role", role, "--prefix", "shop.")
        for role in ("reader", "writer", "admin")
    }
    shop, other = "/v1/policies/shop.news", "/v1/policies/bank.news"
    with Served(url, with_keys=True) as service:
        assert service.key is None  # there were keys already
        reader, writer, admin = (service.connect(tokens[role]) for role in tokens)
        with reader, writer, admin, service.connect(make_key(url, "--role", "admin")) as root:
            time.sleep(2.1)
            configure(root, other)
            configure(admin, shop)
            assert problem(admin.put(other, json=CONFIGURATION), 403)["code"] == "other_tenant"
            assert problem(writer.put(shop, json=CONFIGURATION), 403)["code"] == "forbidden"
            ok(decide(writer, "e1", policy=shop))
            ok(reward(writer, "e1", 1, policy=shop))
            assert problem(decide(reader, "e2", policy=shop), 403)["code"] == "forbidden"
            assert problem(decide(writer, "e2", policy=other), 403)["code"] == "other_tenant"
            ok(reader.get(shop))
            assert problem(reader.get(other), 403)["code"] == "other_tenant"
            assert [p["policy"] for p in ok(reader.get("/v1/policies"))["policies"]] == [
                "shop.news"
            ]
            assert len(ok(root.get("/v1/policies"))["policies"]) == 2
            assert "bank" not in reader.get("/metrics").text
            for authorization in (
                "",
                "Bearer",
                "Bearer x",
                "Basic abc",
                "Bearer dbk_a_b",
                f"Bearer {tokens['reader'][:-1]}",
            ):
                answer = httpx.get(service.address + shop, headers={"authorization": authorization})
                assert problem(answer, 401)["code"] == "unauthorized"
                assert answer.headers["www-authenticate"] == "Bearer"
            id = tokens["reader"].split("_")[1]
            done = CliRunner().invoke(group, ["keys", "revoke", "--store", url, id])
            assert done.exit_code == 0, done.output
            time.sleep(2.1)
            assert problem(reader.get(shop), 401)
            for event_id in ("e3", "e4", "e5"):
                ok(decide(writer, event_id, policy=shop))
            CliRunner().invoke(
                group, ["keys", "revoke", "--store", url, tokens["writer"].split("_")[1]]
            )
            time.sleep(2.1)
            assert problem(decide(writer, "e6", policy=shop), 401)  # on the same connection
    listing = CliRunner().invoke(group, ["keys", "list", "--store", url]).output
    assert f"{id}  reader  revoked  shop." in listing
    stored = path.read_bytes()
    assert not any(token.split("_", 2)[2].encode() in stored for token in tokens.values())


def test_the_first_key_is_made_once(tmp_path):
    url = f"sqlite:///{tmp_path}/log.db"
    with Served(url, with_keys=True) as service:
        assert re.fullmatch(r"dbk_[0-9a-f]{12}_[\w-]{43}", service.key)
        configure(service.client)
    with Served(url, with_keys=True) as service:
        assert service.key is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_without_keys_only_loopback(host, capsys):
    assert run(["serve", "--no-auth", "--host", host]) == BAD_USAGE
    assert "loopback" in capsys.readouterr().err


def test_a_port_in_use_makes_no_store_whose_key_nobody_saw(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert run(["serve", "--port", port, "--store", f"sqlite:///{tmp_path}/x.db"]) == BAD_USAGE
    assert f"port {port} of 127.0.0.1 cannot be used" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_store_that_cannot_be_opened_is_named(tmp_path, capsys):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "x.db"
    assert run(["serve", "--port", "0", "--store", f"sqlite:///{path}"]) == FAILED
    assert f"Error: store {path} cannot be opened" in capsys.readouterr().err


def test_without_keys_no_other_sites_page_gets_in(client):
    for headers in ({"origin": "http://evil.example"}, {"host": "evil.example"}):
        assert client.get("/v1/policies", headers=headers).status_code == 403
    origin = str(client.base_url).rstrip("/")
    assert client.get("/v1/policies", headers={"origin": origin}).status_code == 200


def test_keys_that_cannot_be_read_are_not_trusted_for_long(tmp_path, monkeypatch):
    """Nor is anybody let in by what they were; when they can be read again all goes on."""

    def fails(self):
        raise store.StoreUnavailable("the disk is away")

    monkeypatch.setattr(auth, "_OLD_S", 1.5)
    with Served(f"sqlite:///{tmp_path}/log.db", with_keys=True) as service:
        configure(service.client)
        with monkeypatch.context() as away:
            away.setattr(auth.Keyring, "refresh", fails)
            ok(decide(service.client, "e1"))
            time.sleep(2.7)
            refused = decide(service.client, "e2")
            assert problem(refused, 503)["code"] == "storage_unavailable"
            assert refused.headers["retry-after"] == "1"
            assert service.client.get("/healthz").status_code == 200
        time.sleep(1.2)
        ok(decide(service.client, "e2"))
