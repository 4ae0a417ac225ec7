"""``kue worker`` as a process of its own, for tests that signal it and its children."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kue.model.draft import draft
from kue.model.job import Job
from kue.store.contract import Store
from kue.supervisor import child_process
from tests.support.freezing import freeze
from tests.support.jobs import get_one, outcomes, until_ended
from tests.support.leases import SHORT_LEASE_SECONDS
from tests.support.patience import PATIENCE_SECONDS, until
from tests.support.warm import COMMAND, Running, start

SHIFT = Path(__file__).with_name("shift.py")
#: An app that fits on a page, for tests that change it.
SMALL = """
import os
import kue

q = kue.Kue()

@q.process("nap", 2)
async def nap(job):
    print({word!r}, job.id, os.getpid(), flush=True)
"""
LEASE_SECONDS = SHORT_LEASE_SECONDS


class Supervised:
    """One run of ``kue worker``, from ``async with`` on; all of it is killed after."""

    def __init__(
        self,
        *options: str,
        folder: Path,
        target: str = f"{SHIFT}:q",
        environ: dict[str, str] | None = None,
    ) -> None:
        self._arguments = ("worker", target, *options)
        self._folder = folder
        self._environ = {**_clean(), **(environ or {})}
        self._process: Running | None = None
        self._seen: set[int] = set()
        #: What it wrote to standard error so far.
        self.log: list[str] = []
        self._logged = asyncio.Condition()
        self._logging: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Supervised:
        self._process = await start(
            *(COMMAND, *self._arguments),
            cwd=self._folder,
            environ=self._environ,
            has_log=True,
        )
        self._logging = asyncio.create_task(self._read_log())
        return self

    async def __aexit__(self, *exc: object) -> None:
        children = {*self.children(), *self._seen}
        with contextlib.suppress(ProcessLookupError):
            self._running.send_signal(signal.SIGKILL)
        for pid in children:
            # Each leads a group, with whatever its handlers started.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        assert self._logging is not None
        await self._logging
        await self._running.close()

    @property
    def pid(self) -> int:
        return self._running.pid

    def children(self) -> list[int]:
        """Return the pids of its children, oldest first."""
        pids = children_of(self.pid)
        self._seen.update(pids)
        return pids

    async def line(self) -> list[str]:
        """Return the words of the next line that a handler said."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            words = (await self._running.stdout.readline()).decode().split()
        if words:
            self._seen.add(int(words[-1]))
        return words

    async def lines(self) -> list[list[str]]:
        """Return what handlers still say, until all processes are gone."""
        said = []
        while words := await self.line():
            said.append(words)
        return said

    async def logged(self, *texts: str) -> str:
        """Return the first line of the log with all of *texts*, once there is one."""
        async with asyncio.timeout(PATIENCE_SECONDS), self._logged:
            await self._logged.wait_for(lambda: self._found(texts) is not None)
        found = self._found(texts)
        assert found is not None
        return found

    def _found(self, texts: Iterable[str]) -> str | None:
        for line in self.log:
            if all(text in line for text in texts):
                return line
        return None

    async def up(self) -> None:
        """Return when a child works."""
        await self.logged("works on")

    def signal(self, number: signal.Signals) -> None:
        self._running.send_signal(number)

    async def stopped(self) -> int:
        """Stop it in order, and return its exit code."""
        self.signal(signal.SIGTERM)
        return await self.ended()

    async def ended(self) -> int:
        """Return its exit code."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self._running.wait()

    async def _read_log(self) -> None:
        while data := await self._running.stderr.readline():
            async with self._logged:
                self.log.append(data.decode().rstrip("\n"))
                self._logged.notify_all()

    @property
    def _running(self) -> Running:
        assert self._process is not None, "it was not started"
        return self._process


class Shift:
    """A place with jobs for supervised workers, and short ways to both."""

    def __init__(self, url: str, prefix: str, store: Store, folder: Path) -> None:
        self.url = url
        self.store = store
        self.folder = folder
        self.environ = {
            "KUE_URL": url,
            "KUE_PREFIX": prefix,
            "KUE_LEASE": f"{LEASE_SECONDS}s",
        }

    def start(
        self,
        *options: str,
        target: str = f"{SHIFT}:q",
        environ: dict[str, str] | None = None,
    ) -> Supervised:
        return Supervised(
            *options,
            folder=self.folder,
            target=target,
            environ={**self.environ, **(environ or {})},
        )

    def write(self, word: str = "old") -> str:
        """Write a small app where workers are started, and return its name."""
        (self.folder / "small.py").write_text(SMALL.format(word=word))
        return "small.py"

    async def add(
        self,
        type: str = "nap",
        *,
        seconds: float = 0,
        until: Path | None = None,
        count: int = 1,
    ) -> list[int]:
        """Add jobs that take some *seconds*, or *until* there is such a file."""
        data = {"seconds": seconds, "until": str(until) if until else ""}
        batch = [draft(type, data)] * count
        added = await self.store.add(batch, producer=uuid.uuid4().hex, seq=1)
        return [one.id for one in added]

    def freeze(self, pid: int) -> None:
        """Stop a process of a worker where it holds up nobody else."""
        freeze(pid, self.url)

    async def job(self, job_id: int) -> Job:
        return await get_one(self.store, job_id)

    async def outcomes(self, job_id: int) -> list[str]:
        """Return how the runs of a job ended."""
        return outcomes(await self.job(job_id))

    async def ended(self, job_id: int) -> Job:
        """Return the job once it has ended; the caller limits the time."""
        return await until_ended(self.store, job_id, seconds=150)


async def get(port: int, path: str) -> tuple[int, dict[str, Any]]:
    """Ask as a health check does."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


async def patiently(is_so: Callable[[], bool]) -> None:
    """Wait for a fact that takes processes to come about."""
    await until(is_so)


def children_of(pid: int) -> list[int]:
    """Return the pids of its children that live, oldest first."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return sorted(filter(is_there, map(int, text.split())))


def is_there(pid: int) -> bool:
    """Whether a process lives; one that nobody has buried yet does not."""
    return child_process.state_of(pid) not in (None, "Z")


def _clean() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KUE_", "REDIS_", "NOTIFY_", "WATCHDOG_"))
    }
