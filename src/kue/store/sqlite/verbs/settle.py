"""Settle: runs end, once each, if their fencing token is current."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kue.model.job import Completed, State
from kue.store.sqlite import transitions
from kue.store.sqlite.dependencies import apply_side_effects
from kue.store.sqlite.rows import state_rows_of
from kue.store.sqlite.verbs import workers
from kue.store.sqlite.verbs.claim import claim
from kue.store.validation import InvalidCall
from kue.store.values import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.model.job import Ending
    from kue.store.sqlite.rows import StateRow
    from kue.store.sqlite.verb_transaction import Transaction
    from kue.store.values import Claimed, ClaimRequest, Outcome

#: What follows the opening of a line when maintenance reclaimed the run.
_TAKEN = re.compile(rb'\d+,"taken":')
_STORY = "SELECT CAST(story AS BLOB) FROM jobs WHERE id = ?"
_HAS_TTL_PASSED = "SELECT ttl_at <= ?2 FROM jobs WHERE id = ?1"


def settle(tx: Transaction, outcomes: Sequence[Outcome]) -> list[Result]:
    rows = state_rows_of(tx.db, [outcome.job.id for outcome in outcomes])
    endings: dict[str, list[tuple[StateRow, Ending]]] = {}
    results: list[Result] = []
    #: Runs ended by this very call, which may contain one twice.
    ended: dict[int, Result] = {}
    for outcome in outcomes:
        job_id = outcome.job.id
        row = rows.get(job_id)
        if row is None:
            results.append(Result.GONE)
            continue
        result = _result_of(tx, row, outcome)
        if result is Result.DONE:
            result = ended.get(job_id, result)
        if result is Result.DONE:
            pair = (row, outcome.ending)
            endings.setdefault(outcome.overdue, []).append(pair)
            ended[job_id] = _repeated(row, outcome.ending)
        results.append(result)
    for overdue, pairs in endings.items():
        transitions.end(tx, pairs, taken=overdue)
    return results


def cycle(
    tx: Transaction,
    outcomes: Sequence[Outcome],
    request: ClaimRequest,
) -> tuple[list[Result], Claimed]:
    results = settle(tx, outcomes)
    # The claim must find the slots free and the dependants ready.
    apply_side_effects(tx)
    return results, claim(tx, request)


def _result_of(tx: Transaction, row: StateRow, outcome: Outcome) -> Result:
    token = outcome.job.token
    if token and token == row.token and row.state == State.ACTIVE:
        return Result.DONE if _is_due(tx, row, outcome.overdue) else Result.LOST
    if token and _has_ended(tx, row, token):
        return Result.ALREADY
    return Result.LOST


def _is_due(tx: Transaction, row: StateRow, overdue: str) -> bool:
    """Return whether maintenance may end the run now; its worker always may."""
    match overdue:
        case "":
            return True
        case "lease":
            return workers.is_over(tx, row.id)
        case "ttl":
            return bool(tx.one(_HAS_TTL_PASSED, row.id, tx.now))
        case _:
            raise InvalidCall(f"overdue is 'lease' or 'ttl', not {overdue!r}")


def _has_ended(tx: Transaction, row: StateRow, token: str) -> bool:
    """Return whether the run was settled; one that was reclaimed is lost."""
    story: bytes = tx.one(_STORY, row.id)
    opening = b'\n{"run":"%s","at":' % token.encode()
    _, found, line = (b"\n" + story).partition(opening)
    return bool(found) and not _TAKEN.match(line)


def _repeated(row: StateRow, ending: Ending) -> Result:
    """Return the result when the same call settles the run a second time."""
    is_removed = isinstance(ending, Completed) and row.remove_on_complete
    return Result.GONE if is_removed else Result.ALREADY
