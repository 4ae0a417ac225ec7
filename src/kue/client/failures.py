"""Failed jobs at run time: dead letter types, webhooks, and dead letters put back."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kue.model.dead_letter import DeadLetter
from kue.model.errors import PayloadRefused, QueueFull
from kue.model.failure_rule import FailureRule
from kue.model.job import State
from kue.store.values import (
    ExpectedState,
    Filter,
    MoveRequest,
    RemoveRequest,
    Result,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from kue.client.connection import Connection
    from kue.model.job import Draft, Job

logger = logging.getLogger(__name__)

#: Where dead letters wait for somebody; one that a handler completes is done with.
_OPEN = (State.WAITING, State.DELAYED, State.FAILED)


class Failures:
    """The methods of a queue about what happens to jobs that failed for good."""

    _connection: Connection

    async def failure_rules(self) -> dict[str | None, FailureRule]:
        """Return what is done about failed jobs, by type; None: about those of all."""
        return await self._connection.store.failure_rules()

    async def set_dead_letter(self, type: str | None, to: str | None) -> None:
        """
        Forward jobs of *type* (None: of any) that fail from now on to the type *to*.

        None: forward them no more.  It holds until the program declares another one.

        Raises:
            ValueError: *to* is *type* itself, or one of Kue's own types.
        """
        rule = await self._rule(type)
        await self._set_rule(type, replace(rule, dead_letter=to or ""))

    async def set_failure_webhook(self, type: str | None, url: str | None) -> None:
        """
        Report jobs of *type* (None: of any) that fail from now on to *url*.

        None: report them no more.  A report is a job of the type ``kue.webhook``, which
        is retried, and signed with the setting ``webhook_secret``.

        Raises:
            ValueError: The URL is not one of http or https, or has credentials.
        """
        rule = await self._rule(type)
        await self._set_rule(type, replace(rule, webhook=url or ""))

    async def replay(
        self,
        dead_letter: str,
        *,
        type: str | None = None,
        ids: Collection[int] | None = None,
        limit: int | None = None,
    ) -> int:
        """
        Put dead letters back to where they came from; return how many.

        The job that failed is retried, if it is still there and has failed; if not,
        it is added again as it was, with a new id.  Then the dead letter is removed.

        Args:
            dead_letter: The type of the dead letters.
            type: Only those of jobs of this type, or of the task of this name.
            ids: Only these dead letters.
            limit: No more than so many, the oldest first.

        Raises:
            QueueFull: A job that is gone cannot be added again: as many of its type
                wait as its cap allows.  Its dead letter stays; ``added`` of the error
                has the number of those that were put back before it.
        """
        count = 0
        for state in _OPEN:
            cursor: str | None = None
            while limit is None or count < limit:
                page = await self._connection.store.find(
                    Filter(type=dead_letter, state=state), cursor=cursor
                )
                for job in page.jobs:
                    if limit is not None and count >= limit:
                        break
                    if ids is None or job.id in ids:
                        try:
                            count += await self._replay(job, type)
                        except QueueFull as exc:
                            exc.added = count
                            raise
                cursor = page.cursor
                if cursor is None:
                    break
        return count

    async def _replay(self, job: Job, type: str | None) -> bool:
        letter = DeadLetter.read(job.data)
        if letter is None or type not in (None, letter.type, letter.name):
            return False
        try:
            if not await self._retry_origin(letter):
                await self._add_again(job, letter.replayed())
        except PayloadRefused:
            # Nothing is wrong with the letter: a key is missing here.
            raise
        except ValueError as exc:
            # Others must be put back all the same.
            logger.warning("dead letter %d cannot be replayed: %s", job.id, exc)
            return False
        seen = {job.id: ExpectedState.of(job)}
        await self._connection.store.remove(RemoveRequest([job.id], seen=seen))
        return True

    async def _add_again(self, job: Job, draft: Draft) -> None:
        """Add the job that the dead letter *job* is about."""
        [added] = await self._connection.store.add(
            [draft],
            # The same letter again adds nothing, if it could not be removed.
            producer=f"replay {job.address_id}",
            seq=1,
        )
        if added.is_refused:
            # By this call or by an earlier one, whose answer is repeated.
            await self._connection.batcher.add_batch([draft])

    async def _retry_origin(self, letter: DeadLetter) -> bool:
        """Retry the job that failed; return whether it is taken care of."""
        store = self._connection.store
        [job] = await store.get([letter.job_id])
        if job is None or job.created_at != letter.created_at:
            return False
        if job.state is not State.FAILED:
            # Somebody was faster, and it ran or runs again.
            return not job.state.is_final or job.state is State.COMPLETE
        request = MoveRequest(
            [job.id], State.WAITING, seen={job.id: ExpectedState.of(job)}
        )
        [reply] = await store.move(request)
        return reply.word in (Result.DONE, Result.ALREADY)

    async def _rule(self, type: str | None) -> FailureRule:
        rules = await self._connection.store.failure_rules()
        return rules.get(type, FailureRule())

    async def _set_rule(self, type: str | None, rule: FailureRule) -> None:
        await self._connection.store.set_failure_rule(type, rule)
