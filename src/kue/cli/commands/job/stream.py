"""``kue job stream``: print what a job sends while it runs."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import click

from kue.cli.context import json_option, reads
from kue.cli.output.console import DONE, REFUSED, output, print_message
from kue.cli.output.listing import show_json
from kue.cli.output.text import json_text, visible
from kue.cli.params import DURATION, JOB_ID
from kue.model.errors import StreamRestarted

if TYPE_CHECKING:
    from datetime import timedelta

    from kue.client.handle import JobHandle
    from kue.client.queue import Kue
    from kue.model.stream import Chunk


@reads
@click.argument("job_id", metavar="ID", type=JOB_ID)
@click.option(
    "--timeout", type=DURATION, help="Stop after so long a silence; the job goes on."
)
@json_option(help="Write one JSON object per chunk: id, attempt, at, value.")
async def stream(q: Kue, job_id: int, timeout: timedelta | None, as_json: bool) -> int:
    """
    Print what a job sends while it runs, from the beginning until it ends.

    Text is printed as it is, without line breaks between chunks; other chunks are JSON,
    one per line.  If the job is started again in the meantime, a message reports it,
    and its stream begins again.  Exits with 1 when it failed or was cancelled, or after
    --timeout.

    \b
      kue job stream 7
      kue job stream $(kue job add answer '{"question": "why?"}')
      kue job stream 7 --json | jq .value
    """
    handle, printer = await q.get(job_id), _Printer(as_json=as_json)
    while True:
        try:
            await _print(handle, timeout, printer)
        except StreamRestarted:
            print_message(f"job {job_id} was started again; its stream begins again")
        except TimeoutError as exc:
            print_message(str(exc))
            return REFUSED
        else:
            return DONE


async def _print(
    handle: JobHandle[object], timeout: timedelta | None, printer: _Printer
) -> None:
    try:
        async with aclosing(handle.chunks(timeout=timeout)) as chunks:
            async for chunk in chunks:
                printer.show(chunk)
    finally:
        printer.end_line()


class _Printer:
    """Prints chunks: text in one piece, everything else line by line."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._is_terminal = output().is_terminal
        #: Whether there is text on the current line.
        self._is_open = False

    def show(self, chunk: Chunk) -> None:
        if self._as_json:
            known = {"id": chunk.id, "attempt": chunk.attempt, "at": chunk.at}
            show_json(known | {"value": chunk.value})
        elif isinstance(chunk.value, str):
            # As it comes: the rest of the line may take a while.
            click.echo(self._safe(chunk.value), nl=False)
            if chunk.value:
                self._is_open = not chunk.value.endswith("\n")
        else:
            self.end_line()
            click.echo(json_text(chunk.value))

    def end_line(self) -> None:
        if self._is_open:
            click.echo()
        self._is_open = False

    def _safe(self, text: str) -> str:
        """Return *text* without what could control the terminal, if it is for one."""
        if not self._is_terminal:
            return text
        return "\n".join(visible(line.expandtabs(4)) for line in text.split("\n"))
