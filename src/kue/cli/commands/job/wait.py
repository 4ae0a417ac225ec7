"""``kue job wait``: wait for the result of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kue.cli.context import reads
from kue.cli.output.console import DONE, REFUSED, Command, print_message
from kue.cli.output.listing import progress_bar, show_json
from kue.cli.params import DURATION, JOB_ID

if TYPE_CHECKING:
    from datetime import timedelta

    from kue.client.queue import Kue


@click.command(cls=Command)
@click.argument("job_id", metavar="ID", type=JOB_ID)
@click.option(
    "--timeout", type=DURATION, help="Stop waiting after this; the job goes on."
)
@click.option("--json", is_flag=True, expose_value=False, help="The result is JSON.")
@reads
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
