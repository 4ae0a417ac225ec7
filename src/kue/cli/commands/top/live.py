"""The live view of ``kue top``: reads the queue, handles keys and draws frames."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from kue.cli.commands.top.actions import carry_out
from kue.cli.commands.top.frame import Size, TopView, frame
from kue.cli.commands.top.snapshot import Details, Snapshot
from kue.cli.commands.top.state import Screen, Verb, ViewState, press
from kue.cli.commands.top.terminal import Terminal
from kue.cli.output.console import output
from kue.cli.output.text import jobs, words
from kue.model.errors import KueError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kue.cli.commands.top.snapshot import SnapshotReader
    from kue.cli.commands.top.state import Order
    from kue.client.queue import Kue

#: Seconds after which a frame is drawn again even if nothing was read.
TICK_SECONDS = 1.0
#: An answer that takes longer than this and the interval is reported as an outage.
PATIENCE_SECONDS = 3.0
#: How long a change that is under way may delay the end of the program.
GRACE_SECONDS = 10.0
#: How long Ctrl-Z waits for a read: one that stops halfway may hold a lock.
SUSPEND_SECONDS = 2.0


class LiveTop:
    """Shows a queue until the user leaves."""

    def __init__(
        self,
        q: Kue,
        reader: SnapshotReader,
        first: Snapshot,
        *,
        store: str,
        interval: float,
    ) -> None:
        self._q = q
        self._reader = reader
        self._interval = interval
        self._view = TopView(ViewState().pinned(first), first, store=store)
        self._read_at = time.monotonic()
        self._error = ""
        self._changed = asyncio.Event()
        self._wants_read = asyncio.Event()
        #: Held while the store is read.
        self._reading = asyncio.Lock()
        self._wants_suspend = False
        self._action: asyncio.Task[None] | None = None
        self._console = output()
        self._terminal = Terminal(
            on_key=self._press,
            on_change=self._changed.set,
            on_suspend=self._ask_to_suspend,
        )

    async def show(self) -> None:
        """Draw frames until the user leaves."""
        with _quiet_log(), self._terminal.open():
            reading = asyncio.create_task(self._read_forever())
            try:
                while not self._state.is_leaving and not reading.done():
                    self._draw()
                    await self._wait(self._changed, TICK_SECONDS)
                    if self._wants_suspend:
                        await self._suspend()
                await self._finish_action()
            finally:
                reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading

    @property
    def _state(self) -> ViewState:
        return self._view.state

    @_state.setter
    def _state(self, state: ViewState) -> None:
        self._view = self._view._replace(state=state)
        self._changed.set()

    async def _wait(self, event: asyncio.Event, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
        event.clear()

    # -- reading ---------------------------------------------------------------

    async def _read_forever(self) -> None:
        while True:
            async with self._reading:
                await self._read()
            self._changed.set()
            await self._wait(self._wants_read, self._interval)

    async def _read(self) -> None:
        try:
            snapshot = await self._reader.read()
            seen = self._sized(self._view._replace(snapshot=snapshot))
            seen = seen._replace(state=seen.state.pinned(snapshot))
            details = await self._reader.details(snapshot, seen.wanted())
        except KueError as exc:
            self._error = str(exc)
            return
        self._error, self._read_at = "", time.monotonic()
        # Keys may have been pressed in the meantime.
        state = self._state.pinned(snapshot)
        self._view = self._view._replace(
            snapshot=snapshot, details=details, state=state
        )

    def _outage(self) -> str:
        """Return what keeps the store from being read; nothing if it is read."""
        silent = time.monotonic() - self._read_at
        if not self._error and silent < self._interval + PATIENCE_SECONDS:
            return ""
        reason = f": {self._error}" if self._error else ""
        return f"no answer from the store for {words(round(silent) * 1000)}{reason}"

    # -- keys ------------------------------------------------------------------

    def _press(self, key: str) -> None:
        before = self._state
        self._state, order = press(before, key, self._view.snapshot)
        if self._needs_details(before):
            self._view = self._view._replace(details=Details(self._view.details.oldest))
            self._wants_read.set()
        if order is not None:
            self._start(order)

    def _needs_details(self, before: ViewState) -> bool:
        if self._state.screen is not Screen.DETAILS:
            return False
        now = (self._state.screen, self._state.queue.name, self._state.worker.name)
        return now != (before.screen, before.queue.name, before.worker.name)

    def _start(self, order: Order) -> None:
        if self._is_acting:
            self._say("wait: the last change is under way", is_error=True)
            return
        self._say(f"{_DOING[order.verb]} {order.name or 'every queue'} …")
        self._action = asyncio.create_task(self._act(order))

    @property
    def _is_acting(self) -> bool:
        return self._action is not None and not self._action.done()

    async def _act(self, order: Order) -> None:
        def on_progress(done: int) -> None:
            self._say(f"retrying {order.name}: {jobs(done)} so far …")

        try:
            self._say(await carry_out(self._q, order, on_progress))
        except (KueError, ValueError) as exc:
            name = order.name or "every queue"
            self._say(f"{_DOING[order.verb]} {name} failed: {exc}", is_error=True)
        self._wants_read.set()

    def _say(self, status: str, *, is_error: bool = False) -> None:
        self._state = self._state.saying(status, is_error=is_error)

    async def _finish_action(self) -> None:
        if self._action is None:
            return
        if not self._action.done():
            self._draw()
            await asyncio.wait([self._action], timeout=GRACE_SECONDS)
            self._action.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._action

    # -- the terminal ----------------------------------------------------------

    def _draw(self) -> None:
        self._view = self._sized(self._view)._replace(outage=self._outage())
        lines = []
        for line in frame(self._view):
            with self._console.capture() as captured:
                self._console.print(line, end="", soft_wrap=True, highlight=False)
            lines.append(captured.get())
        self._terminal.draw(lines)

    def _sized(self, view: TopView) -> TopView:
        return view._replace(size=Size(*self._terminal.size()))

    def _ask_to_suspend(self) -> None:
        self._wants_suspend = True
        self._changed.set()

    async def _suspend(self) -> None:
        self._wants_suspend = False
        if self._is_acting:
            self._say("not suspended: a change is under way", is_error=True)
            return
        is_idle = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SUSPEND_SECONDS):
                is_idle = await self._reading.acquire()
        self._terminal.suspend()
        if is_idle:
            self._reading.release()
        # The time in which nothing was asked is not an outage.
        self._read_at = time.monotonic()
        self._wants_read.set()


_DOING = {
    Verb.PAUSE: "pausing",
    Verb.RESUME: "resuming",
    Verb.PAUSE_WORKER: "pausing",
    Verb.RESUME_WORKER: "resuming",
    Verb.RETRY: "retrying",
}


@contextlib.contextmanager
def _quiet_log() -> Iterator[None]:
    """Keep log records, which nobody handles here, from being written to the screen."""
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
