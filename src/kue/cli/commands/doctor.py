"""``kue doctor``: check that a store is consistent, and repair it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click
import msgspec
from rich.table import Table
from rich.text import Text

from kue.aio.event_loop import run
from kue.cli.audit import note_command
from kue.cli.context import settings_here, url_option
from kue.cli.output.console import DONE, EXIT_CODES, REFUSED, output, print_message
from kue.cli.output.listing import progress
from kue.cli.output.text import visible
from kue.cli.stuck_jobs import print_failed_parents
from kue.cli.unknown_names import print_unhandled_types
from kue.model.errors import StoreCorrupt
from kue.store import refuse_missing_file, store_for
from kue.store.values import Finding

if TYPE_CHECKING:
    from kue.store.contract import Store


class DoctorReport(msgspec.Struct):
    """What the doctor found, as ``--json`` writes it."""

    store: str
    durability: str
    jobs: int
    findings: tuple[Finding, ...]


@click.command(epilog=EXIT_CODES)
@click.argument("url", required=False)
@url_option
@click.option("--repair", is_flag=True, help="Repair whatever needs no guessing.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
def doctor(url: str | None, repair: bool, as_json: bool) -> int:
    """
    Check that no job is lost, stuck or in two states at once.

    Checks every job of the queue at URL, which may stay in use.  Each finding is a
    line: code, job, problem, and the repair that was or would be done.  Exits with 1 if
    any finding was not repaired.

    \b
      kue doctor
      kue doctor redis://localhost:6379/0 --repair
    """
    config = settings_here(url)
    refuse_missing_file(config.url)
    found = run(_examine(store_for(config), repair=repair))
    _show(found, as_json=as_json)
    print_message(_summary(found))
    is_sound = all(finding.repaired for finding in found.findings)
    return DONE if is_sound else REFUSED


async def _examine(store: Store, *, repair: bool) -> DoctorReport:
    try:
        durability = await store.open()
        print_message(f"{store.name}: {durability}")
        with progress() as bars:
            task = bars.add_task("Checking jobs", total=None)
            report = await store.check(
                repair=repair,
                on_progress=lambda done, total: bars.update(
                    task, completed=done, total=total
                ),
            )
        if repair:
            await note_command(store, None)
        # Unreadable data is a finding already.
        with suppress(StoreCorrupt):
            print_unhandled_types(await store.count(), await store.workers())
            await print_failed_parents(store)
    finally:
        await store.close()
    return DoctorReport(store.name, durability, report.jobs, report.findings)


def _show(found: DoctorReport, *, as_json: bool) -> None:
    console = output()
    if as_json:
        click.echo(msgspec.json.encode(found))
    elif found.findings and console.is_terminal:
        table = Table("Finding", "Job", "Problem", "Repair")
        for finding in found.findings:
            # As Text: a job's data may look like markup.
            table.add_row(*map(Text, _cells(finding)))
        console.print(table)
    else:
        for finding in found.findings:
            click.echo("\t".join(_cells(finding)))


def _cells(finding: Finding) -> tuple[str, str, str, str]:
    job = "" if finding.job_id is None else str(finding.job_id)
    if finding.repaired:
        repair = f"done: {finding.repair}"
    elif finding.repair:
        repair = f"--repair would: {finding.repair}"
    else:
        repair = "a person must decide"
    return finding.code, job, _flat(finding.message), _flat(repair)


def _flat(text: str) -> str:
    """Return *text* as one line without tabs."""
    return visible(" ".join(text.split()))


def _summary(found: DoctorReport) -> str:
    checked = f"checked {found.jobs:,} jobs"
    if not found.findings:
        return f"{checked}; no problems found"
    repaired = sum(finding.repaired for finding in found.findings)
    left = len(found.findings) - repaired
    if not left:
        return f"{checked}; repaired all of {repaired} findings"
    return (
        f"{checked}; {len(found.findings)} findings, {repaired} repaired, {left} left"
    )
