"""One job as the model knows it: plain fields, changed in place."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from kue.model.job import MAX_HISTORY, Attempt, Draft, Job, State, last_progress
from kue.model.payload import JSON
from kue.model.steps import MAX_SUSPENSIONS
from kue.store.codec import encode_json
from kue.store.values import LogLine, Result
from tests.store_model.stepping import StepBook


@dataclass
class Entry:
    """What `Job` shows, and what only the store knows besides."""

    id: int
    draft: Draft
    created_at: int
    state: State
    priority: int
    data: JSON
    tags: tuple[str, ...]
    max_attempts: int
    promote_at: int | None = None
    token: str = ""
    attempts: int = 0
    stalls: int = 0
    progress: int = 0
    progress_data: JSON = None
    cancelling: bool = False
    #: Why, while it is.
    reason: str = ""
    #: A limit, or that of its group, may hold it back, or surely does.
    may_be_held: bool = False
    is_held: bool = False
    #: A claim of the engine has set it aside: known where it matters.
    is_set_aside: bool = False
    #: While it waits: where it is in the order of its type.
    rank: int = 0
    history: list[Attempt] = field(default_factory=list)
    #: When the run ends for want of a sign of life.
    ttl_at: int | None = None
    #: Every run that ended, however long ago → the word for whoever ends it again.
    ended: dict[str, Result] = field(default_factory=dict)
    #: Parents it still waits for.
    parents: set[int] = field(default_factory=set)
    log: list[LogLine] = field(default_factory=list)
    steps: StepBook = field(default_factory=StepBook)
    #: Whether it ever had any: most jobs need not be asked for them.
    had_steps: bool = False

    @classmethod
    def born(cls, job_id: int, draft: Draft, now: int) -> Entry:
        """Return the job a draft becomes, before anyone decided its state."""
        spec = draft.spec
        return cls(
            id=job_id,
            draft=draft,
            created_at=now,
            state=State.WAITING,
            priority=draft.priority,
            # Encoded in a draft, decoded in that of a schedule.
            data=msgspec.json.decode(encode_json(spec.data)),
            tags=spec.tags,
            max_attempts=spec.max_attempts,
        )

    @property
    def type(self) -> str:
        return self.draft.type

    @property
    def group(self) -> str | None:
        return self.draft.group

    @property
    def worker(self) -> str | None:
        run = self.view().run
        return run.worker if run else None

    @property
    def ended_at(self) -> int:
        return self.history[-1].at

    def time_from(self, now: int) -> int:
        """Return when it may run if it was added, or let go by its parents, *now*."""
        at = self.draft.at
        return now + self.draft.spec.delay if at is None else at

    def is_past_its_life(self, now: int) -> bool:
        """Tell whether it should have been started by now."""
        return self.draft.expires > 0 and now >= self.created_at + self.draft.expires

    def become(self, draft: Draft, now: int) -> int:
        """Take data and options of another draft; return when it may run."""
        age = max(0, now - self.created_at)
        lengths = ("expires", "unique_for", "unique_at_most")
        given = {name: getattr(draft, name) for name in lengths}
        # They count from now.
        shifted = {name: length + age for name, length in given.items() if length}
        fresh = Entry.born(self.id, msgspec.structs.replace(draft, **shifted), now)
        for name in ("draft", "priority", "data", "tags", "max_attempts"):
            setattr(self, name, getattr(fresh, name))
        self.attempts = self.stalls = 0
        self.steps = StepBook()
        self.parents.clear()
        self.let_go()
        due = self.time_from(now)
        longest = draft.debounce_max
        due = min(due, self.created_at + longest) if longest else due
        if self.history and self.history[-1].outcome == "replaced":
            self.history.pop()
        delay = max(0, due - now)
        self.history.append(Attempt(token="", at=now, outcome="replaced", delay=delay))
        return due

    def remembers(self, token: str) -> bool:
        """Tell whether the end of a run is still in the story."""
        return any(line.token == token for line in self.history[-MAX_HISTORY:])

    def add_line(self, line: Attempt) -> None:
        """Add to the story, which keeps the last suspensions alone."""
        suspended = [one for one in self.history if one.suspended]
        if line.suspended and len(suspended) >= MAX_SUSPENSIONS:
            self.history.remove(suspended[0])
        self.history.append(line)

    def let_go(self) -> None:
        """No limit holds it back any more."""
        self.may_be_held = self.is_held = self.is_set_aside = False

    def view(self) -> Job:
        """Return what a reader of the store must see, but for `Job.held`."""
        draft = self.draft
        progress, data = self.progress, self.progress_data
        if self.state.is_final:
            progress, data = last_progress(self.state, self.history[-MAX_HISTORY:])
        spec = msgspec.structs.replace(
            draft.spec,
            data=self.data,
            tags=self.tags,
            max_attempts=self.max_attempts,
        )
        return Job(
            id=self.id,
            type=draft.type,
            state=self.state,
            priority=self.priority,
            created_at=self.created_at,
            spec=spec,
            unique=draft.unique,
            unique_for=draft.unique_for,
            unique_until=draft.unique_until,
            unique_at_most=draft.unique_at_most,
            group=draft.group,
            limited_by=draft.limited_by,
            ttl=draft.ttl,
            expires=draft.expires,
            once=draft.once,
            after_any=draft.after_any,
            promote_at=self.promote_at if self.state is State.DELAYED else None,
            token=self.token,
            stalls=self.stalls,
            progress=progress,
            progress_data=data,
            cancelling=self.cancelling,
            rank=self.rank if self.state is State.WAITING else 0,
            history=tuple(self.history[-MAX_HISTORY:]),
        )
