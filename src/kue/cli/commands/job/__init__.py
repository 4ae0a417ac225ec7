"""``kue job``: add, list, show and change jobs."""

from __future__ import annotations

from kue.cli.commands.job.add import add
from kue.cli.commands.job.change import cancel, edit, move, remove, retry
from kue.cli.commands.job.list import list_
from kue.cli.commands.job.show import log, show, wait
from kue.cli.commands.job.signal import signal
from kue.cli.commands.job.stream import stream
from kue.cli.context import noun


@noun(add, show, list_, log, wait, stream, retry, cancel, remove, move, edit, signal)
def job() -> None:
    """
    Add, list, show and change jobs.

    \b
      kue job add email '{"to": "ann"}' --priority high
      kue job list --state failed
      kue job show 7
      kue job retry 7

    Where a command takes ids, - reads them from standard input, one per line:

    \b
      kue job list --text ann | kue job cancel -
    """
