"""Reply to progress and log lines, for handlers that await it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kue.store.replies import check

if TYPE_CHECKING:
    from collections.abc import Generator

    from kue.store.values import Result


class ProgressReply:
    """
    A report that is in flight; awaiting it is optional.

    Outside the worker's event loop there is no reply: awaiting returns at once.
    """

    __slots__ = ("_job_id", "_reply", "_wanted")

    def __init__(
        self, job_id: int, wanted: str, reply: asyncio.Future[Result | None] | None
    ) -> None:
        self._job_id = job_id
        #: Ends the sentence "job 7 is active and cannot …".
        self._wanted = wanted
        self._reply = reply

    def __await__(self) -> Generator[Any, None, None]:
        if self._reply is None:
            return
        # Shielded: others may wait for the same reply.
        result = yield from asyncio.shield(self._reply).__await__()
        if result is not None:
            check(self._job_id, result, wanted=self._wanted)
