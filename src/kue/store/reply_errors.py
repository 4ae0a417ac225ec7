"""Replies of a store as errors: the one place where a `Result` becomes an exception."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.errors import InvalidTransition, JobNotFound, LeaseLost, UniqueHeld
from kue.store.values import Reply, Result

if TYPE_CHECKING:
    from kue.model.job import State


def check(
    job_id: int,
    word: Result,
    *,
    wanted: str,
    state: State | None = None,
    holder: int | None = None,
) -> Result:
    """
    Return *word* if it means success, now or later.

    *wanted* ends the sentence "job 7 is active and cannot …".

    Raises:
        JobNotFound, LeaseLost, InvalidTransition, UniqueHeld: It means failure.
    """
    match word:
        case Result.DONE | Result.ALREADY | Result.ASKED:
            return word
        case Result.GONE:
            raise JobNotFound(job_id)
        case Result.LOST:
            raise LeaseLost(job_id)
        case Result.REFUSED:
            raise InvalidTransition(job_id, state, wanted)
        case Result.HELD:
            raise UniqueHeld(job_id, holder)


def check_reply(job_id: int, reply: Reply, *, wanted: str) -> Result:
    """Do `check` for a `Reply`."""
    return check(
        job_id, reply.word, wanted=wanted, state=reply.state, holder=reply.holder
    )
