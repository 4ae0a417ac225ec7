"""``kue worker``: run the jobs of a queue, in supervised processes."""

from __future__ import annotations

import asyncio
import os
import re
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from setproctitle import setproctitle

from kue.cli.output.console import EXIT_CODES, REFUSED, print_message
from kue.cli.params import DURATION, PORT_NUMBER, POSITIVE, Parsed, env_option
from kue.model.errors import ConfigError
from kue.supervisor import log_format
from kue.supervisor.app_loader import split
from kue.supervisor.options import (
    COOLDOWN_SECONDS,
    GRACE_SECONDS,
    MAX_PROCESSES,
    STUCK_SECONDS,
    TARGET_WAIT_SECONDS,
    SupervisorOptions,
)
from kue.supervisor.supervisor import NotStarted, Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from datetime import timedelta

#: By how many -v minus -q.
LEVELS = {-2: "ERROR", -1: "WARNING", 0: "INFO", 1: "DEBUG"}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.ASCII | re.IGNORECASE)
_POWERS = "KMGT"
_RANGE = re.compile(r"(\d{1,6})(?::(\d{1,6}))?", re.ASCII)


class ProcessRange(NamedTuple):
    """The least and the most processes; the same for a fixed number."""

    least: int
    most: int


def _size(value: Any) -> int:
    """Read an amount of memory: bytes, or text such as 512MB or 1.5GiB."""
    if isinstance(value, int):
        return value
    found = _SIZE.fullmatch(value.strip())
    if found is None:
        raise ValueError(f"{value!r} is not an amount of memory; write 512MB")
    number, unit, binary = found.groups()
    power = _POWERS.index(unit.upper()) + 1 if unit else 0
    return int(float(number) * (1024 if binary else 1000) ** power)


def _names(value: Any) -> tuple[str, ...]:
    """Read names separated by commas."""
    if isinstance(value, tuple):
        return value
    names = tuple(name.strip() for name in value.split(",") if name.strip())
    if not names:
        raise ValueError("no name is given; leave the option out to serve all")
    return names


def _processes(value: Any) -> ProcessRange:
    """Read a number of processes, or the least and the most: 1:8."""
    if isinstance(value, ProcessRange):
        return value
    found = _RANGE.fullmatch(str(value).strip())
    if found is None:
        raise ValueError(f"{value!r} is not a number of processes; write 4, or 1:8")
    least = int(found[1])
    most = int(found[2] or least)
    if most < least:
        raise ValueError(f"{value!r} has the most first; write {most}:{least}")
    if not 1 <= least <= most <= MAX_PROCESSES:
        raise ValueError(f"{value!r} is not from 1 to {MAX_PROCESSES} processes")
    return ProcessRange(least, most)


option = partial(env_option, "WORKER")


@click.command(epilog=EXIT_CODES)
@click.argument("target", envvar="KUE_APP")
@option(
    "--processes",
    type=Parsed("number", _processes),
    default="1",
    help="How many processes run jobs: 4; or from 1 to 8, by backlog: 1:8.",
)
@option(
    "--balance",
    is_flag=True,
    help="Follow the backlog, as a range of processes does; a number is refused.",
)
@option(
    "--target-wait",
    type=DURATION,
    default=f"{TARGET_WAIT_SECONDS:g}s",
    help="With a range: start processes when waiting jobs would take longer.",
)
@option(
    "--cooldown",
    type=DURATION,
    default=f"{COOLDOWN_SECONDS:g}s",
    help="With a range: stop a process that was not needed for this long.",
)
@option(
    "--concurrency",
    type=POSITIVE,
    help="Jobs at once in each process; else as the tasks define.",
)
@option(
    "--connection",
    metavar="NAME",
    help="Work on this connection of $KUE_CONNECTIONS, not on that of the queue.",
)
@option(
    "--types",
    type=Parsed("names", _names),
    default=(),
    help="Run only these types: a,b,c.",
)
@option(
    "--queues",
    type=Parsed("names", _names),
    default=(),
    help="Serve these queues instead: mail,default; mail-*; '!mail-bulk': all but it.",
)
@option(
    "--strict",
    is_flag=True,
    help="Prefer types or queues in the given order, instead of sharing fairly.",
)
@option("--burst", is_flag=True, help="Exit when there is nothing left to do.")
@option(
    "--max-jobs",
    type=POSITIVE,
    help="Replace a process after about this many jobs.",
)
@option("--max-age", type=DURATION, help="Replace a process after this time: 6h.")
@option(
    "--max-memory",
    type=Parsed("size", _size),
    help="Replace a process that uses more: 512MB.",
)
@option(
    "--grace",
    type=DURATION,
    default=f"{GRACE_SECONDS:g}s",
    help="How long jobs may run on after a stop; then they are requeued.",
)
@option(
    "--stuck-after",
    type=DURATION,
    default=f"{STUCK_SECONDS / 60:g}m",
    help="Kill a process whose event loop is blocked for this long; 0 is never.",
)
@option("--reload", is_flag=True, help="Restart when code changes; for development.")
@option(
    "--health-file",
    type=click.Path(dir_okay=False),
    help="Touch this file every second while healthy, else remove it.",
)
@option(
    "--health-port", type=PORT_NUMBER, help="Serve /healthz and /readyz on this port."
)
@option("--health-host", default="127.0.0.1", help="The address for --health-port.")
@option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="How log records are written to standard error.",
)
@option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    help="The lowest level that is logged; else set by -q and -v.",
)
@option("-q", "--quiet", count=True, help="Log less; twice: errors only.")
@option("-v", "--verbose", count=True, help="Log every job as well.")
def worker(**given: Any) -> int:
    """
    Run the jobs of the queue TARGET.

    TARGET is module:attribute, such as app:q for the q in app.py, or path/to/app.py:q.
    Without :attribute it is the only queue there; without TARGET it is $KUE_APP.

    \b
      kue worker app:q
      kue worker app:q --processes 4 --types email,report --max-memory 512MB
      kue worker app:q --processes 1:8   as many as the backlog needs
      kue worker app:q --reload          while you write it
      kue worker app:q --burst           in tests and cron jobs

    With a range of processes, more are started when the waiting jobs would take longer
    than --target-wait; one leaves, once its jobs have ended, when it was not needed for
    the time of --cooldown.

    SIGTERM and Ctrl-C give jobs the grace period to end; a second signal requeues them
    at once, a third one kills.  SIGHUP replaces the processes one after the other; new
    ones load the current code.
    """
    return run(options_of(**given), _supervise)


def options_of(
    *,
    target: str,
    processes: ProcessRange,
    balance: bool,
    target_wait: timedelta,
    cooldown: timedelta,
    max_age: timedelta | None,
    grace: timedelta,
    stuck_after: timedelta,
    log_level: str | None,
    quiet: int,
    verbose: int,
    **given: Any,
) -> SupervisorOptions:
    """Return the options given on the command line."""
    split(target)
    is_range = processes.most > processes.least
    if balance and not is_range:
        raise click.UsageError("--balance needs a range, such as --processes 1:8")
    if given["types"] and given["queues"]:
        raise click.UsageError("give --types or --queues, not both")
    if not target_wait:
        raise click.UsageError("--target-wait must be more than 0")
    level = log_level or LEVELS[max(-2, min(verbose - quiet, 1))]
    return SupervisorOptions(
        target=target,
        processes=processes.least,
        most_processes=processes.most if is_range else None,
        target_wait=target_wait.total_seconds(),
        cooldown=cooldown.total_seconds(),
        max_age=max_age.total_seconds() if max_age else None,
        grace=grace.total_seconds(),
        stuck_after=stuck_after.total_seconds(),
        log_level=level.upper(),
        **given,
    )


def run(
    options: SupervisorOptions,
    supervise: Callable[[SupervisorOptions], Coroutine[Any, Any, int]],
) -> int:
    """Run *supervise* as the supervisor process."""
    if os.name != "posix":
        raise ConfigError(
            "kue worker needs a Unix: elsewhere, run await q.run() in a program"
        )
    setproctitle(f"kue worker {options.target} (supervisor)")
    handler = log_format.configure(
        "supervisor", format=options.log_format, level=options.log_level
    )
    try:
        with log_format.unblocked(handler):
            # Not uvloop: there is little to do, and it takes memory.
            return asyncio.run(supervise(options))
    except NotStarted as exc:
        if options.log_format == "json":
            log_format.logger.error("%s", exc, extra={"detail": exc.detail})
            return REFUSED
        if exc.detail:
            click.echo(exc.detail, err=True)
        print_message(f"cannot run the jobs of {options.target}: {exc}")
        return REFUSED


async def _supervise(options: SupervisorOptions) -> int:
    # Made in the event loop, which its futures belong to.
    return await Supervisor(options).run()
