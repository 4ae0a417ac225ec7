"""A worker of one type, in its own process, that writes down the alerts it noticed."""

from __future__ import annotations

import asyncio
import sys

from kue import ActiveJob, Kue
from kue.model.alerts import AlertNotice
from kue.worker import alert_monitor


def main(url: str, prefix: str) -> None:
    alert_monitor.TURN_MS = 5
    alert_monitor.FIRST_SECONDS = alert_monitor.CHECK_SECONDS = 0.01
    q = Kue(url, prefix=prefix, budget="60s", lease="60s")

    @q.process("report")
    async def report(job: ActiveJob) -> None: ...

    @q.on_alert
    def write(notice: AlertNotice) -> None:
        sys.stdout.write(f"{notice.status} {notice.type} {notice.kind}\n")
        sys.stdout.flush()

    asyncio.run(q.run())


if __name__ == "__main__":
    main(*sys.argv[1:])
