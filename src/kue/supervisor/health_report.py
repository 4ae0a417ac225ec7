"""Health reports of the supervisor: to the health file and to systemd."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kue.supervisor.health_server import HealthFile

if TYPE_CHECKING:
    from kue.supervisor.health import HealthCheck, SupervisorHealth
    from kue.supervisor.systemd import SystemdNotifier

REPORT_SECONDS = 1.0


class HealthReporter:
    """Reports health every second."""

    def __init__(
        self,
        health_check: HealthCheck,
        notifier: SystemdNotifier,
        health_file: str | None,
    ) -> None:
        self._health_check = health_check
        self._notifier = notifier
        self._file = HealthFile(health_file) if health_file is not None else None
        self._was_ready = False

    async def run(self) -> None:
        try:
            while True:
                await self._report(self._health_check.check())
                await asyncio.sleep(self._pause)
        finally:
            if self._file is not None:
                self._file.remove()

    @property
    def _pause(self) -> float:
        watchdog = self._notifier.watchdog
        return REPORT_SECONDS if watchdog is None else min(REPORT_SECONDS, watchdog / 2)

    async def _report(self, health: SupervisorHealth) -> None:
        if self._file is not None:
            # Disks can be slow, and heartbeats must not wait for them.
            await asyncio.to_thread(self._file.show, health)
        if health.ready and not self._was_ready:
            self._was_ready = True
            self._notifier.ready()
        if health.live:
            self._notifier.alive()
        self._notifier.status(health.summary)
