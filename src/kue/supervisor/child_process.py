"""Child process as the supervisor sees it: its state, messages and signals."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kue.aio.tasks import cancel_all
from kue.supervisor.protocol import (
    MAX_LINE,
    Bye,
    ChildStatus,
    FromChild,
    Hello,
    LaneLoad,
    Leave,
    Scaled,
    StartFailed,
    StartOrder,
    ToChild,
    decode_from_child,
    encode,
)
from kue.worker.pools.processes import signal_name

if TYPE_CHECKING:
    from kue.supervisor.options import ProcessCount, SupervisorOptions

#: States of a process that was stopped, until it is continued.
FROZEN = frozenset("Tt")
logger = logging.getLogger(__name__)
#: The last messages of a dead child can be read at once; a process that it forked may
#: hold the socket open forever.
READ_SECONDS = 1.0
READ_BYTES = 65_536
#: How long a child may take to exit after `Bye`.
EXIT_SECONDS = 10.0
#: A child past its grace that still ticks is settling its jobs; the store reclaims
#: everything by itself after a lease.
SETTLE_SECONDS = 2.0
#: A child that has not ticked for this long is not settling.
TICKING_SECONDS = 2.0
#: A longer pause between two looks was caused by us, not by the child.
LONGEST_LOOK = 2.0


def is_frozen(pid: int) -> bool:
    """Return whether SIGSTOP or a debugger stopped it; False without /proc."""
    return state_of(pid) in FROZEN


def state_of(pid: int) -> str | None:
    """Return the letter of its state, or None if it is not known."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The name of the program, in parentheses, may have spaces and parentheses.
    return stat.rpartition(b")")[2].split()[0].decode()


class ChildProcess:
    """One process that runs jobs."""

    def __init__(
        self,
        number: int,
        process: asyncio.subprocess.Process,
        link: socket.socket,
    ) -> None:
        self.number = number
        self.started_at = time.monotonic()
        self.status: dict[str, Any] = {}
        #: By type, if the supervisor scales.
        self.loads: dict[str, LaneLoad] = {}
        #: Seconds since its last message; see `look`.
        self.silence = 0.0
        self.hello: Hello | None = None
        self.bye: Bye | None = None
        #: It was ordered to stop through the store, and is not to be replaced.
        self.is_ordered_to_stop = False
        #: What went wrong in it, before it was up or later.
        self.failure: StartFailed | None = None
        #: Its exit code, once it is gone; negative for a signal.
        self.code: int | None = None
        #: Its hello, or why it failed to start.
        self.up: asyncio.Future[Hello | StartFailed] = asyncio.Future()
        #: It takes no more jobs, or is gone.
        self.leaving = asyncio.Event()
        self.gone = asyncio.Event()
        #: The code that it runs has changed.
        self.outdated = asyncio.Event()
        #: When it must be gone, in monotonic seconds.
        self._due: float | None = None
        self._shown: ProcessCount | None = None
        self._process = process
        link.setblocking(False)
        # Not a stream, which stops reading when it cannot write: the last messages of
        # a child that has just exited may not have been read.
        self._link = link
        self._outbox = asyncio.Queue[bytes]()

    @classmethod
    async def start(cls, number: int, options: SupervisorOptions) -> ChildProcess:
        """Start a process; `serve` sends it its order and reads its messages."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "kue.supervisor.child_main",
                options.target,
                str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # Ctrl-C is for the supervisor; and a group can be killed with all that
                # its handlers started.
                process_group=0,
            )
        child = cls(number, process, ours)
        child._send(StartOrder(number, options))
        return child

    def __str__(self) -> str:
        return f"worker process #{self.number} (pid {self.pid})"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def worker(self) -> str | None:
        """Its name among workers, once it is up."""
        return self.hello.worker if self.hello else None

    @property
    def age(self) -> float:
        return time.monotonic() - self.started_at

    @property
    def is_up(self) -> bool:
        return self.hello is not None and not self.gone.is_set()

    @property
    def is_working(self) -> bool:
        """Whether it is up and takes jobs."""
        return self.is_up and not self.leaving.is_set()

    @property
    def running(self) -> int:
        """How many jobs it ran when it last reported."""
        running = self.status.get("running", 0)
        return running if isinstance(running, int) else 0

    @property
    def is_frozen(self) -> bool:
        return is_frozen(self.pid)

    @property
    def is_silent(self) -> bool:
        """Whether it has not ticked for as long as its lease."""
        return (
            self.hello is not None
            and self.silence > self.hello.settings.lease / 1000
            and not self.gone.is_set()
        )

    @property
    def is_overdue(self) -> bool:
        """Whether it should have left, and will not by itself."""
        if self._due is None or self.hello is None:
            return False
        lease = self.hello.settings.lease / 1000
        is_ticking = self.silence < TICKING_SECONDS
        margin = SETTLE_SECONDS + lease if is_ticking else 1.0
        return time.monotonic() > self._due + margin

    async def serve(self) -> None:
        """Exchange messages with it until the process is gone."""
        listening = asyncio.create_task(self._listen(), name=f"kue child {self.pid}")
        sending = asyncio.create_task(self._send_all(), name=f"kue to {self.pid}")
        with self._link:
            try:
                self.code = await self._process.wait()
                # However it ended, its handlers may have left processes behind.
                self.signal_all(signal.SIGKILL)
                await asyncio.wait([listening], timeout=READ_SECONDS)
            finally:
                self._resolve_up(StartFailed(f"it {self.ending} before it was up"))
                self.leaving.set()
                self.gone.set()
                await cancel_all([listening, sending])

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        if self.failure is not None:
            return f"failed: {self.failure.message}"
        if self.code is not None and self.code < 0:
            return f"was killed by {signal_name(-self.code)}"
        return f"exited with code {self.code}"

    def look(self, elapsed: float) -> None:
        """
        Count how long it has been silent; *elapsed* since the last look.

        Time in which the child or the supervisor was frozen does not count.
        """
        if not self.is_frozen:
            self.silence += min(elapsed, LONGEST_LOOK)

    def leave(self, grace: float | None) -> None:
        """Have it claim no more jobs and leave; see `Leave`."""
        if grace is not None:
            self._due = time.monotonic() + grace
        self.leaving.set()
        self._send(Leave(grace))

    def show(self, processes: ProcessCount) -> None:
        """Have its status show how many processes there are."""
        if self.is_up and processes != self._shown:
            self._shown = processes
            self._send(Scaled(processes))

    def dump(self) -> None:
        """Have it write the stacks of its threads to stderr, whatever blocks it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGUSR2)

    def kill(self) -> None:
        """Kill it and everything it started."""
        if not self.gone.is_set():
            self.signal_all(signal.SIGKILL)

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to it and everything it started."""
        # Not permitted: what is left of the group is dead, or belongs to another user.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _send(self, message: ToChild) -> None:
        self._outbox.put_nowait(encode(message))

    async def _send_all(self) -> None:
        loop = asyncio.get_running_loop()
        # A child that has exited reads nothing.
        with contextlib.suppress(OSError):
            while True:
                await loop.sock_sendall(self._link, await self._outbox.get())

    async def _listen(self) -> None:
        loop, rest = asyncio.get_running_loop(), b""
        try:
            while data := await loop.sock_recv(self._link, READ_BYTES):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._handle(decode_from_child(line))
                if len(rest) > MAX_LINE:
                    raise ValueError(f"a message is longer than {MAX_LINE:,} bytes")
        except OSError:
            # The socket of a child that died may be reset instead of ended.
            logger.debug("the connection of %s was reset", self)
        except (ValueError, msgspec.MsgspecError):
            logger.exception("%s sent an invalid message", self)

    def _handle(self, message: FromChild) -> None:
        self.silence = 0.0
        match message:
            case Hello():
                self.hello = message
                self.status = message.status
                self._resolve_up(message)
            case StartFailed():
                self.failure = message
                self._resolve_up(message)
            case ChildStatus():
                self.status = message.status
                self.loads = message.loads
                self.is_ordered_to_stop |= message.is_dismissed
                if message.is_leaving:
                    self.leaving.set()
            case Bye():
                self.bye = message
                self.is_ordered_to_stop |= message.reason == "dismissed"
                self._due = time.monotonic() + EXIT_SECONDS

    def _resolve_up(self, message: Hello | StartFailed) -> None:
        if not self.up.done():
            self.up.set_result(message)
