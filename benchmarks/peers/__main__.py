"""``python -m benchmarks.peers``: install peers, measure them, write the results."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchmarks.peers import report
from benchmarks.peers.catalogue import OURS, PEERS
from benchmarks.peers.cores import here, pin, plan_cores
from benchmarks.peers.environments import NotInstalled, install
from benchmarks.peers.measure import Scale
from benchmarks.peers.processes import forget_logs
from benchmarks.peers.progress import show_progress
from benchmarks.peers.results import Results
from benchmarks.peers.rounds import Rounds
from benchmarks.peers.server import started

if TYPE_CHECKING:
    from benchmarks.peers.catalogue import Contender

ROUNDS = 3
QUICK = Scale(
    rounds=1, share=0.2, one_by_one=300, naps=800, pings=100, ping_seconds=3.0
)


@click.group()
def main() -> None:
    """Compare Kue with other job queues on Redis."""


def _names(context: click.Context, option: click.Parameter, text: str) -> list[str]:
    known = [one.name for one in (*OURS, *PEERS)]
    wanted = [name.strip() for name in text.split(",")] if text else known
    for name in wanted:
        if name not in known:
            raise click.BadParameter(f"{name!r} is none of {', '.join(known)}")
    return wanted


ONLY = click.option(
    "--only", default="", callback=_names, help="Only these queues: kue,bullmq."
)


@main.command()
@ONLY
def setup(only: list[str]) -> None:
    """Create the environments of the peers under build/peers."""
    results = Results(only)
    _set_up(_peers(only), results)
    for name, reasons in results.missing.items():
        click.echo(f"{name}: {next(iter(reasons.values()))}", err=True)


@main.command()
@ONLY
@click.option("--rounds", type=click.IntRange(1), help=f"Rounds; else {ROUNDS}.")
@click.option("--quick", is_flag=True, help="Few jobs, one round: does it work at all?")
@click.option(
    "--write-docs",
    is_flag=True,
    help="Put the tables into the docs; not with --only or --quick.",
)
@click.option(
    "--json",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("build/peers.json"),
    show_default=True,
    help="Where to write the figures.",
)
def run(
    only: list[str], rounds: int | None, quick: bool, write_docs: bool, path: Path
) -> None:
    """
    Measure all queues in turn, in rounds; install what is missing.

    Needs redis-server in PATH, and starts it on a free port.
    """
    # Exit normally, so that adapters are ended: they have their own sessions.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    peers = _peers(only)
    results = Results([peer.name for peer in peers])
    contenders = [*(one for one in OURS if one.name in only), *_set_up(peers, results)]
    forget_logs(contenders)
    known = _measure(contenders, results, _scale(rounds, quick=quick), path)
    report.print_tables(results)
    click.echo(f"written to {path}", err=True)
    if write_docs and not quick and len(only) == len(OURS) + len(PEERS):
        report.write_page(report.markdown(results, known))
        click.echo(f"and into {report.PAGE}", err=True)


def _measure(
    contenders: list[Contender], results: Results, scale: Scale, path: Path
) -> dict[str, Any]:
    """Measure all rounds; return the conditions."""
    cores, known = here(), dict[str, Any]()
    plan = plan_cores(cores)
    with started(plan.server) as server:
        # This process shares the server's core, not those of the contenders.
        pin(0, plan.server)
        for _ in Rounds(contenders, results, server, plan, scale).each():
            # After each round, so that an interrupted run keeps its results.
            known = report.conditions(results, scale, redis=server.version, cores=cores)
            report.write_json(results, known, path)
    return known


def _scale(rounds: int | None, *, quick: bool) -> Scale:
    scale = QUICK if quick else Scale(rounds=ROUNDS)
    return replace(scale, rounds=rounds or scale.rounds)


def _peers(only: list[str]) -> list[Contender]:
    return [peer for peer in PEERS if peer.name in only]


def _set_up(peers: list[Contender], results: Results) -> list[Contender]:
    """Install *peers*; return those that were installed."""
    ready = []
    with show_progress(len(peers)) as next_step:
        for peer in peers:
            next_step(f"setting up {peer.name}")
            try:
                install(peer)
                ready.append(peer)
            except NotInstalled as exc:
                results.refuse(peer.name, f"it could not be installed: {exc}")
    return ready


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.peers")
