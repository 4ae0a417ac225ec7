"""The answer to a sign of life, for those who want to wait for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kue.store.replies import check

if TYPE_CHECKING:
    from collections.abc import Generator

    from kue.store.values import Result


class ProgressReply:
    """
    Something that was said and is on its way; awaiting it is optional.

    Outside the worker's event loop there is nothing to wait for: awaiting returns at
    once.
    """

    __slots__ = ("_answer", "_job_id", "_wanted")

    def __init__(
        self, job_id: int, wanted: str, answer: asyncio.Future[Result | None] | None
    ) -> None:
        self._job_id = job_id
        #: Ends the sentence "job 7 is active and cannot …".
        self._wanted = wanted
        self._answer = answer

    def __await__(self) -> Generator[Any, None, None]:
        if self._answer is None:
            return
        # Shielded: others may wait for the same answer.
        word = yield from asyncio.shield(self._answer).__await__()
        if word is not None:
            check(self._job_id, word, wanted=self._wanted)
