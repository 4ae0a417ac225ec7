"""The worker processes of a run: started, hurt, and replaced when they are dead."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

from chaos.facts import Died
from chaos.journal import Journal, now_ms
from chaos.processes import send, start

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping
    from pathlib import Path

#: A dead worker is replaced this soon, as a supervisor or a container runtime would.
REPLACE_SECONDS = 0.2
#: Looked at this often.
WATCH_SECONDS = 0.05
STOP_SECONDS = 10.0

PLAIN = (sys.executable, "-m", "chaos.worker")


class Member:
    """One worker, in whatever number of processes."""

    def __init__(self, number: int, folder: Path, environ: Mapping[str, str]) -> None:
        self._number = number
        self._log = folder / f"worker-{number}.log"
        self._environ = environ
        self.process: subprocess.Popen[bytes] = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return start(PLAIN, self._environ, self._log)

    @property
    def is_dead(self) -> bool:
        return self.process.poll() is not None

    @property
    def pids(self) -> list[int]:
        """The processes that run jobs, as far as they are there."""
        return [] if self.is_dead else [self.process.pid]

    def replace(self) -> None:
        self.process = self._start()


class Fleet:
    """All workers of a run, from `start` to `stop`."""

    def __init__(self, size: int, folder: Path, environ: Mapping[str, str]) -> None:
        self._size = size
        self._folder = folder
        self._environ = environ
        self._journal = Journal(folder / "died-by-force.jsonl")
        self._stopped: set[int] = set()
        self.members: list[Member] = []
        #: Exit codes of those that were asked to end.
        self.codes: list[int] = []

    def start(self) -> None:
        self.members = [
            Member(number, self._folder, self._environ) for number in range(self._size)
        ]

    async def watch(self) -> None:
        """Replace the dead, until cancelled."""
        while True:
            for member in self.members:
                if member.is_dead:
                    await asyncio.sleep(REPLACE_SECONDS)
                    member.replace()
            # Processes do not tell when they end.
            await asyncio.sleep(WATCH_SECONDS)

    # -- faults ----------------------------------------------------------------

    def kill(self, pick: float) -> None:
        """End a process that runs jobs, at once."""
        if pid := self._pick(pick):
            self._kill(pid)

    def orphan(self, pick: float) -> None:
        """End what was started as a worker, which may be a supervisor."""
        self._kill(self._member(pick).process.pid)

    def terminate(self, pick: float) -> None:
        """Ask a worker to end, as a deployment does."""
        send(self._member(pick).process.pid, signal.SIGTERM)

    async def freeze(self, pick: float, seconds: float) -> None:
        """Stop a process for a while; it does not notice but by the clock."""
        pid = self._pick(pick)
        if pid is None or pid in self._stopped:
            return
        self._stopped.add(pid)
        send(pid, signal.SIGSTOP)
        try:
            # The wait is the fault.
            await asyncio.sleep(seconds)
        finally:
            self._stopped.discard(pid)
            send(pid, signal.SIGCONT)

    def _kill(self, pid: int) -> None:
        self._journal.write(Died(pid, now_ms()))
        send(pid, signal.SIGKILL)

    def _member(self, pick: float) -> Member:
        return self.members[int(pick * len(self.members))]

    def _pick(self, pick: float) -> int | None:
        pids = [pid for member in self.members for pid in member.pids]
        return pids[int(pick * len(pids))] if pids else None

    # -- the end ---------------------------------------------------------------

    async def stop(self) -> None:
        """Ask all to end, and wait until they have; whoever does not is killed."""
        for member in self.members:
            send(member.process.pid, signal.SIGTERM)
        waits = [
            asyncio.to_thread(member.process.wait, STOP_SECONDS)
            for member in self.members
        ]
        ends = await asyncio.gather(*waits, return_exceptions=True)
        self.codes = [end if isinstance(end, int) else -1 for end in ends]
        self.kill_all()

    def kill_all(self) -> None:
        for member in self.members:
            if not member.is_dead:
                member.process.kill()
                member.process.wait()
