"""``kue job log`` and ``wait``: follow a job to its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click
import msgspec

from kue.cli.context import json_option, reads
from kue.cli.output.console import DONE, REFUSED, output, print_message
from kue.cli.output.listing import progress_bar, show_json, show_line
from kue.cli.output.text import iso, visible
from kue.cli.params import DURATION, JOB_ID
from kue.store.values import MAX_LOG_LINES, LogLine
from kue.worker.progress_values import LEVELS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import timedelta

    from kue.client.handle import JobHandle
    from kue.client.queue import Kue

#: How often --follow reads the log: stores publish no event for log lines.
LOOK_SECONDS = 0.5


@reads
@click.argument("job_id", metavar="ID", type=JOB_ID)
@click.option("--follow", "-f", is_flag=True, help="Continue until the job has ended.")
@click.option("--attempt", type=int, help="Only lines of this attempt.")
@click.option(
    "--level", type=click.Choice(LEVELS), default="debug", help="This level and above."
)
@json_option(help="Write one JSON object per line: text, level, attempt, at.")
async def log(
    q: Kue, job_id: int, follow: bool, attempt: int | None, level: str, as_json: bool
) -> None:
    """
    Print the log of a job: when, level, attempt, text.

    The newest 1,000 lines are kept with the job.

    \b
      kue job log 7 --level warning
      kue job log 7 --follow
    """
    handle = await q.get(job_id)
    wanted = frozenset(LEVELS[LEVELS.index(level) :])
    async for line in _lines(handle, follow=follow):
        if line.level not in wanted or attempt not in (None, line.attempt):
            continue
        if as_json:
            show_json(msgspec.to_builtins(line) | {"level": line.level, "at": line.at})
        elif output().is_terminal:
            click.echo(f"{iso(line.at)} {line.level:<8} {visible(line.text)}")
        else:
            show_line(iso(line.at), line.level, str(line.attempt), line.text)


async def _lines(handle: JobHandle[object], *, follow: bool) -> AsyncIterator[LogLine]:
    seen: list[LogLine] = []
    while True:
        # Checked before reading, so that its last lines are not missed.
        has_ended = (await handle.refresh()).state.is_final
        lines = await handle.logs()
        for line in unseen(seen, lines):
            yield line
        if has_ended or not follow:
            return
        seen = lines
        await asyncio.sleep(LOOK_SECONDS)


def unseen(seen: list[LogLine], lines: list[LogLine]) -> list[LogLine]:
    """Return the lines that are not in *seen*; the oldest may have been dropped."""
    if len(lines) < MAX_LOG_LINES:
        return lines[len(seen) :]
    for start in range(len(seen)):
        kept = seen[start:]
        if lines[: len(kept)] == kept:
            return lines[len(kept) :]
    return lines


@reads
@click.argument("job_id", metavar="ID", type=JOB_ID)
@click.option(
    "--timeout", type=DURATION, help="Stop waiting after this; the job goes on."
)
@click.option("--json", is_flag=True, expose_value=False, help="The result is JSON.")
async def wait(q: Kue, job_id: int, timeout: timedelta | None) -> int:
    """
    Wait until a job has ended, and print its result as one JSON document.

    Exits with 1 when it failed, was cancelled, or did not end within --timeout.

    \b
      kue job wait 7 --timeout 30s
      kue job wait $(kue job add report '{"month": "2026-10"}')
    """
    handle = await q.get(job_id)
    with progress_bar(f"Job {job_id}", 100) as update:
        handle.on("progress", lambda event: update(event.detail.get("progress", 0)))
        try:
            result = await handle.result(timeout)
        except TimeoutError as exc:
            print_message(str(exc))
            return REFUSED
    show_json(result)
    return DONE
