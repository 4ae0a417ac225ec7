"""Client processes: producers that add jobs, and an operator that gives orders."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from chaos.plan import PRODUCERS

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping
    from pathlib import Path

    from chaos.processes import Household

#: A client must end this long after its plan; its calls time out long before.
PATIENCE_SECONDS = 30.0


class Clients:
    """Producers and an operator, from construction to `kill_all`."""

    def __init__(
        self, household: Household, folder: Path, environ: Mapping[str, str]
    ) -> None:
        producers = [("producer", str(number)) for number in range(PRODUCERS)]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        for program, *arguments in [*producers, ("operator",)]:
            name = " ".join((program, *arguments))
            command = (sys.executable, "-m", f"chaos.{program}", str(folder))
            self._processes[name] = household.start(
                (*command, *arguments), environ, folder / f"{program}.log"
            )

    async def ended(self, seconds: float) -> list[str]:
        """Wait for all; return a message for each that failed."""
        limit = seconds + PATIENCE_SECONDS
        waits = [
            asyncio.to_thread(process.wait, limit)
            for process in self._processes.values()
        ]
        ends = await asyncio.gather(*waits, return_exceptions=True)
        return [
            f"{name} ended with {end!r}; see its log"
            for name, end in zip(self._processes, ends, strict=True)
            if end != 0
        ]

    def kill_all(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
