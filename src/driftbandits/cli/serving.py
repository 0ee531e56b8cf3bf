"""The commands of the decision service."""

from __future__ import annotations

import re
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import click

from driftbandits.cli.terminal import Failed, Progress

DEFAULT_STORE = "sqlite:///driftbandits.db"

_store = click.option(
    "--store",
    "url",
    default=DEFAULT_STORE,
    envvar="DRIFTBANDITS_STORE",
    show_default=True,
    show_envvar=True,
    metavar="URL",
    help="sqlite:///FILE or postgresql://USER@HOST/DATABASE.",
)


@click.command()
@_store
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True)
@click.option("--no-auth", is_flag=True, help="No keys; on a loopback address only.")
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), help="Requests a second and key."
)
@click.option(
    "--max-pending",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    help="Decisions of a key that may wait for rewards, in each policy.",
)
@click.option(
    "--max-body",
    type=click.IntRange(min=1000),
    default=2 * 1024 * 1024,
    show_default=True,
    help="Bytes of a request.",
)
@click.option(
    "--max-waiting",
    type=click.IntRange(min=1000),
    default=16 * 1024 * 1024,
    show_default=True,
    help="Bytes of requests that wait for their answers.",
)
@click.option(
    "--max-state",
    type=click.IntRange(min=1_000_000),
    default=64_000_000,
    show_default=True,
    help="Bytes of a policy's state.",
)
@click.option(
    "--max-states",
    type=click.IntRange(min=1_000_000),
    default=1_000_000_000,
    show_default=True,
    help="Bytes of the states of all policies of a key.",
)
@click.option(
    "--retention-days",
    type=click.FloatRange(min=0, min_open=True),
    help="Erase the content of older events.",
)
@click.option(
    "--log",
    "log_kind",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How messages on stderr look; JSON lines have no content of requests.",
)
@click.option("--access-log", is_flag=True, help="A message for every request.")
def serve(
    *,
    url: str,
    host: str,
    port: int,
    no_auth: bool,
    rate: float | None,
    max_pending: int,
    max_body: int,
    max_waiting: int,
    max_state: int,
    max_states: int,
    retention_days: float | None,
    log_kind: str,
    access_log: bool,
) -> None:
    """Serve decisions over HTTP, from a log that loses nothing.

    \b
    Examples:
      driftbandits serve
      driftbandits serve --store postgresql://bandits@db/bandits --host 0.0.0.0
    """
    from driftbandits.service import Limits, Settings
    from driftbandits.service.journal import journal
    from driftbandits.service.server import Server
    from driftbandits.store import StoreError

    settings = Settings(
        url,
        with_keys=not no_auth,
        limits=Limits(
            body_bytes=max_body,
            pending_per_key=max_pending,
            rate_per_key=rate,
            waiting_bytes=max_waiting,
            state_bytes=max_state,
            state_bytes_per_key=max_states,
        ),
        retention_days=retention_days,
        access_log=access_log,
    )
    try:
        server = Server(settings, host, port)
    except StoreError as error:
        raise Failed(str(error)) from None
    click.echo(f"driftbandits serves on {server.address}")
    click.echo(f"data: {_without_password(url)}")
    if server.service.first_key is not None:
        click.echo(f"first admin key, shown this once: {server.service.first_key}")
    sys.stdout.flush()
    with journal(log_kind) if log_kind == "json" or access_log else nullcontext():
        code = server.run()
    if code:
        raise Failed("the writer has died; see the messages above")


def _without_password(url: str) -> str:
    return re.sub(r"(?<=://)([^:/@]*):[^/]*@", r"\1:***@", url)


@click.command()
@_store
def verify(*, url: str) -> None:
    """Replay every log and check it; exits with 0 when all of it holds.

    \b
    Example:
      driftbandits verify --store sqlite:///driftbandits.db
    """
    from driftbandits import store
    from driftbandits.service.verifying import verify as run

    check_exists(url)
    progress = Progress()
    with store.open(url) as log:
        verdicts = run(log, say=progress)
    progress.end()
    if not verdicts:
        raise Failed(f"{url} has no policy: there is nothing that could hold")
    for verdict in verdicts:
        state = verdict.digest or "DOES NOT HOLD"
        click.echo(f"{verdict.policy}  {verdict.events} events  {state}")
        for fault in verdict.faults:
            click.echo(f"  {fault}")
    broken = [verdict.policy for verdict in verdicts if verdict.faults]
    if broken:
        raise Failed(f"the log does not hold for {', '.join(broken)}")


@click.command()
@_store
@click.option("--to", "target", required=True, metavar="URL", help="An empty or a new store.")
def backup(*, url: str, target: str) -> None:
    """Copy a store while it is in use, also from one kind of database to the other.

    \b
    Example:
      driftbandits backup --store sqlite:///driftbandits.db --to sqlite:///monday.db
    """
    from driftbandits import store

    check_exists(url)
    with store.open(url) as source:
        store.backup(source, target)
    click.echo(target)


def check_exists(url: str) -> None:
    """Opening a SQLite store makes it; a command that only reads one must not."""
    path = url.removeprefix("sqlite:///")
    if path != url and not Path(path).is_file():
        raise click.UsageError(f"--store: there is no file {path}")


@click.group()
def keys() -> None:
    """Make, list and revoke the keys of a service."""


@keys.command("create")
@_store
@click.option("--role", type=click.Choice(["reader", "writer", "admin"]), required=True)
@click.option("--prefix", default="", help="Only policies whose names begin with this.")
@click.option("--label", default="", help="What the key is for.")
def create_key(*, url: str, role: str, prefix: str, label: str) -> None:
    """Make a key and print it; only its hash is stored."""
    from driftbandits import store
    from driftbandits.service.auth import new_key

    token, key = new_key(role, prefix=prefix, label=label, now_ns=time.time_ns())
    with store.open(url) as log, log.write() as session:
        session.add_key(key)
    click.echo(token)


@keys.command("list")
@_store
def list_keys(*, url: str) -> None:
    """List the keys by their ids."""
    from driftbandits import store

    check_exists(url)
    with store.open(url) as log, log.read() as session:
        for key in session.api_keys():
            state = "revoked" if key.revoked_ns else "in use"
            click.echo(f"{key.id}  {key.role:6}  {state:7}  {key.prefix or '*'}  {key.label}")


@keys.command("revoke")
@_store
@click.argument("id")
def revoke_key(*, url: str, id: str) -> None:
    """Revoke the key with this ID; running services notice within seconds."""
    from driftbandits import store

    check_exists(url)
    with store.open(url) as log, log.write() as session:
        if not session.revoke_key(id, at_ns=time.time_ns()):
            raise Failed(f"there is no key {id} in use")
    click.echo(f"{id} is revoked")


@click.command("compile")
def compile_kernels() -> None:
    """Compile the kernels of every policy now, so that no start has to.

    They are kept in the folder that DRIFTBANDITS_CACHE_DIR names, or in the user's cache.
    """
    from driftbandits.jit.cache import cache_directory
    from driftbandits.policies import FAMILIES
    from driftbandits.service.kernels import make_ready

    make_ready(FAMILIES)
    click.echo(cache_directory())


COMMANDS: tuple[click.Command, ...] = (serve, verify, backup, keys, compile_kernels)
