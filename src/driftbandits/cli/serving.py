"""The commands of the decision service."""

from __future__ import annotations

import re
import sys
import time
from contextlib import nullcontext
from typing import Any

import click

from driftbandits.cli.terminal import (
    POSITIVE,
    WHOLE,
    Failed,
    Progress,
    check_store,
    option,
    show_help,
)

DEFAULT_STORE = "sqlite:///driftbandits.db"

STORE = option(
    "--store url",
    str,
    "Address of the store: sqlite:///FILE or postgresql://USER@HOST/DATABASE.",
    DEFAULT_STORE,
    envvar="DRIFTBANDITS_STORE",
    show_envvar=True,
    metavar="URL",
)
_THOUSAND, _MILLION = click.IntRange(min=1000), click.IntRange(min=1_000_000)
_PENDING = "Decisions of a key that may wait for rewards, in each policy."
_WAITING = "Largest sum of the bodies that wait for answers, in bytes."
_STATES = "Largest sum of the states of a key's policies, in bytes."
_RETENTION = "Age in days from which the content of events is erased."
_LOG = "Format of the messages on stderr; JSON lines hold no content of requests."


@click.command()
@STORE
@option("--host", str, "Address to listen on.", "127.0.0.1")
@option("--port", click.IntRange(0, 65535), "Port to listen on; 0 takes a free one.", 8080)
@option("--no-auth", bool, "Ask for no keys; on a loopback address only.")
@option("--rate rate_per_key", POSITIVE, "Requests that a key may send in a second.")
@option("--max-pending pending_per_key", WHOLE, _PENDING, 100_000)
@option("--max-body body_bytes", _THOUSAND, "Largest body of a request, in bytes.", 2 * 1024**2)
@option("--max-waiting waiting_bytes", _THOUSAND, _WAITING, 16 * 1024**2)
@option("--max-state state_bytes", _MILLION, "Largest state of a policy, in bytes.", 64_000_000)
@option("--max-states state_bytes_per_key", _MILLION, _STATES, 1_000_000_000)
@option("--retention-days", POSITIVE, _RETENTION)
@option("--log log_kind", click.Choice(["text", "json"]), _LOG, "text")
@option("--access-log", bool, "Write a message for every request.")
def serve(
    *,
    url: str,
    host: str,
    port: int,
    no_auth: bool,
    retention_days: float | None,
    log_kind: str,
    access_log: bool,
    **limits: Any,
) -> None:
    """Serve decisions over HTTP and keep every event in a store.

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
        limits=Limits(**limits),
        retention_days=retention_days,
        access_log=access_log,
    )
    try:
        server = Server(settings, host, port)
    except StoreError as error:  # such as a store that another process serves
        raise Failed(str(error)) from None
    click.echo(f"driftbandits serves on {server.address}")
    click.echo("data: " + re.sub(r"(?<=://)([^:/@]*):[^/]*@", r"\1:***@", url))  # no password
    if server.service.first_key is not None:
        click.echo(f"first admin key, shown this once: {server.service.first_key}")
    sys.stdout.flush()
    with journal(log_kind) if log_kind == "json" or access_log else nullcontext():
        code = server.run()
    if code:
        raise Failed("the writer has died; see the messages above")


@click.command()
@STORE
def verify(*, url: str) -> None:
    """Replay the logs of a store and check them.

    The exit code is 0 if everything in the store is as it was written, and 1 otherwise.

    \b
    Example:
      driftbandits verify --store sqlite:///driftbandits.db
    """
    from driftbandits import store
    from driftbandits.service.verifying import verify as run

    check_store("--store", url)
    progress = Progress("events")
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
@STORE
@click.option(
    "--to", "target", required=True, metavar="URL", help="Address of an empty or new store."
)
def backup(*, url: str, target: str) -> None:
    """Copy a store to another one; it may be in use meanwhile.

    \b
    Example:
      driftbandits backup --store sqlite:///driftbandits.db --to sqlite:///monday.db
    """
    from driftbandits import store

    check_store("--store", url)
    with store.open(url) as source:
        store.backup(source, target)
    click.echo(target)


@click.group(invoke_without_command=True)
@click.pass_context
def keys(context: click.Context) -> None:
    """Create, list and revoke the keys of a service."""
    show_help(context)


@keys.command("create")
@STORE
@option(
    "--role", click.Choice(["reader", "writer", "admin"]), "What the holder may do.", required=True
)
@option("--prefix", str, "Beginning of the names of the policies it is for.", "")
@option("--label", str, "Note on what the key is for.", "")
def create_key(*, url: str, role: str, prefix: str, label: str) -> None:
    """Create a key and print it; the store keeps only its hash.

    \b
    Example:
      driftbandits keys create --role writer --label shop
    """
    from driftbandits import store
    from driftbandits.service.auth import new_key

    token, key = new_key(role, prefix=prefix, label=label, now_ns=time.time_ns())
    with store.open(url) as log, log.write() as session:
        session.add_key(key)
    click.echo(token)


@keys.command("list")
@STORE
def list_keys(*, url: str) -> None:
    """List the keys with their ids, roles and labels."""
    from driftbandits import store

    check_store("--store", url)
    with store.open(url) as log, log.read() as session:
        for key in session.api_keys():
            state = "revoked" if key.revoked_ns else "in use"
            click.echo(f"{key.id}  {key.role:6}  {state:7}  {key.prefix or '*'}  {key.label}")


@keys.command("revoke")
@STORE
@click.argument("id")
def revoke_key(*, url: str, id: str) -> None:
    """Revoke a key by its ID; services refuse it within seconds."""
    from driftbandits import store

    check_store("--store", url)
    with store.open(url) as log, log.write() as session:
        if not session.revoke_key(id, at_ns=time.time_ns()):
            raise click.UsageError(f"ID must be that of a key in use, see `keys list`; got {id!r}")
    click.echo(f"{id} is revoked")


@click.command("compile")
def compile_kernels() -> None:
    """Compile the kernels of every policy ahead of their first use.

    They are kept in the folder that DRIFTBANDITS_CACHE_DIR names, or in the user's cache; the
    command prints which.
    """
    from driftbandits.jit.cache import cache_directory
    from driftbandits.policies import FAMILIES
    from driftbandits.service.kernels import make_ready

    make_ready(FAMILIES)
    click.echo(cache_directory())


COMMANDS: tuple[click.Command, ...] = (serve, verify, backup, keys, compile_kernels)
