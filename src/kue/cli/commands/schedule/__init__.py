"""``kue schedule``: recurring jobs, listed, added, changed and tried out."""

from __future__ import annotations

from kue.cli.commands.schedule.add import add
from kue.cli.commands.schedule.change import pause, remove, resume, run
from kue.cli.commands.schedule.list import list_
from kue.cli.commands.schedule.show import next_, show
from kue.cli.context import noun


@noun(add, list_, show, next_, pause, resume, run, remove)
def schedule() -> None:
    """
    List, add, pause, run and remove schedules: jobs that recur.

    Workers fire schedules while they run; no other process is needed.

    \b
      kue schedule list
      kue schedule add nightly report --cron "0 3 * * *" --tz Europe/Berlin
      kue schedule pause nightly
      kue schedule run nightly
    """
