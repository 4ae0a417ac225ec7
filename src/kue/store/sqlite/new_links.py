"""
Links of jobs that are being added: their parents, and the jobs that wait for them.

A finished job that is blocked again is linked as if it were added now.

Most calls of `add` have none, and make no `NewLinks`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kue.model.errors import InvalidTransition, JobNotFound, UnknownParent
from kue.model.job import State
from kue.model.parent_failure import NONE_FAILED, REMOVED, effect_of, reason_of
from kue.store.sqlite import dependencies, flows, lost_jobs
from kue.store.sqlite.verb_transaction import Transaction, as_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kue.model.job import Draft, Job, JobTerms
    from kue.store.values import Added

_STATES = "SELECT id, state FROM jobs WHERE id IN (SELECT value FROM json_each(?))"
_HIGHEST = "SELECT max(id) FROM jobs"
_LINKS = """
INSERT OR IGNORE INTO links (parent, child)
SELECT value->>0, value->>1 FROM json_each(?)
"""


def has_links(draft: Draft) -> bool:
    """Return whether a draft has to do with other jobs."""
    return bool(draft.spec.after or draft.before) or draft.flow is not None


class Standing(NamedTuple):
    """What the parents of a new job mean for it."""

    #: Blocked, cancelled, or free to run.
    state: State
    reason: str = ""
    parents: tuple[int, ...] = ()


#: It waits for nothing.
FREE = Standing(State.WAITING)


def standing_of(
    terms: JobTerms, how_of: Callable[[int], str], *, is_target: bool = False
) -> Standing:
    """Return what the parents of a job mean for it, by the state of each."""
    open_: list[int] = []
    for parent in terms.spec.after:
        how = how_of(parent)
        match effect_of(how, terms.on_parent_failure):
            case "release":
                return FREE
            case "cancel":
                return Standing(State.CANCELLED, reason_of(parent, how))
            case "wait":
                open_.append(parent)
    if open_ or is_target:
        return Standing(State.BLOCKED, parents=tuple(open_))
    if terms.spec.after and terms.on_parent_failure == "only":
        return Standing(State.CANCELLED, NONE_FAILED)
    return FREE


def standing_again(tx: Transaction, job: Job) -> Standing:
    """Return what the parents of a job that exists mean for it now."""
    return standing_of(job, partial(_read_state, tx))


def link_again(tx: Transaction, job_id: int, parents: Iterable[int]) -> None:
    """Have a job wait for parents again."""
    tx.run("DELETE FROM unlinked WHERE child = ?", job_id)
    tx.run(_LINKS, as_json([(parent, job_id) for parent in parents]))


def _read_state(tx: Transaction, job_id: int) -> str:
    state: str | None = tx.one("SELECT state FROM jobs WHERE id = ?", job_id)
    if state is None:
        return State.COMPLETE if lost_jobs.has_succeeded(tx, job_id) else REMOVED
    return state


class NewLinks:
    """Parents, targets of ``before`` and flows of the drafts of one call."""

    def __init__(
        self, tx: Transaction, drafts: Sequence[Draft], added: list[Added], last_id: int
    ) -> None:
        """*added* are the results so far, of this part of the call and earlier ones."""
        self._tx = tx
        self._added = added
        self._rows: list[tuple[int, int]] = []
        self._flows: set[int] = set()
        #: Drafts that others are to precede, by their references.
        self._targets = {n for draft in drafts for n in draft.before if n < 0}
        before = {n for draft in drafts for n in draft.before if n > 0}
        after = {n for draft in drafts for n in draft.spec.after if n > 0}
        found = tx.db.execute(_STATES, (as_json(list(before | after)),)).fetchall()
        self._state_of: dict[int, str] = dict(found)
        if not added:
            self._check(after, before, last_id)

    def _check(self, after: set[int], before: set[int], last_id: int) -> None:
        """Refuse the whole call for ids that cannot be waited for, or cannot wait."""
        highest = max(after, default=0)
        # Of a damaged store the last id may be behind.
        if highest > last_id and highest > (self._tx.one(_HIGHEST) or 0):
            raise UnknownParent(highest)
        for target in sorted(before):
            if target not in self._state_of:
                raise JobNotFound(target)
            state = State(self._state_of[target])
            if state is not State.BLOCKED:
                wanted = "wait for another job; only blocked jobs can"
                raise InvalidTransition(target, state, wanted)

    def resolve(self, draft: Draft, next_id: int) -> Draft | None:
        """Return a draft with ids for references; None if one of those was refused."""
        spec, flow = draft.spec, draft.flow
        if min(*spec.after, *draft.before, flow or 0, 0) >= 0:
            return draft
        after = tuple(map(self._id_of, spec.after))
        before = tuple(map(self._id_of, draft.before))
        if flow is not None:
            flow = next_id if flow == self._own_reference else self._id_of(flow)
        if 0 in (*after, *before, flow):
            return None
        spec = msgspec.structs.replace(spec, after=after)
        return msgspec.structs.replace(draft, spec=spec, before=before, flow=flow)

    @property
    def _own_reference(self) -> int:
        """The reference to the draft that is being added."""
        return -len(self._added) - 1

    def _id_of(self, number: int) -> int:
        return self._added[-number - 1].id if number < 0 else number

    def standing(self, draft: Draft) -> Standing:
        """Return whether a job has to wait for its parents, or is cancelled."""
        is_target = self._own_reference in self._targets
        return standing_of(draft, self._how, is_target=is_target)

    def _how(self, job_id: int) -> str:
        """Return the state of a job; of a removed one, whether it had succeeded."""
        if job_id not in self._state_of:
            self._state_of[job_id] = _read_state(self._tx, job_id)
        return self._state_of[job_id]

    def add(
        self, draft: Draft, job_id: int, state: State, parents: Iterable[int]
    ) -> None:
        """Note the links of a new job."""
        self._state_of[job_id] = state
        self._rows.extend((parent, job_id) for parent in parents)
        targets = [id for id in draft.before if self._how(id) == State.BLOCKED]
        self._rows.extend((job_id, target) for target in targets)
        if targets and state is State.CANCELLED:
            self._tx.ended.append((job_id, state))
        if draft.flow is not None:
            self._flows.add(draft.flow)
            self._tx.flow_changes.add(draft.flow, state)

    def replaced(self, job_id: int) -> None:
        """Note that a job was replaced: it waits for no others."""
        self._state_of.pop(job_id, None)

    def write(self) -> None:
        """Write what was noted; the jobs themselves must be written."""
        self._tx.run(_LINKS, as_json(self._rows))
        flows.begin(self._tx.db, self._flows)
        self._rows.clear()
        self._flows.clear()

    def pass_on(self, *, is_last: bool) -> None:
        """
        Do what new jobs mean for those that are to wait for them.

        Between the parts of a call these wait for themselves, too, or those before them
        could all have ended before the next part is added.
        """
        dependencies.notify_dependants(self._tx)
        positions = (-number - 1 for number in self._targets)
        added = [self._added[at] for at in positions if at < len(self._added)]
        targets = [one.id for one in added if one.new]
        if is_last:
            dependencies.end_holds(self._tx, targets)
        else:
            dependencies.hold(self._tx, targets)
