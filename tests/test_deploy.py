"""The files of deploy/, checked by the programs that read them wherever those are here.

nginx, caddy and promtool come with `make tests`, out of Debian's packages. Nothing here builds the
image: its file is checked for what it copies and names, and a slow test runs its commands.
"""

import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from driftbandits.client import Client
from servers import Served, wait_until, wait_until_ready

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
MOST_EXPOSED = 11  # by systemd-analyze, in tenths: 1.1 is "OK"


def tool(name: str) -> str | None:
    return shutil.which(name, path=f"{ROOT / '.tools'}:{os.environ['PATH']}")


def present(*names: str) -> list[str]:
    return [name for name in names if tool(name)]


def checked(*command: Any, **options: Any) -> str:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


# -- metrics, alerts and the board ----------------------------------------------------------------


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(f"sqlite:///{tmp_path_factory.mktemp('deploy')}/log.db") as served:
        with Client(served.address) as client:
            client.put_policy("news", "greedy", dim=1)
            client.decide("news", {"a": [1.0], "b": [0.5]}, event_id="e1")
            client.reward("news", "e1", 1.0)
        yield served


@pytest.fixture(scope="module")
def samples(service: Served) -> dict[str, set[str]]:
    """The labels of every series that a real service has, by its name."""
    text = httpx.get(f"{service.address}/metrics").text
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def board() -> dict[str, Any]:
    made: dict[str, Any] = json.loads((DEPLOY / "grafana.json").read_text())
    return made


def expressions() -> list[str]:
    panels = [target["expr"] for panel in board()["panels"] for target in panel["targets"]]
    return [*(rule["expr"] for rule in rules()), *panels]


def plain(expression: str) -> str:
    """Without the variables that Grafana fills in."""
    return expression.replace("$__rate_interval", "5m").replace("$policy", ".*")


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_asks_for_series_and_labels_that_exist(
    expression: str, samples: dict[str, set[str]]
) -> None:
    asked = re.findall(r"(driftbandits_\w+)(?:\{([^}]*(?:\{\w+\}[^}]*)*)\})?", expression)
    assert asked
    for name, matchers in asked:
        assert name in samples
        labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", matchers))
        assert labels <= samples[name] | {"instance"}
    grouped = set(re.findall(r"\b(?:by|on) \(([^)]*)\)", expression))
    known = set().union(*(samples[name] for name, _ in asked)) | {"instance"}
    for names in grouped:
        assert set(names.replace(" ", "").split(",")) <= known


def test_the_matchers_of_routes_and_kinds_match_something(samples: dict[str, set[str]]) -> None:
    from driftbandits import store
    from driftbandits.api import operations

    paths = {operations.DECIDE.path}
    kinds = {store.Kind.DECISION, store.Kind.REWARD, store.Kind.DEFAULT, store.Kind.LATE}
    text = "\n".join(expressions())
    assert set(re.findall(r'route="([^"]+)"', text)) == paths
    found = re.findall(r'kind=~?"([^"]+)"', text)
    assert {kind for words in found for kind in words.split("|")} <= kinds


@pytest.mark.parametrize("promtool", present("promtool"))
def test_prometheus_understands_every_expression(promtool: str, tmp_path: Path) -> None:
    checked(tool(promtool), "check", "rules", DEPLOY / "alerts.yml")
    recorded = [
        {"record": f"board:{i}", "expr": plain(expression)}
        for i, expression in enumerate(expressions())
    ]
    path = tmp_path / "board.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": recorded}]}))
    assert f"{len(recorded)} rules found" in checked(tool(promtool), "check", "rules", path)


SERIES = {
    'ready{instance="a"}': ("0x60", "1x60"),
    'requests_total{instance="a",status="503"}': ("0+60x60", "0x60"),
    'requests_total{instance="a",status="200"}': ("0x60", "0+60x60"),
    'overloaded_total{instance="a"}': ("0+60x60", "0x60"),
    'caller_decisions_total{policy="news"}': ("0+60x60", "0x60"),
    'events_total{policy="news",kind="decision"}': ("0+60x180", "0+60x180"),
    'events_total{policy="news",kind="reward"}': ("0x180", "0+6x180"),
    'replay_differences{policy="news",instance="a"}': ("1x60", "0x60"),
    'pending{policy="news"}': ("90000x60", "100x60"),
}
"""What a scrape shows, by the minute, while everything is wrong and while nothing is."""


@pytest.mark.parametrize("promtool", present("promtool"))
def test_alerts_are_raised_when_they_should_be_and_not_before(
    promtool: str, tmp_path: Path
) -> None:
    bad, good = (
        [{"series": f"driftbandits_{name}", "values": both[i]} for name, both in SERIES.items()]
        for i in range(2)
    )
    names = {rule["alert"] for rule in rules()}
    # by histograms, which take more series
    raised = names - {"DriftbanditsSlow", "DriftbanditsSlowDisk"}

    def when(name: str) -> str:
        return "100m" if name == "DriftbanditsNoRewards" else "40m"

    tests = [
        {
            "interval": "1m",
            "input_series": bad,
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}})',
                    "eval_time": when(name),
                    "exp_samples": [{"labels": "{}", "value": 1}],
                }
                for name in sorted(raised)
            ],
        },
        {
            "interval": "1m",
            "input_series": good,
            "alert_rule_test": [
                {"eval_time": when(name), "alertname": name, "exp_alerts": []} for name in names
            ],
        },
    ]
    told = {"rule_files": [str(DEPLOY / "alerts.yml")], "evaluation_interval": "1m"}
    path = tmp_path / "tests.yml"
    path.write_text(yaml.safe_dump({**told, "tests": tests}))
    assert "SUCCESS" in checked(tool(promtool), "test", "rules", path)


def test_every_alert_is_spoken_of() -> None:
    page = (ROOT / "docs" / "deploying.md").read_text()
    for rule in rules():
        assert rule["alert"].removeprefix("Driftbandits") in page, rule["alert"]
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("page", "ticket")


# -- reverse proxies ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    checked(
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
        *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
        *("-keyout", folder / "privkey.pem", "-out", folder / "fullchain.pem"),
    )
    return folder


@contextmanager
def running(command: list[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def listens() -> bool:
        assert process.poll() is None, "it has ended"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_until(listens)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def went_through(url: str, verify: Any, event_id: str) -> None:
    """A decision and its reward, the metrics kept inside, and the id that the proxy gave."""
    with httpx.Client(base_url=url, verify=verify, timeout=30.0) as caller:
        body = {"event_id": event_id, "arms": [{"id": "a", "x": [1.0]}]}
        answer = caller.post("/v1/policies/news/decisions", json=body)
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-request-id"]
        assert answer.headers["strict-transport-security"]
        told = {"event_id": event_id, "value": 1}
        assert caller.post("/v1/policies/news/rewards", json=told).json()["status"] == "learned"
        assert caller.get("/metrics").status_code == 404
        for _ in range(20):  # what is refused while it is being sent is refused in the same way
            large = caller.post("/v1/policies/news/decisions", content=b"x" * 3_000_000)
            assert large.status_code == 413


@pytest.mark.parametrize("nginx", present("nginx"))
def test_a_decision_goes_through_nginx(
    nginx: str, service: Served, certificate: Path, tmp_path: Path
) -> None:
    port = free_port()
    site = (DEPLOY / "nginx.conf").read_text()
    for given, ours in (
        ("/etc/ssl/driftbandits", str(certificate)),
        ("server 127.0.0.1:8080", f"server {service.address.removeprefix('http://')}"),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("listen 80;", f"listen 127.0.0.1:{free_port()};"),
        ("proxy_set_header   Host $host;", "proxy_set_header   Host 127.0.0.1;"),
    ):
        assert site.count(given) >= 1, given
        site = site.replace(given, ours)
    (tmp_path / "site.conf").write_text(site)
    places = "".join(
        f"{kind}_temp_path {tmp_path}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/errors;"
        f"events {{}} http {{ access_log off; {places} include {tmp_path}/site.conf; }}"
    )
    command = [tool(nginx) or "", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
    checked(*command, "-t")
    with running(command, port):
        trusted = ssl.create_default_context(cafile=str(certificate / "fullchain.pem"))
        went_through(f"https://127.0.0.1:{port}", trusted, "through-nginx")


@pytest.mark.parametrize("caddy", present("caddy"))
def test_a_decision_goes_through_caddy(caddy: str, service: Served, tmp_path: Path) -> None:
    program = tool(caddy)
    home = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
    given = ("validate", "--adapter", "caddyfile", "--config")
    checked(program, *given, DEPLOY / "Caddyfile", env=home)
    port = free_port()
    site = (DEPLOY / "Caddyfile").read_text()
    site = site.replace("bandits.example.com {", f"http://127.0.0.1:{port} {{\n\tbind 127.0.0.1")
    site = site.replace("127.0.0.1:8080", service.address.removeprefix("http://"))
    (tmp_path / "Caddyfile").write_text("{\n\tadmin off\n}\n" + site)
    options = ["run", "--adapter", "caddyfile", "--config", str(tmp_path / "Caddyfile")]
    with running([program or "", *options], port):
        went_through(f"http://127.0.0.1:{port}", True, "through-caddy")


# -- systemd --------------------------------------------------------------------------------------


def unit() -> str:
    return (DEPLOY / "driftbandits.service").read_text()


@pytest.mark.parametrize("analyze", present("systemd-analyze"))
def test_systemd_takes_the_unit_and_finds_it_safe(analyze: str, tmp_path: Path) -> None:
    """With programs that exist here: systemd looks for them."""
    path = tmp_path / "driftbandits.service"
    path.write_text(
        unit().replace("/opt/driftbandits/bin/", str(Path(sys.executable).parent) + "/")
    )
    said = checked(tool(analyze), "verify", "--man=no", path)
    assert "driftbandits.service" not in said, said
    checked(tool(analyze), "security", "--offline=true", f"--threshold={MOST_EXPOSED}", path)


def test_the_unit_runs_commands_that_there_are() -> None:
    commands = re.findall(r"^ExecStart(?:Pre)?=\S+/driftbandits (.+)$", unit(), re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        options = [word for word in command.split() if word.startswith("--")]
        said = checked(sys.executable, "-m", "driftbandits", command.split()[0], "--help")
        assert all(option in said for option in options)


# -- containers -----------------------------------------------------------------------------------


def steps() -> list[tuple[str, str]]:
    """The instructions of the container file, continued lines joined."""
    text = re.sub(r"\\\n\s*", " ", (DEPLOY / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines]


def copied() -> list[str]:
    found = []
    for name, rest in steps():
        words = [word for word in rest.split() if not word.startswith("--")]
        if name == "COPY" and "--from" not in rest:
            found += words[:-1]
    return found


def test_the_image_copies_what_there_is_and_its_context_has_it() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert ignored[0] == "*"
    for path in copied():
        assert (ROOT / path).exists(), path
        assert f"!{path}" in ignored, path
    assert {line[1:] for line in ignored if line.startswith("!")} == set(copied())


def test_the_image_runs_as_nobody_and_says_how_it_is() -> None:
    last = max(i for i, (name, _) in enumerate(steps()) if name == "FROM")
    final = dict(steps()[last:])
    assert final["USER"] == "65534:65534"
    assert "/readyz" in final["HEALTHCHECK"]
    (start,) = json.loads(final["ENTRYPOINT"])
    assert start == "/opt/driftbandits/start.sh"
    assert os.access(DEPLOY / "start.sh", os.X_OK)
    checked("sh", "-n", DEPLOY / "start.sh")
    names = [name for name, _ in steps()]
    assert names.count("FROM") == 2
    known = {"ARG", "FROM", "WORKDIR", "RUN", "ENV", "COPY", "VOLUME", "USER", "EXPOSE"}
    assert set(names) <= known | {"HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT"}


def test_the_pins_of_the_image_are_those_of_the_tests() -> None:
    def pins(name: str) -> dict[str, str]:
        text = (ROOT / "requirements" / name).read_text()
        return dict(re.findall(r"^([\w.-]+)(==\S+)", text, re.MULTILINE))

    tested = pins("dev.txt")
    assert {name: tested[name] for name in pins("service.txt")} == pins("service.txt")


def test_compose_closes_what_it_can() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    ours = services["service"]
    assert (DEPLOY / ours["build"]["context"] / ours["build"]["dockerfile"]).resolve() == (
        DEPLOY / "Dockerfile"
    )
    assert ours["read_only"] is True
    assert ours["cap_drop"] == ["ALL"]
    assert ours["tmpfs"][0].startswith("/tmp:")
    assert all(port.startswith("127.0.0.1:") for port in ours["ports"])
    assert ours["environment"]["DRIFTBANDITS_STORE"].startswith("postgresql://")
    assert "PASSWORD" not in ours["environment"]["DRIFTBANDITS_STORE"]
    assert ours["depends_on"]["database"]["condition"] == "service_healthy"
    assert "healthcheck" in services["database"]


@pytest.mark.slow
def test_the_commands_of_the_image(tmp_path: Path) -> None:
    """Its build and its start without its isolation: the same commands, below another folder."""
    home = tmp_path / "opt" / "driftbandits"
    source = tmp_path / "src"
    for path in copied():
        target = source / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / path).is_dir():
            shutil.copytree(ROOT / path, target)
        else:
            shutil.copy(ROOT / path, target)
    clean = {name: os.environ[name] for name in os.environ if not name.startswith("DRIFTBANDITS")}
    clean |= {"PATH": f"{home}/bin:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    build = steps()[: [name for name, _ in steps()].index("FROM", 2)]
    for name, rest in build:
        if name == "RUN":
            checked(
                "sh", "-euc", rest.replace("/opt/driftbandits", str(home)), cwd=source, env=clean
            )
    start = tmp_path / "start.sh"
    port = free_port()
    script = (DEPLOY / "start.sh").read_text()
    for given, ours in (
        ("/tmp/", f"{tmp_path}/"),  # first: the other paths are below it
        ("/opt/driftbandits", str(home)),
        ("--port 8080", f"--port {port}"),
        ("0.0.0.0", "127.0.0.1"),
    ):
        assert given in script
        script = script.replace(given, ours)
    start.write_text(script)
    clean["DRIFTBANDITS_STORE"] = f"sqlite:///{tmp_path}/log.db"
    process = subprocess.Popen(
        ["sh", str(start)], env=clean, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until_ready(f"http://127.0.0.1:{port}")
        health = json.loads(dict(steps())["HEALTHCHECK"].partition("CMD ")[2])
        checked(home / "bin" / "python", "-c", health[2].replace("8080", str(port)))
    finally:
        process.terminate()
        out, errors = process.communicate(timeout=60)
    assert "first admin key" in out
    assert "compiling" not in errors  # the kernels were there
