"""``kue job signal``: send a signal to a job that waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kue.cli.context import as_usage_error, changes, json_option
from kue.cli.input import read_argument
from kue.cli.output.listing import show_one
from kue.cli.params import JOB_ID

if TYPE_CHECKING:
    from kue.client.queue import Kue


@changes
@click.argument("job_id", metavar="ID", type=JOB_ID)
@click.argument("name")
@click.argument("data", required=False)
@json_option(help="Write a JSON object: id, signal.")
async def signal(
    q: Kue, job_id: int, name: str, data: str | None, as_json: bool
) -> None:
    """
    Send a signal to a job: what its handler waits for with job.wait_for(NAME).

    DATA is JSON; - reads it from standard input.  The signal is kept until the job
    waits for it; a job that waits goes on at once.

    \b
      kue job signal 7 approved
      kue job signal 7 approved '{"by": "ann"}'
    """
    value = None if data is None else read_argument(data, what="data")
    with as_usage_error():
        await q.signal(job_id, name, value)
    sent = {"id": job_id, "signal": name}
    show_one(sent, str(job_id), "sent", as_json=as_json)
