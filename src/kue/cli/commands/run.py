"""``kue run``: deploy verticles in a runtime, as the launcher of Vert.x does."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from kue.aio.event_loop import on_signals
from kue.aio.event_loop import run as run_loop
from kue.bus import EventBus
from kue.bus.cluster import NEEDS_REDIS, can_cluster
from kue.cli.context import as_usage_error, command, settings_here
from kue.cli.output.console import DONE, INTERRUPTED, REFUSED, print_message
from kue.cli.params import POSITIVE
from kue.model.errors import ConfigError
from kue.model.payload import MAX_DATA
from kue.runtime import Runtime
from kue.runtime.failover import DEFAULT_GROUP
from kue.runtime.verticle import find
from kue.supervisor import log_format

if TYPE_CHECKING:
    from kue.model.settings import Settings


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to deploy, and how."""

    verticles: tuple[str, ...]
    cluster: bool
    ha: bool
    group: str = DEFAULT_GROUP
    quorum: int = 1
    instances: int
    worker: bool
    config: dict[str, Any]


@command
@click.argument("verticles", metavar="VERTICLE…", nargs=-1, required=True)
@click.option("--cluster", is_flag=True, help="Join the cluster on the Redis of --url.")
@click.option("--ha", is_flag=True, help="Let verticles fail over; implies --cluster.")
@click.option("--group", help="With --ha: the nodes that take over for each other.")
@click.option("--quorum", type=POSITIVE, help="With --ha: nodes needed; 1 if omitted.")
@click.option("--conf", metavar="FILE", help="Config: a file of JSON, or JSON itself.")
@click.option("--instances", default=1, type=POSITIVE, help="How many of each.")
@click.option("--worker", is_flag=True, help="On threads, where they may block.")
def run(conf: str | None, **given: Any) -> int:
    """
    Deploy verticles until a signal stops them.

    VERTICLE is module:Class; the module is searched in this folder, too.

    \b
      kue run app:Mailer --conf config.json --instances 4
      kue run kue.vertx:KueVerticle --cluster --ha --url redis://localhost

    All of them share one runtime with an event bus.  With --cluster its bus and shared
    data are those of all nodes.  Ctrl-C and SIGTERM undeploy them, so that running jobs
    get their grace; a second signal ends the process at once.
    """
    settings = settings_here()
    for name in ("group", "quorum"):
        if given[name] is None:
            del given[name]
        elif not given["ha"]:
            raise click.UsageError(
                f"--{name} is for verticles that fail over: add --ha"
            )
    given["cluster"] = given["cluster"] or given["ha"]
    if given["cluster"] and not can_cluster(settings.url):
        raise ConfigError(f"{NEEDS_REDIS}; give --url redis://…, or no --cluster")
    request = RunRequest(config=_config(conf), **given)
    # Verticles that name no queue use the one that this command names.
    os.environ["KUE_URL"] = settings.url
    sys.path.insert(0, str(Path.cwd()))
    with as_usage_error():
        for name in request.verticles:
            find(name)
    log_format.configure("run", format="text", level="INFO")
    return run_loop(_run(request, settings))


async def _run(request: RunRequest, settings: Settings) -> int:
    stop = asyncio.Event()

    def handle_signal() -> None:
        if stop.is_set():
            os._exit(INTERRUPTED)
        stop.set()

    with on_signals(dict.fromkeys((signal.SIGINT, signal.SIGTERM), handle_signal)):
        async with _runtime(request, settings) as runtime:
            for name in request.verticles:
                try:
                    await _deploy(runtime, name, request)
                except Exception as exc:
                    print_message(f"{name} could not be deployed: {_reason(exc)}")
                    return REFUSED
            await stop.wait()
            print_message("undeploying (signal again to end at once)")
    return DONE


def _runtime(request: RunRequest, settings: Settings) -> Runtime:
    if not request.cluster:
        return Runtime(bus=EventBus())
    return Runtime.clustered(
        settings.url,
        prefix=settings.prefix,
        ha=request.ha,
        group=request.group,
        quorum=request.quorum,
    )


async def _deploy(runtime: Runtime, name: str, request: RunRequest) -> None:
    await runtime.deploy(
        name,
        config=request.config,
        instances=request.instances,
        worker=request.worker,
        ha=request.ha,
    )
    times = f", {request.instances} instances" if request.instances > 1 else ""
    print_message(f"{name} is deployed{times}; Ctrl-C stops")


def _config(given: str | None) -> dict[str, Any]:
    """Read a config: JSON, or the name of a file of it."""
    if given is None:
        return {}
    text: str | bytes = given
    if not given.lstrip().startswith("{"):
        path = Path(given)
        if not path.is_file():
            raise click.UsageError(f"there is no file {given!r} for --conf")
        if path.stat().st_size > MAX_DATA:
            raise click.UsageError(f"{given} has more than {MAX_DATA:,} bytes")
        text = path.read_bytes()
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise click.UsageError(f"--conf is not a JSON object: {exc}") from None


def _reason(exc: Exception) -> str:
    return f"{type(exc).__name__}: {exc}"
