"""
Retries of calls to the store through outages, and reports of what keeps them failing.

Everything that works for a queue (a worker's lanes, its heartbeat, its maintenance, a
listener) repeats what the store could not do, with jitter.  There are three reasons:

* An outage: the store is away or full.  The call is repeated forever.  It is one line
  in the log when it begins and one when it is over, however many callers are affected.
* Trouble: another error of the store, such as damage.  The call is repeated forever,
  too.  It is an ERROR with a traceback every minute while it lasts, and
  `StoreRetry.trouble` describes it for `workers` and health checks.
* A bug: any other exception.  It is logged each time, and a worker stops after
  `MAX_BUGS` of them in a row: a new process may do better, this one would not.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from kue.aio.throttled_log import ThrottledLog
from kue.model.errors import StoreError, StoreFull, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable

logger = logging.getLogger(__name__)

T = TypeVar("T")
#: Called with what failed, and its error.
OnError: TypeAlias = Callable[[str, Exception], None]

#: Pauses grow from the first to the longest, in seconds.  A worker must be back within
#: two seconds of its store, so the longest is short.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
#: How many times in a row a worker repeats a call that fails because of a bug.
MAX_BUGS = 5
#: Characters of an error that `trouble` shows.
MAX_TROUBLE = 300


class StoreRetry:
    """
    Repeats calls until they succeed, and reports the outage or trouble they meet.

    *max_bugs* is how many bugs in a row `persist` tolerates; None for any number, which
    are logged once a minute.  *on_error* is called with what is logged.
    """

    def __init__(
        self,
        store_name: str,
        *,
        max_bugs: int | None = None,
        on_error: OnError | None = None,
    ) -> None:
        self._store_name = store_name
        self._max_bugs = max_bugs
        self.on_error = on_error
        self._began = 0.0
        #: Callers that found the store away and have not succeeded since.
        self._waiting: set[str] = set()
        #: Callers that failed for another reason, and what it was.
        self._troubled: dict[str, str] = {}
        self._log = ThrottledLog(logger)

    @property
    def trouble(self) -> str | None:
        """What fails although the store can be reached; None if nothing does."""
        troubled = dict(self._troubled)
        if not troubled:
            return None
        # Lanes and types repeat each other: "cycle 1f" and "cycle 77" are shown once.
        callers = sorted({caller.partition(" ")[0] for caller in troubled})
        return f"{', '.join(callers)}: {next(reversed(troubled.values()))}"

    async def persist(self, caller: str, call: Callable[[], Awaitable[T]]) -> T:
        """
        Return what *call* returns, however many times it takes.

        Raises:
            Exception: That of the last of *max_bugs* bugs in a row.
        """
        failures = bugs = 0
        try:
            while True:
                try:
                    result = await call()
                except Exception as exc:
                    bugs = 0 if isinstance(exc, StoreError) else bugs + 1
                    await self.pause(caller, exc, bugs=bugs, failures=failures)
                    failures += 1
                else:
                    self.recover(caller)
                    return result
        finally:
            # Cancelled: it no longer waits, which means nothing for the store.
            self._waiting.discard(caller)
            self._troubled.pop(caller, None)

    async def outlast(self, caller: str, call: Callable[[], Awaitable[T]]) -> T:
        """Return what *call* returns once the store is there; raise other errors."""
        failures = 0
        try:
            while True:
                try:
                    result = await call()
                except (StoreUnavailable, StoreFull) as exc:
                    await self.pause(caller, exc, bugs=0, failures=failures)
                    failures += 1
                else:
                    self.recover(caller)
                    return result
        finally:
            self._waiting.discard(caller)

    async def pause(
        self, caller: str, exc: Exception, *, bugs: int, failures: int
    ) -> None:
        """Report a failed call and wait, or raise the last bug that is tolerated."""
        self._fail(caller, exc)
        if bugs == self._max_bugs:
            raise exc
        await asyncio.sleep(_pause(failures))

    def recover(self, caller: str) -> None:
        """Note that *caller* works again; for calls that `persist` does not end."""
        if caller in self._waiting:
            self._waiting.remove(caller)
            if not self._waiting:
                away = time.monotonic() - self._began
                logger.warning("%s answers again after %.1f s", self._store_name, away)
        if caller in self._troubled:
            del self._troubled[caller]
            if not self._troubled:
                logger.warning("%s: %s works again", self._store_name, caller)

    def _fail(self, caller: str, exc: Exception) -> None:
        if isinstance(exc, StoreUnavailable | StoreFull):
            self._troubled.pop(caller, None)
            self._wait(caller, exc)
        else:
            self._waiting.discard(caller)
            self._report(caller, exc)

    def _wait(self, caller: str, exc: Exception) -> None:
        if not self._waiting:
            self._began = time.monotonic()
            logger.warning(
                "%s does not answer, trying until it does: %s", self._store_name, exc
            )
            self._notify(caller, exc)
        self._waiting.add(caller)

    def _report(self, caller: str, exc: Exception) -> None:
        # Moved to the end: the newest is shown.
        self._troubled.pop(caller, None)
        self._troubled[caller] = f"{type(exc).__name__}: {exc}"[:MAX_TROUBLE]
        if self._max_bugs is None or isinstance(exc, StoreError):
            is_logged = self._log.error(
                "%s: %s failed and is repeated until it succeeds (failing: %s)",
                self._store_name,
                caller,
                self.trouble,
                exc=exc,
            )
            if is_logged:
                self._notify(caller, exc)
        else:
            self._notify(caller, exc)
            logger.error(
                "%s: %s failed because of a bug; the worker stops after %d in a row",
                self._store_name,
                caller,
                self._max_bugs,
                exc_info=exc,
            )

    def _notify(self, caller: str, exc: Exception) -> None:
        if self.on_error is not None:
            self.on_error(caller, exc)


def _pause(failures: int) -> float:
    # Scattered over the whole range: a thousand workers that lost the store together
    # must not come back together.
    longest = min(FIRST_PAUSE * 2 ** min(failures, 16), LONGEST_PAUSE)
    return random.uniform(FIRST_PAUSE / 2, longest)


def short_pause() -> float:
    """Return the seconds to wait before reconnecting to a server that was lost."""
    # Random: processes that lost it together must not reconnect together.
    return random.uniform(0.02, 0.2)
