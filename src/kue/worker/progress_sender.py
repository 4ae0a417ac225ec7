"""
What runs say of themselves, on its way to the store.

While one delivery is on its way, what is said meanwhile collects: of progress only the
newest is kept, of log lines as many as a log holds.  A lone sign goes out at once, and
a thousand runs that speak at once cost a few calls.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections import deque
from typing import TYPE_CHECKING

from kue.aio.throttled_log import ThrottledLog
from kue.model.errors import StoreFull, StoreUnavailable
from kue.store.values import MAX_BATCH, MAX_LOG_LINES, LogLine, Progress, Result
from kue.worker.progress_reply import ProgressReply

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.store.contract import Store
    from kue.worker.active_job import ActiveJob

logger = logging.getLogger(__name__)

Answer = asyncio.Future[Result | None]
#: Logs are written job by job; this many at once.
LOGS_AT_ONCE = 16
#: How long a run that is no longer ours may take to end by itself when it hears so.
LOST_SECONDS = 0.1


class _Unsaid:
    """What one run said that the store has not heard."""

    __slots__ = ("answer", "lines", "update")

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.update: Progress | None = None
        # More than a log keeps would fall off there anyway.
        self.lines: deque[LogLine] = deque(maxlen=MAX_LOG_LINES)


class ProgressSender:
    """Tells the store what runs of one worker say; a `Teller` for all of them."""

    def __init__(self, store: Store, on_lost: Callable[[ActiveJob], None]) -> None:
        self._store = store
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        #: The worker's own: what is logged on the way is not said by the job.
        self._context = contextvars.copy_context()
        self._unsaid: dict[ActiveJob, _Unsaid] = {}
        #: What is on its way to the store.
        self._load: dict[ActiveJob, _Unsaid] = {}
        self._courier: asyncio.Task[None] | None = None
        self._log = ThrottledLog(logger)

    def progress(self, active: ActiveJob, update: Progress) -> ProgressReply:
        return self._tell(active, update, "report progress")

    def line(self, active: ActiveJob, line: LogLine) -> ProgressReply:
        return self._tell(active, line, "be logged to")

    def owes(self, active: ActiveJob) -> bool:
        """Tell whether something that *active* said is still to be delivered."""
        return active in self._unsaid or active in self._load

    async def flush(self, active: ActiveJob) -> None:
        """Return once everything *active* said so far was delivered, or given up."""
        while unsaid := self._load.get(active) or self._unsaid.get(active):
            await asyncio.shield(unsaid.answer)

    def _tell(
        self, active: ActiveJob, sign: Progress | LogLine, wanted: str
    ) -> ProgressReply:
        if threading.get_ident() == self._thread:
            return ProgressReply(active.id, wanted, self._collect(active, sign))
        self._loop.call_soon_threadsafe(self._collect, active, sign)
        return ProgressReply(active.id, wanted, None)

    def _collect(self, active: ActiveJob, sign: Progress | LogLine) -> Answer:
        unsaid = self._unsaid.get(active)
        if unsaid is None:
            unsaid = self._unsaid[active] = _Unsaid(self._loop.create_future())
        if isinstance(sign, Progress):
            unsaid.update = sign
        else:
            unsaid.lines.append(sign)
        if self._courier is None:
            self._courier = asyncio.create_task(
                self._deliver(), name="kue signs", context=self._context
            )
        return unsaid.answer

    async def _deliver(self) -> None:
        try:
            while self._unsaid:
                self._load, self._unsaid = self._unsaid, {}
                answers = await self._write(self._load)
                load, self._load = self._load, {}
                for active, unsaid in load.items():
                    if not unsaid.answer.done():
                        unsaid.answer.set_result(answers.get(active))
        finally:
            self._courier = None

    async def _write(
        self, load: dict[ActiveJob, _Unsaid]
    ) -> dict[ActiveJob, Result | None]:
        try:
            words = await self._write_logs(load)
            words |= await self._write_progress(load)
        except (StoreUnavailable, StoreFull) as exc:
            logger.warning("progress and log lines dropped: %s", exc)
        except Exception as exc:
            # Signs of life must never end a run, let alone the worker.
            self._log.error("progress and log lines dropped", exc=exc)
        else:
            return words
        return {}

    async def _write_progress(
        self, load: dict[ActiveJob, _Unsaid]
    ) -> dict[ActiveJob, Result | None]:
        told = [(active, said.update) for active, said in load.items() if said.update]
        words: dict[ActiveJob, Result | None] = {}
        for start in range(0, len(told), MAX_BATCH):
            batch = told[start : start + MAX_BATCH]
            answers = await self._store.progress([update for _, update in batch])
            words.update(zip((active for active, _ in batch), answers, strict=True))
        for active, word in words.items():
            if word in (Result.LOST, Result.GONE):
                # Whoever waits for the answer hears of it there, and first.
                self._loop.call_later(LOST_SECONDS, self._on_lost, active)
        return words

    async def _write_logs(
        self, load: dict[ActiveJob, _Unsaid]
    ) -> dict[ActiveJob, Result | None]:
        logs = [(active, list(said.lines)) for active, said in load.items()]
        logs = [(active, lines) for active, lines in logs if lines]
        words: dict[ActiveJob, Result | None] = {}
        for start in range(0, len(logs), LOGS_AT_ONCE):
            batch = logs[start : start + LOGS_AT_ONCE]
            answers = await asyncio.gather(*(self._write_log(*log) for log in batch))
            words.update(zip((active for active, _ in batch), answers, strict=True))
        return words

    async def _write_log(
        self, active: ActiveJob, lines: list[LogLine]
    ) -> Result | None:
        word = None
        for start in range(0, len(lines), MAX_BATCH):
            word = await self._store.log(
                active.id,
                lines[start : start + MAX_BATCH],
                created_at=active.job.created_at,
            )
        return word
