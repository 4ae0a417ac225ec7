"""Settling: runs end, once each, by the right of their token."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kue.model.job import Completed, State
from kue.store.sqlite import transitions
from kue.store.sqlite.rows import slips_of
from kue.store.sqlite.side_effects import follow
from kue.store.sqlite.verbs import workers
from kue.store.sqlite.verbs.claim import claim
from kue.store.validation import InvalidCall
from kue.store.values import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.model.job import Ending
    from kue.store.sqlite.rows import StateRow
    from kue.store.sqlite.transaction import Transaction
    from kue.store.values import Claim, Claimed, Outcome

#: What follows the opening of a line when upkeep ended the run.
_TAKEN = re.compile(rb'\d+,"taken":')
_STORY = "SELECT CAST(story AS BLOB) FROM jobs WHERE id = ?"
_IS_SILENT = "SELECT ttl_at <= ?2 FROM jobs WHERE id = ?1"


def settle(turn: Transaction, outcomes: Sequence[Outcome]) -> list[Result]:
    """End runs; say for each what became of it."""
    slips = slips_of(turn.db, [outcome.job.id for outcome in outcomes])
    endings: dict[str, list[tuple[StateRow, Ending]]] = {}
    words: list[Result] = []
    #: Runs ended by this very call, which may name one twice.
    ended: dict[int, Result] = {}
    for outcome in outcomes:
        job_id = outcome.job.id
        slip = slips.get(job_id)
        if slip is None:
            words.append(Result.GONE)
            continue
        word = _judge(turn, slip, outcome)
        if word is Result.DONE:
            word = ended.get(job_id, word)
        if word is Result.DONE:
            pair = (slip, outcome.ending)
            endings.setdefault(outcome.overdue, []).append(pair)
            ended[job_id] = _repeated(slip, outcome.ending)
        words.append(word)
    for overdue, pairs in endings.items():
        transitions.end(turn, pairs, taken=overdue)
    return words


def cycle(
    turn: Transaction,
    outcomes: Sequence[Outcome],
    types: Sequence[str],
    limit: int,
    worker: str,
    call: Claim,
    lease: int,
) -> tuple[list[Result], Claimed]:
    """End runs and start others."""
    words = settle(turn, outcomes)
    # The claim must find the slots free and the dependants ready.
    follow(turn)
    return words, claim(turn, types, limit, worker, call, lease)


def _judge(turn: Transaction, slip: StateRow, outcome: Outcome) -> Result:
    token = outcome.job.token
    if token and token == slip.token and slip.state == State.ACTIVE:
        return Result.DONE if _is_due(turn, slip, outcome.overdue) else Result.LOST
    if token and _has_ended(turn, slip, token):
        return Result.ALREADY
    return Result.LOST


def _is_due(turn: Transaction, slip: StateRow, overdue: str) -> bool:
    """Tell whether someone other than the run itself may end it now."""
    match overdue:
        case "":
            return True
        case "lease":
            return workers.is_over(turn, slip.id)
        case "ttl":
            return bool(turn.one(_IS_SILENT, slip.id, turn.now))
        case _:
            raise InvalidCall(f"overdue is 'lease' or 'ttl', not {overdue!r}")


def _has_ended(turn: Transaction, slip: StateRow, token: str) -> bool:
    """Tell whether the run ended by itself: one that was taken back is lost."""
    story: bytes = turn.one(_STORY, slip.id)
    opening = b'\n{"run":"%s","at":' % token.encode()
    _, found, line = (b"\n" + story).partition(opening)
    return bool(found) and not _TAKEN.match(line)


def _repeated(slip: StateRow, ending: Ending) -> Result:
    """Return what the same call hears when it ends the run a second time."""
    is_removed = isinstance(ending, Completed) and slip.remove_on_complete
    return Result.GONE if is_removed else Result.ALREADY
