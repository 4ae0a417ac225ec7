"""The model of links: references of drafts, parents, jobs that wait as well, flows."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kue.model.errors import InvalidTransition, JobNotFound, KueError, UnknownParent
from kue.model.job import Draft, State
from kue.store.values import Added
from tests.store_model.entry import Entry
from tests.store_model.queue_cap import Capped


class Linking(Capped):
    """What new jobs have to do with others."""

    def refusal(self, drafts: Sequence[Draft]) -> type[KueError] | None:
        """Return the error that a call is refused with, if it is."""
        for parent in (n for draft in drafts for n in draft.spec.after):
            if parent > self.last_id:
                return UnknownParent
        targets = sorted({n for draft in drafts for n in draft.before if n > 0})
        for target in targets:
            if target not in self.jobs:
                return JobNotFound
            if self.jobs[target].state is not State.BLOCKED:
                return InvalidTransition
        return None

    def resolved(self, draft: Draft, added: Sequence[Added]) -> Draft | None:
        """Return a draft with ids for references; None if one of those was refused."""

        def id_of(number: int) -> int:
            if number > 0:
                return number
            is_own = -number > len(added)
            return self.last_id + 1 if is_own else added[-number - 1].id

        after = tuple(map(id_of, draft.spec.after))
        before = tuple(map(id_of, draft.before))
        flow = None if draft.flow is None else id_of(draft.flow)
        if 0 in (*after, *before, flow):
            return None
        spec = msgspec.structs.replace(draft.spec, after=after)
        return msgspec.structs.replace(draft, spec=spec, before=before, flow=flow)

    def first_state(self, entry: Entry, now: int, *, is_target: bool) -> State:
        """Return the state of a new job, and note the parents that it waits for."""
        draft = entry.draft
        policy = draft.on_parent_failure
        ends = {parent: self._end_of(parent) for parent in draft.spec.after}
        ready = State.DELAYED if entry.time_from(now) > now else State.WAITING
        if policy == "only" and State.FAILED in ends.values():
            return ready
        fatal = {"block": {State.CANCELLED}, "cancel": {State.CANCELLED, State.FAILED}}
        if fatal.get(policy, set()) & set(ends.values()):
            return State.CANCELLED
        entry.parents = {
            parent
            for parent, end in ends.items()
            if end is None or (end is State.FAILED and policy == "block")
        }
        if entry.parents or is_target:
            return State.BLOCKED
        return State.CANCELLED if ends and policy == "only" else ready

    def _end_of(self, parent: int) -> State | None:
        """Return how a job ended; None if it has not."""
        if parent not in self.jobs:
            return State.CANCELLED if parent in self.lost else State.COMPLETE
        state = self.jobs[parent].state
        return state if state.is_final else None

    def join(self, entry: Entry) -> bool:
        """Have blocked jobs wait for a new one; return whether there are any."""
        targets = [self.jobs[id] for id in entry.draft.before if id in self.jobs]
        blocked = [one for one in targets if one.state is State.BLOCKED]
        for target in blocked:
            target.parents.add(entry.id)
        return bool(blocked)

    def enter_flow(self, entry: Entry) -> None:
        flow = entry.draft.flow
        if flow is not None and flow in self.jobs:
            self.flows.setdefault(flow, {})[entry.id] = None
