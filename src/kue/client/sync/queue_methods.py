"""
Blocking methods of a queue: queries, administration, bulk actions.

Written by ``tools/make_sync.py`` from the async methods; do not edit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from kue.client.sync.connection import BlockingCalls
from kue.client.sync.event_iterator import iterate
from kue.client.sync.handle import SyncJobHandle
from kue.model.job import FINAL, PROMOTABLE
from kue.store.values import MAX_SCAN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from datetime import datetime

    from kue.client.admin import OnFull, WithId, WorkerOrder
    from kue.client.batch_queries import BatchPage
    from kue.client.bulk_actions import BulkResult, BulkSummary, JobGiven, OnProgress
    from kue.client.flow_actions import FlowRetry
    from kue.client.flow_graph import FlowGraph
    from kue.client.queries import Order
    from kue.client.selection import Selection
    from kue.model.alert_options import AlertOptions
    from kue.model.alerts import ActiveAlert, AlertRule
    from kue.model.circuit import Circuit
    from kue.model.duration import Duration
    from kue.model.failure_rule import FailureRule
    from kue.model.job import Draft, Job, State
    from kue.model.named_limits import StoredLimit, TaskLimit
    from kue.model.options import FilterOptions
    from kue.model.payload import JSON
    from kue.model.schedule import Schedule
    from kue.model.schedule_options import ScheduleOptions
    from kue.model.steps import JobSteps
    from kue.store.values import (
        ErrorGroup,
        Errors,
        Limits,
        LimitUse,
        LogLine,
        Page,
        Pause,
        Stacks,
        Stat,
        StoreFacts,
        WorkerStatus,
    )
    from kue.worker.alert_records import Silenced


class SyncQueueMethods(BlockingCalls):
    """Blocking methods of a queue: queries, administration, bulk actions."""

    def now(self) -> int:
        """Return the store's clock, Unix ms: the source of all times of jobs."""
        return self.call(lambda q: q.now())

    def get(self, job_id: int) -> SyncJobHandle[Any]:
        """
        Return job *job_id*, read just now.

        Raises:
            JobNotFound: There is no such job.
        """
        return SyncJobHandle(self, self.call(lambda q: q.get(job_id)))

    def exists(self, job_id: int) -> bool:
        """Return whether there is such a job."""
        return self.call(lambda q: q.exists(job_id))

    def logs(self, job_id: int, start: int = 0, stop: int = -1) -> list[LogLine]:
        """Return lines *start* to *stop* (inclusive) of a job's log."""
        return self.call(lambda q: q.logs(job_id, start, stop))

    def steps(self, job_id: int) -> JobSteps:
        """Return what a job did and waits for, and the signals sent to it."""
        return self.call(lambda q: q.steps(job_id))

    def counts_by_type(self) -> dict[str, dict[State, int]]:
        """Return how many jobs each type has in each state."""
        return self.call(lambda q: q.counts_by_type())

    def counts(self, type: str | None = None) -> dict[State, int]:
        """Return how many jobs of *type* (None: of all types) each state has."""
        return self.call(lambda q: q.counts(type))

    def count(self, state: State | str, type: str | None = None) -> int:
        """Return how many jobs of *type* (None: of all types) are in *state*."""
        return self.call(lambda q: q.count(state, type))

    def inactive_count(self, type: str | None = None) -> int:
        """Return how many jobs wait to run."""
        return self.call(lambda q: q.inactive_count(type))

    def active_count(self, type: str | None = None) -> int:
        """Return how many jobs run."""
        return self.call(lambda q: q.active_count(type))

    def delayed_count(self, type: str | None = None) -> int:
        """Return how many jobs wait for their time."""
        return self.call(lambda q: q.delayed_count(type))

    def complete_count(self, type: str | None = None) -> int:
        """Return how many jobs succeeded and are kept."""
        return self.call(lambda q: q.complete_count(type))

    def failed_count(self, type: str | None = None) -> int:
        """Return how many jobs failed and are kept."""
        return self.call(lambda q: q.failed_count(type))

    def types(self) -> list[str]:
        """Return every type that ever had a job, sorted."""
        return self.call(lambda q: q.types())

    def work_time(self, within: Duration | None = None) -> int:
        """
        Return how long all successful runs ever took, all together, in ms.

        With *within*, at most a day, it is the time of runs that ended in these last
        minutes, failed ones included.

        Raises:
            ValueError: *within* is longer than a day: add up `hours`.
        """
        return self.call(lambda q: q.work_time(within))

    def stats(self, since: int, until: int) -> list[Stat]:
        """Return counters by minute and type, from minute *since* to *until*."""
        return self.call(lambda q: q.stats(since, until))

    def hours(self, since: int, until: int) -> list[Stat]:
        """Return counters by hour and type, from hour *since* to *until*."""
        return self.call(lambda q: q.hours(since, until))

    def facts(self) -> StoreFacts:
        """Return facts about the store: engine, version, size, and how fast it is."""
        return self.call(lambda q: q.facts())

    def stacks(self, worker: str) -> Stacks | None:
        """Return the stacks that a worker last stored by `order`, in these minutes."""
        return self.call(lambda q: q.stacks(worker))

    def errors(self, type: str | None = None, *, limit: int = 50) -> Errors:
        """
        Return the errors of jobs that are failed now, the most frequent first.

        Errors that differ only in numbers are one; `find` and `Selection` take their
        fingerprints.  The store keeps them: the cost does not grow with failed jobs.
        """
        return self.call(lambda q: q.errors(type, limit=limit))

    def workers(self) -> list[WorkerStatus]:
        """Return the workers the store knows of, by name."""
        return self.call(lambda q: q.workers())

    def page(
        self,
        state: State | str | None = None,
        type: str | None = None,
        *,
        limit: int = 50,
        cursor: str | None = None,
        skip: int = 0,
        descending: bool = False,
    ) -> Page:
        """Return jobs in order, from *cursor* on; a page has the next one's cursor."""
        return self.call(
            lambda q: q.page(
                state,
                type,
                limit=limit,
                cursor=cursor,
                skip=skip,
                descending=descending,
            )
        )

    def range(
        self,
        first: int,
        last: int,
        order: Order = "asc",
        *,
        state: State | str | None = None,
        type: str | None = None,
    ) -> list[Job]:
        """
        Return jobs number *first* to *last*, both included, counted from 0 as Kue does.

        A *last* of -1 is the very last.

        Raises:
            ValueError: The numbers, the order or the state make no sense.
        """
        return self.call(lambda q: q.range(first, last, order, state=state, type=type))

    def find(
        self,
        *,
        state: State | str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        descending: bool = False,
        scan: int = MAX_SCAN,
        accept: Callable[[Job], bool] | None = None,
        **filters: Unpack[FilterOptions],
    ) -> Page:
        """
        Return jobs that match everything given.

        *text* is words in the data, the last error or the newest 100 lines of the log,
        in any order, ignoring case; ``'"two words"'`` is a phrase.  *error* is the same
        in the last error alone.  *worker* runs the job or ran it last; *fingerprint* is
        that of a group of `errors`; *data* maps paths to values, such as
        ``{"user.id": 42}``; *since* and *until* are creation times in Unix ms; *accept*
        is called with each job that matches all of that but the words of *text*.

        Looks at no more than *scan* jobs, and about 32 MiB of them: a page may be
        short, even empty, and still have a cursor.  `Page.looked_at` is how many.
        """
        return self.call(
            lambda q: q.find(
                state=state,
                limit=limit,
                cursor=cursor,
                descending=descending,
                scan=scan,
                accept=accept,
                **filters,
            )
        )

    def paused(self) -> list[Pause]:
        """Return the pauses in force."""
        return self.call(lambda q: q.paused())

    def limits(self) -> dict[str, Limits]:
        """Return the limits in force, by type."""
        return self.call(lambda q: q.limits())

    def named_limits(self) -> dict[str, StoredLimit]:
        """Return the limits that jobs share by name, and their rules."""
        return self.call(lambda q: q.named_limits())

    def limit_use(self, name: str, *, limit: int = 100) -> list[LimitUse]:
        """Return how keys of a named limit are used, the most wanted first."""
        return self.call(lambda q: q.limit_use(name, limit=limit))

    def pause(
        self,
        type: str | None = None,
        *,
        worker: str | None = None,
        reason: str = "",
        by: str = "",
        until: Duration | datetime | None = None,
    ) -> None:
        """
        Let no worker claim jobs of *type* (None: of any type).

        With *worker*, only that worker claims no more; it is notified with its next
        heartbeat, and one that was given a name is still paused after a restart.

        Running jobs go on.  Ends with `resume`, or by itself after *until* (a duration)
        or at that moment (an aware datetime).

        Raises:
            ValueError: Both a type and a worker are given, or one is not a name.
        """
        self.call(
            lambda q: q.pause(type, worker=worker, reason=reason, by=by, until=until)
        )

    def resume(self, type: str | None = None, *, worker: str | None = None) -> bool:
        """
        End the pause of a type, of a worker or (neither given) of everything.

        Returns whether there was one.

        Raises:
            ValueError: Both a type and a worker are given.
        """
        return self.call(lambda q: q.resume(type, worker=worker))

    def signal(self, job: int | WithId, name: str, data: JSON = None) -> None:
        """
        Send a signal to a job, given by its id or its handle::

            await q.signal(42, "approved", {"by": "ann"})

        ``job.wait_for("approved")`` in its handler returns *data*.  It is kept until
        the job waits for it; a job that waits goes on at once.

        Raises:
            JobNotFound: There is no such job.
            InvalidTransition: It has ended.
            BadPayload: *data* is not JSON, or has more than 64 KiB.
            ValueError: *name* cannot be one, or 1,000 signals were sent to the job.
        """
        self.call(lambda q: q.signal(job, name, data))

    def order(self, worker: str, order: WorkerOrder) -> bool:
        """
        Send an order to a live worker; return whether there is one of that name.

        The worker receives it with its next heartbeat.  On ``stop`` it claims no more
        jobs and leaves once its running jobs have ended; ``kue worker`` starts no other
        in its place.  On ``stacks`` it stores its stacks, for `stacks` to read.
        """
        return self.call(lambda q: q.order(worker, order))

    def limit(
        self,
        type: str,
        *,
        concurrency: int | None = None,
        rate: int | None = None,
        per: Duration = 1,
        per_key: int | None = None,
        max_waiting: int | None = None,
        when_full: OnFull = "refuse",
        full_timeout: Duration = 30,
        fair: bool = False,
        weights: Mapping[str, int] | None = None,
        ageing: Duration | None = None,
    ) -> None:
        """
        Limit jobs of *type*, across all workers, and set the order they start in.

        At most *concurrency* run at once, *rate* start each *per*, *per_key* of one
        group run at once.

        At most *max_waiting* wait.  When that many do, an add raises `QueueFull`
        (``when_full="refuse"``), waits for room for up to *full_timeout* and then
        raises it (``"wait"``), or cancels the oldest waiting job of the lowest priority
        (``"drop-oldest"``).

        In a *fair* type groups take turns within each priority; a group with a weight
        of 3 in *weights* gets three turns where others get one.  With *ageing*, waiting
        that long is worth one step of priority, so that no job waits forever.

        Every call replaces what was set before.  With nothing given, all is removed.

        Raises:
            ValueError: A limit is less than 1, or two of them do not go together.
        """
        self.call(
            lambda q: q.limit(
                type,
                concurrency=concurrency,
                rate=rate,
                per=per,
                per_key=per_key,
                max_waiting=max_waiting,
                when_full=when_full,
                full_timeout=full_timeout,
                fair=fair,
                weights=weights,
                ageing=ageing,
            )
        )

    def set_limit(self, name: str, limit: TaskLimit) -> None:
        """
        Set the rule of a named limit, also while jobs run::

            await q.set_limit("stripe", kue.concurrency(10))

        It stays until it is set again, or a program that declares another rule starts.

        Raises:
            ValueError: *limit* is a task's: it has a key or another name.
        """
        self.call(lambda q: q.set_limit(name, limit))

    def clear_limit(self, name: str) -> bool:
        """
        Delete the rule of a named limit; return whether there was one.

        Jobs that count against it are no longer limited, until a program that declares
        it starts.
        """
        return self.call(lambda q: q.clear_limit(name))

    def clear(
        self,
        type: str | None = None,
        states: Iterable[State | str] = FINAL,
        *,
        on_progress: OnProgress | None = None,
    ) -> int:
        """
        Remove all jobs of *type* (None: of any) in *states*; return how many.

        By default those that have ended.  *on_progress* is called with how many were
        removed so far.

        Raises:
            ValueError: A state is unknown, or is ``active``: cancel those first.
        """
        states = tuple(states)
        return self.call(lambda q: q.clear(type, states, on_progress=on_progress))

    def batches(self, *, limit: int = 50, cursor: str | None = None) -> BatchPage:
        """Return batches with their progress, the newest first."""
        return self.call(lambda q: q.batches(limit=limit, cursor=cursor))

    def flow(self, job_id: int) -> FlowGraph:
        """
        Return the graph of the flow that a job belongs to, or begins.

        Raises:
            JobNotFound: There is no such job.
        """
        return self.call(lambda q: q.flow(job_id))

    def cancel_flow(
        self, flow: int, *, job: int | None = None, reason: str = ""
    ) -> int:
        """
        Cancel what has not ended of a flow: all, or *job* and everything after it.

        Running jobs are asked to stop.  Returns how many jobs were cancelled or asked;
        only the first 2,000 jobs of a flow are looked at.  A batch then ends by itself,
        with its callbacks.

        Raises:
            JobNotFound: There is no such job.
            ValueError: *job* is not of this flow.
        """
        return self.call(lambda q: q.cancel_flow(flow, job=job, reason=reason))

    def retry_flow(self, flow: int, *, job: int | None = None) -> FlowRetry:
        """
        Retry the failed jobs of a flow: all, or only *job*.

        What is blocked by them then goes on, and jobs after them that were cancelled
        wait again.  Of a batch, all jobs that failed or were cancelled are retried.

        Raises:
            JobNotFound: There is no such job.
            InvalidTransition: *job* has not failed.
            ValueError: *job* is not of this flow.
        """
        return self.call(lambda q: q.retry_flow(flow, job=job))

    def circuits(self) -> list[Circuit]:
        """
        Return the circuits that opened, or had a failure, in the last day, by name.

        All others are closed: the store does not know them.
        """
        return self.call(lambda q: q.circuits())

    def open_circuit(
        self, name: str, *, for_: Duration = "5m", reason: str = "", by: str = ""
    ) -> Circuit:
        """
        Open a circuit: its jobs wait for that long; then one of them is the probe.

        Workers learn of it within about a second; running jobs go on.  It may have any
        name: one that no task uses has no effect.

        Raises:
            ValueError, TypeError: The name or the duration makes no sense.
        """
        return self.call(
            lambda q: q.open_circuit(name, for_=for_, reason=reason, by=by)
        )

    def close_circuit(self, name: str, *, by: str = "") -> bool:
        """
        Close a circuit; return whether it was open or half-open.

        Jobs run, and failures are counted from 0.  Those that were released run when
        they are due; `promote_many` brings them sooner.

        Raises:
            ValueError, TypeError: The name makes no sense.
        """
        return self.call(lambda q: q.close_circuit(name, by=by))

    def failure_rules(self) -> dict[str | None, FailureRule]:
        """Return what is done about failed jobs, by type; None: about those of all."""
        return self.call(lambda q: q.failure_rules())

    def set_dead_letter(self, type: str | None, to: str | None) -> None:
        """
        Forward jobs of *type* (None: of any) that fail from now on to the type *to*.

        None: forward them no more.  It holds until the program declares another one.

        Raises:
            ValueError: *to* is *type* itself, or one of Kue's own types.
        """
        self.call(lambda q: q.set_dead_letter(type, to))

    def set_failure_webhook(self, type: str | None, url: str | None) -> None:
        """
        Report jobs of *type* (None: of any) that fail from now on to *url*.

        None: report them no more.  A report is a job of the type ``kue.webhook``, which
        is retried, and signed with the setting ``webhook_secret``.

        Raises:
            ValueError: The URL is not one of http or https, or has credentials.
        """
        self.call(lambda q: q.set_failure_webhook(type, url))

    def replay(
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
        return self.call(
            lambda q: q.replay(dead_letter, type=type, ids=ids, limit=limit)
        )

    def schedule(
        self, name: str, draft: Draft, **options: Unpack[ScheduleOptions]
    ) -> Schedule:
        """
        Add a job again and again, or change the schedule of that name.

        The job is a draft, of a task or of any type::

            await q.schedule("eu", report.draft(region="eu"), cron="0 3 * * *")
            await q.schedule("ping", q.draft("ping"), every="30s")
            await q.schedule("launch", announce.draft("hi"), at=datetime(…))

        Give one of *every*, *cron* and *at* (an aware datetime; once); the others are
        as for `every`.  A changed schedule keeps its pause, its last ticks and, if its
        times are the same, its next one.

        Raises:
            ValueError, TypeError: An option makes no sense.
            ScheduleDeclared: The schedule is declared in code.
            BadPayload: The data is larger than 16 KiB.
        """
        return self.call(lambda q: q.schedule(name, draft, **options))

    def unschedule(self, name: str) -> bool:
        """
        Delete a schedule; return whether there was one.

        Its jobs stay.  One that is declared in code comes back when a worker starts:
        pause it instead.
        """
        return self.call(lambda q: q.unschedule(name))

    def schedules(self) -> list[Schedule]:
        """Return all schedules by name, each with its last ticks and their outcomes."""
        return self.call(lambda q: q.schedules())

    def get_schedule(self, name: str) -> Schedule:
        """
        Return a schedule, with its last ticks and their outcomes.

        Raises:
            ScheduleNotFound: There is none of that name.
        """
        return self.call(lambda q: q.get_schedule(name))

    def pause_schedule(self, name: str) -> Schedule:
        """
        Let a schedule fire no more until it is resumed.

        Raises:
            ScheduleNotFound: There is none of that name.
        """
        return self.call(lambda q: q.pause_schedule(name))

    def resume_schedule(self, name: str) -> Schedule:
        """
        End the pause of a schedule; what it missed is not made up for.

        Raises:
            ScheduleNotFound: There is none of that name.
        """
        return self.call(lambda q: q.resume_schedule(name))

    def run_schedule(self, name: str) -> SyncJobHandle[Any]:
        """
        Add the job of a schedule now, in addition to its times; also if it is paused.

        Raises:
            ScheduleNotFound: There is none of that name.
            QueueFull: The cap of its type refuses the job.
        """
        return SyncJobHandle(self, self.call(lambda q: q.run_schedule(name)))

    def set_alert(
        self, type: str | None = None, /, **options: Unpack[AlertOptions]
    ) -> AlertRule:
        """
        Set the thresholds of *type*, or of every other type; options as of `alert`.

        Replaces earlier ones.  Of a type that declares some in code, these stay until
        the declaration changes.  Without a threshold the type has no alerts, whatever
        the default is.

        Raises:
            ValueError, TypeError: An option makes no sense, or there are too many.
        """
        return self.call(lambda q: q.set_alert(**options))

    def clear_alert(self, type: str | None = None) -> bool:
        """
        Remove the thresholds of *type*, or the default; return whether there were any.

        The default then applies to the type.  Those that are declared in code are
        switched off until the declaration changes.
        """
        return self.call(lambda q: q.clear_alert(type))

    def alert_rules(self) -> dict[str | None, AlertRule]:
        """Return all thresholds, by type; that of None is the default."""
        return self.call(lambda q: q.alert_rules())

    def alerts(self) -> list[ActiveAlert]:
        """Return the alerts in force, as they were last checked."""
        return self.call(lambda q: q.alerts())

    def check_alerts(self) -> list[ActiveAlert]:
        """
        Check the thresholds now, unless that was done in the last ten seconds.

        Reports what changed, as workers do, and returns the alerts in force.
        """
        return self.call(lambda q: q.check_alerts())

    def silence(self, type: str | None = None, *, tag: str | None = None) -> Silenced:
        """
        Let jobs of *type*, or with *tag*, cause no warnings and alerts.

        They run as before, and searches find them.

        Raises:
            ValueError: Neither or both are given, or there are too many.
        """
        return self.call(lambda q: q.silence(type, tag=tag))

    def unsilence(self, type: str | None = None, *, tag: str | None = None) -> bool:
        """Undo `silence`; return whether it was silenced."""
        return self.call(lambda q: q.unsilence(type, tag=tag))

    def silenced(self) -> Silenced:
        """Return the silenced types and tags."""
        return self.call(lambda q: q.silenced())

    def monitor_tag(self, tag: str) -> list[str]:
        """
        Show the jobs with *tag* on the dashboard; return all tags that it shows.

        Raises:
            ValueError: There are too many, or it is not a tag.
        """
        return self.call(lambda q: q.monitor_tag(tag))

    def unmonitor_tag(self, tag: str) -> bool:
        """Undo `monitor_tag`; return whether the tag was monitored."""
        return self.call(lambda q: q.unmonitor_tag(tag))

    def monitored_tags(self) -> list[str]:
        """Return the monitored tags, sorted."""
        return self.call(lambda q: q.monitored_tags())

    def retry_many(
        self,
        jobs: Iterable[JobGiven],
        *,
        delay: Duration = 0,
        states: Iterable[State] = FINAL,
    ) -> list[BulkResult]:
        """
        Requeue ended jobs, after *delay*; only those in one of *states*.

        Their attempts start again from 0.  One that waits already is left as it is, and
        the word of one that was retried since it was read is ALREADY.
        """
        jobs = tuple(jobs)
        states = tuple(states)
        return self.call(lambda q: q.retry_many(jobs, delay=delay, states=states))

    def promote_many(
        self, jobs: Iterable[JobGiven], *, states: Iterable[State] = PROMOTABLE
    ) -> list[BulkResult]:
        """Let jobs run now that are delayed or wait for others."""
        jobs = tuple(jobs)
        states = tuple(states)
        return self.call(lambda q: q.promote_many(jobs, states=states))

    def cancel_many(
        self, jobs: Iterable[JobGiven], *, reason: str = ""
    ) -> list[BulkResult]:
        """Cancel jobs; for one that runs the word is ASKED: its worker will end it."""
        jobs = tuple(jobs)
        return self.call(lambda q: q.cancel_many(jobs, reason=reason))

    def remove_many(
        self,
        jobs: Iterable[JobGiven],
        *,
        force: bool = False,
        states: Iterable[State] | None = None,
    ) -> list[BulkResult]:
        """
        Delete jobs with their logs; running ones only with *force*.

        With *states*, only jobs that are in one of those at that very moment.
        """
        jobs = tuple(jobs)
        states = None if states is None else tuple(states)
        return self.call(lambda q: q.remove_many(jobs, force=force, states=states))

    def move_many(
        self, jobs: Iterable[JobGiven], to: State, *, at: int | None = None
    ) -> list[BulkResult]:
        """
        Move jobs to ``waiting``, or to ``delayed`` until *at* (Unix ms).

        Those that had ended when they were read start again; one that ended after that
        is left as it is.

        Raises:
            ValueError: *to* is another state, or *at* is missing.
        """
        jobs = tuple(jobs)
        return self.call(lambda q: q.move_many(jobs, to, at=at))

    def ended(
        self, wanted: Selection, *, descending: bool = False
    ) -> Iterator[list[Job]]:
        """Yield the jobs that match, up to 500 at a time, by the time they ended."""
        return iterate(
            self,
            lambda q: q.ended(wanted, descending=descending),
            instead="async for … in q.ended(…): …",
        )

    def retry_all(
        self,
        wanted: Selection,
        *,
        delay: Duration = 0,
        on_progress: OnProgress | None = None,
    ) -> BulkSummary:
        """
        Requeue all jobs that match and have ended by now.

        One that fails again in the meantime is not retried a second time.
        """
        return self.call(
            lambda q: q.retry_all(wanted, delay=delay, on_progress=on_progress)
        )

    def remove_all(
        self, wanted: Selection, *, on_progress: OnProgress | None = None
    ) -> BulkSummary:
        """Delete all jobs that match and have ended by now."""
        return self.call(lambda q: q.remove_all(wanted, on_progress=on_progress))

    def group_errors(
        self, wanted: Selection, *, on_progress: OnProgress | None = None
    ) -> list[ErrorGroup]:
        """Return the errors of the failed jobs that match, the most frequent first."""
        return self.call(lambda q: q.group_errors(wanted, on_progress=on_progress))
