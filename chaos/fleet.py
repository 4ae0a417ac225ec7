"""The worker processes of a run: started, subjected to faults, and replaced."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from chaos.facts import Died, Idled
from chaos.journal import Journal, now_ms
from chaos.processes import children_of, handles, send

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from chaos.processes import Household

T = TypeVar("T")

#: A dead worker is replaced this soon, as systemd or a container runtime would.
REPLACE_SECONDS = 0.2
#: How often workers are checked.
WATCH_SECONDS = 0.05
#: Workers start within this time, on a busy machine, and stop within this one.
START_SECONDS = 60.0
STOP_SECONDS = 15.0
#: Runs are requeued this long after a worker was asked to stop.
GRACE = "2s"


class Kind(NamedTuple):
    """A way to run workers."""

    command: tuple[str, ...]
    #: How many child processes run jobs; 0 when the process itself does.
    children: int = 0

    @property
    def workers(self) -> int:
        return self.children or 1


#: ``await q.run()`` in a program.
PLAIN = Kind((sys.executable, "-m", "chaos.worker", GRACE))


def supervised(children: int, app: str = "chaos.app:q") -> Kind:
    """Return the usual kind: ``kue worker``."""
    kue = str(Path(sys.executable).with_name("kue"))
    options = ("--processes", str(children), "--grace", GRACE)
    return Kind((kue, "worker", app, *options), children)


KINDS = (PLAIN, supervised(1), supervised(2), PLAIN)
#: Processes that run jobs when all have started.
WORKERS = sum(kind.workers for kind in KINDS)


class Member:
    """One worker: a process that runs jobs, or a supervisor."""

    def __init__(
        self, kind: Kind, log: Path, household: Household, environ: Mapping[str, str]
    ) -> None:
        self._kind = kind
        self._log = log
        self._household = household
        self._environ = environ
        self.process = self._start()

    def replace(self) -> None:
        self.process = self._start()

    @property
    def is_dead(self) -> bool:
        return self.process.poll() is not None

    @property
    def is_supervisor(self) -> bool:
        return self._kind.children > 0

    @property
    def pids(self) -> list[int]:
        """The processes that run jobs, if any."""
        if self.is_supervisor:
            return children_of(self.process.pid)
        return [] if self.is_dead else [self.process.pid]

    def _start(self) -> subprocess.Popen[bytes]:
        return self._household.start(self._kind.command, self._environ, self._log)


class Fleet:
    """All workers of a run, from `start` to `stop`."""

    def __init__(
        self,
        household: Household,
        folder: Path,
        environ: Mapping[str, str],
        kinds: Sequence[Kind] = KINDS,
    ) -> None:
        self._household = household
        self._folder = folder
        self._environ = environ
        self._kinds = kinds
        self._deaths = Journal(folder / "died-by-force.jsonl")
        self._absences = Journal(folder / "idled.jsonl")
        self._frozen: set[int] = set()
        self._members: list[Member] = []

    def start(self) -> None:
        self._members = [
            Member(
                kind,
                self._folder / f"worker-{number}.log",
                self._household,
                self._environ,
            )
            for number, kind in enumerate(self._kinds)
        ]

    @property
    def pids(self) -> list[int]:
        """The processes that run jobs."""
        return [pid for member in self._members for pid in member.pids]

    async def watch(self) -> None:
        """Replace the dead, until cancelled."""
        while True:
            for member in self._members:
                if member.is_dead:
                    await asyncio.sleep(REPLACE_SECONDS)
                    member.replace()
            # The end of a process is not announced.
            await asyncio.sleep(WATCH_SECONDS)

    # -- faults ----------------------------------------------------------------

    def kill(self, pick: float) -> None:
        """Kill a process that runs jobs."""
        pids = self.pids
        if pids:
            self._kill(_picked(pids, pick))

    def orphan(self, pick: float) -> None:
        """Kill a supervisor; its children must notice."""
        supervisors = [member for member in self._members if member.is_supervisor]
        self._stop(_picked(supervisors, pick), signal.SIGKILL)

    def terminate(self, pick: float) -> None:
        """Ask a worker to stop, as a deployment does."""
        self._stop(_picked(self._members, pick), signal.SIGTERM)

    async def freeze(self, pick: float, pause: Callable[[], Awaitable[None]]) -> None:
        """Stop a process during *pause*; it can notice only by the clock."""
        pids = {member.process.pid for member in self._members} | set(self.pids)
        pid = _picked(sorted(pids), pick)
        if pid in self._frozen:
            return
        self._frozen.add(pid)
        since = now_ms()
        send(pid, signal.SIGSTOP)
        try:
            await pause()
        finally:
            self._frozen.discard(pid)
            send(pid, signal.SIGCONT)
            self._absences.write(Idled(pid, since, now_ms()))

    def _kill(self, pid: int) -> None:
        self._deaths.write(Died(pid, now_ms()))
        send(pid, signal.SIGKILL)

    def _stop(self, member: Member, number: signal.Signals) -> None:
        for pid in member.pids:
            self._absences.write(Idled(pid, now_ms()))
        send(member.process.pid, number)

    # -- the end ---------------------------------------------------------------

    async def stop(self) -> list[str]:
        """Ask all to stop, and wait until they have; return what went wrong."""
        # One that is still starting, in place of another, would die of the signal.
        await asyncio.gather(*(_until_started(member) for member in self._members))
        for member in self._members:
            send(member.process.pid, signal.SIGTERM)
        waits = [
            asyncio.to_thread(member.process.wait, STOP_SECONDS)
            for member in self._members
        ]
        ends = await asyncio.gather(*waits, return_exceptions=True)
        return [
            f"worker {member.process.pid} was asked to stop and ended with {end!r}"
            for member, end in zip(self._members, ends, strict=True)
            if end != 0
        ]

    def kill_all(self) -> None:
        for member in self._members:
            member.process.kill()
            member.process.wait()


async def _until_started(member: Member) -> None:
    async with asyncio.timeout(START_SECONDS):
        # A handler that is installed is not announced.
        while not (member.is_dead or handles(member.process.pid, signal.SIGTERM)):  # noqa: ASYNC110
            await asyncio.sleep(WATCH_SECONDS)


def _picked(things: Sequence[T], pick: float) -> T:
    return things[int(pick * len(things))]
