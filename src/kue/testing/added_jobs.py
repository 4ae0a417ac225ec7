"""Assertions about the jobs that were added while the queue is faked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kue.client.flow import Chain, Flow, Group, Signature
from kue.client.flow_enqueue import linked
from kue.model.alerts import RESERVED
from kue.testing.added_job import AddedJob, ExpectedJob
from kue.worker.batches import BATCH, FIRST_FAILURE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kue.model.job import Draft
    from kue.store.values import Added
    from kue.testing.added_job import Call

#: Most jobs that a message lists.
MOST_SHOWN = 20


@dataclass(frozen=True, eq=False)
class AddedBatch:
    """A batch that was added."""

    id: int
    name: str
    #: Its members.
    jobs: list[AddedJob]
    #: Its callbacks.
    then: list[AddedJob]
    catch: list[AddedJob]
    finally_: list[AddedJob]

    def __str__(self) -> str:
        title = f"batch {self.name!r}" if self.name else "batch"
        return f"{title} of {_calls(self.jobs) or 'nothing'}"


class AddedJobs:
    """
    The jobs that were added, in that order; what `kue.testing.fake` returns.

    An add that found its unique key held added no job, and is not among them.  A job
    that was replaced by a later add has the data and options of that one.
    """

    def __init__(self) -> None:
        #: By id; with jobs of Kue itself.
        self._jobs: dict[int, AddedJob] = {}
        #: Adds that found their unique key held.
        self._duplicates: list[AddedJob] = []

    def __iter__(self) -> Iterator[AddedJob]:
        jobs = list(self._jobs.values())
        return (job for job in jobs if not job.name.startswith(RESERVED))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, position: int) -> AddedJob:
        return list(self)[position]

    def __repr__(self) -> str:
        return f"<AddedJobs {list(self)}>"

    def clear(self) -> None:
        """Forget what was added so far; the jobs stay where they are."""
        self._jobs.clear()
        self._duplicates.clear()

    def record(self, drafts: Sequence[Draft], added: Sequence[Added]) -> None:
        """Record the answers to one add."""

        def resolve(reference: int) -> int:
            return added[-reference - 1].id if reference < 0 else reference

        for draft, answer in zip(drafts, added, strict=True):
            job = AddedJob(answer.id, linked(draft, resolve))
            if answer.new or answer.replaced:
                self._jobs[job.id] = job
            elif not answer.is_refused:
                self._duplicates.append(job)

    # -- single jobs -----------------------------------------------------------

    def added(
        self,
        call: Call,
        /,
        *args: Any,
        data: Any = ...,
        options: Mapping[str, Any] | None = None,
        where: Callable[[AddedJob], object] | None = None,
        **arguments: Any,
    ) -> list[AddedJob]:
        """Return the jobs that `assert_added` would count."""
        expected = ExpectedJob.of(
            call, args, arguments, options, data=data, where=where
        )
        return [job for job in self if expected.is_met(job)]

    def assert_added(
        self,
        call: Call,
        /,
        *args: Any,
        times: int | None = None,
        data: Any = ...,
        options: Mapping[str, Any] | None = None,
        where: Callable[[AddedJob], object] | None = None,
        **arguments: Any,
    ) -> AddedJob:
        """
        Fail unless such a job was added; return the last one.

        ::

            jobs.assert_added(send_mail, to="ann@example.com", times=1)
            jobs.assert_added(send_mail, options={"delay": "1h", "priority": "high"})

        Args:
            call: A task, or the type of the job; ``task.options(…)`` expects those.
            args: Arguments of the task that it has, among others.
            times: Exactly so many; by default one or more.
            data: All of its data, for one that is not of a task, or whose parameters
                have the names of these.
            options: Options that it has, as they are given to `kue.Kue.enqueue`.
            where: Called with an `AddedJob`; returns whether it counts.
            arguments: Arguments of the task by name.

        Raises:
            AssertionError: The message lists what was added instead.
            TypeError, ValueError: No job can be as expected.
        """
        if times is not None and times < 1:
            raise ValueError("times is 1 or more; use assert_not_added for none")
        expected = ExpectedJob.of(
            call, args, arguments, options, data=data, where=where
        )
        found = [job for job in self if expected.is_met(job)]
        if not found or times not in (None, len(found)):
            raise AssertionError(self._message(expected, len(found), times))
        return found[-1]

    def assert_not_added(
        self,
        call: Call,
        /,
        *args: Any,
        data: Any = ...,
        options: Mapping[str, Any] | None = None,
        where: Callable[[AddedJob], object] | None = None,
        **arguments: Any,
    ) -> None:
        """Fail if such a job was added: see `assert_added`."""
        expected = ExpectedJob.of(
            call, args, arguments, options, data=data, where=where
        )
        found = [job for job in self if expected.is_met(job)]
        if found:
            raise AssertionError(
                f"{expected} was added, and should not have been{_listed(found)}"
            )

    def assert_nothing_added(self) -> None:
        """Fail if any job was added."""
        if jobs := list(self):
            raise AssertionError(
                f"{_jobs(len(jobs))} added, and none should have been{_listed(jobs)}"
            )

    def _message(self, expected: ExpectedJob, found: int, times: int | None) -> str:
        often = "" if not found else f" {found} times" if found > 1 else " once"
        wanted = "" if times is None else f", expected {times}"
        head = f"{expected} was {'' if found else 'not '}added{often}{wanted}"
        if held := sum(map(expected.is_met, self._duplicates)):
            head += f"\n{held} more found the unique key held, and added no job"
        return head + self._instead(expected)

    def _instead(self, expected: ExpectedJob) -> str:
        """Return what was added; jobs of the same name come first."""
        jobs = sorted(self, key=lambda job: job.name != expected.name)
        return _listed(jobs, lambda job: _difference(expected, job))

    # -- flows -----------------------------------------------------------------

    def assert_chained(
        self, *links: Call | Flow[Any] | Sequence[Call | Flow[Any]]
    ) -> list[AddedJob]:
        """
        Fail unless a chain of exactly these was added; return its jobs.

        ::

            jobs.assert_chained(fetch.s(url), [resize, resize], publish)

        Args:
            links: Each a task, a type, or a call: ``task.s(…)``; a list of them, or a
                `kue.group`, for jobs that run at the same time.  A `kue.chain` stands
                for its links.
        """
        stages: list[list[ExpectedJob]] = []
        for link in links:
            _add_stages(link, stages)
        flows = [_by_stage(jobs) for jobs in self._flows()]
        for flow in flows:
            if len(flow) == len(stages) and all(map(_are_met, stages, flow)):
                return [job for stage in flow for job in stage]
        expected = " → ".join(", ".join(map(str, stage)) for stage in stages)
        found = [" → ".join(map(_calls, flow)) for flow in flows]
        raise AssertionError(
            f"the chain {expected} was not added"
            + (_lines("flows that were added:", found) if found else _listed(self))
        )

    def _flows(self) -> list[list[AddedJob]]:
        batches = {job.id for job in self._jobs.values() if job.name == BATCH}
        flows: dict[int, list[AddedJob]] = {}
        for job in self:
            flow = job.draft.flow
            # What runs only if another fails is not a link.
            is_link = job.draft.on_parent_failure != "only"
            if flow is not None and flow not in batches and is_link:
                flows.setdefault(flow, []).append(job)
        return list(flows.values())

    @property
    def batches(self) -> list[AddedBatch]:
        """The batches that were added."""
        return [self._batch(job) for job in self._jobs.values() if job.name == BATCH]

    def assert_batched(self, *calls: Call, name: str | None = None) -> AddedBatch:
        """
        Fail unless a batch was added; return it.

        Args:
            calls: Its jobs, all of them, in any order; by default they may be any.
            name: The name of the batch.
        """
        expected = [ExpectedJob.of(call) for call in calls]
        for batch in self.batches:
            if name in (None, batch.name) and (
                not expected or _are_met(expected, batch.jobs)
            ):
                return batch
        wanted = f"batch {name!r}" if name else "batch"
        members = f" of {', '.join(map(str, expected))}" if expected else ""
        found = list(map(str, self.batches))
        raise AssertionError(
            f"no {wanted}{members} was added"
            + (_lines("batches that were added:", found) if found else _listed(self))
        )

    def _batch(self, batch: AddedJob) -> AddedBatch:
        jobs = list(self)
        watches = {
            parent
            for parent in batch.after
            if parent in self._jobs and self._jobs[parent].name == FIRST_FAILURE
        }
        follow = [job for job in jobs if batch.id in job.after]
        data: Any = batch.data
        return AddedBatch(
            batch.id,
            data.get("name", ""),
            [job for job in jobs if job.draft.flow == batch.id],
            [job for job in follow if job.draft.on_parent_failure != "run"],
            [job for job in jobs if watches.intersection(job.after)],
            [job for job in follow if job.draft.on_parent_failure == "run"],
        )


def _add_stages(link: Any, stages: list[list[ExpectedJob]]) -> None:
    if isinstance(link, Chain):
        for one in link.links:
            _add_stages(one, stages)
        return
    if isinstance(link, Group):
        link = link.members
    calls = link if isinstance(link, (list, tuple)) else [link]
    stages.append([_linked(call, is_first=not stages) for call in calls])


def _linked(call: Any, *, is_first: bool) -> ExpectedJob:
    if is_first or not isinstance(call, Signature) or not call.takes_result:
        return ExpectedJob.of(call)
    # Its first parameter gets the result of the job before it.
    _, arguments = call.bound(takes_result=True)
    return ExpectedJob.of(call.calls, kwargs=arguments)


def _by_stage(jobs: list[AddedJob]) -> list[list[AddedJob]]:
    """Return the jobs of a flow: those that wait for none, those after these, …"""
    stages: list[list[AddedJob]] = []
    left = jobs
    while left:
        ids = {job.id for job in left}
        stage = [job for job in left if not ids.intersection(job.after)]
        stages.append(stage)
        left = [job for job in left if job not in stage]
    return stages


def _are_met(expected: Sequence[ExpectedJob], jobs: Sequence[AddedJob]) -> bool:
    """Return whether each job is as one of *expected*, and all of these were found."""
    left = list(jobs)
    # Those that few jobs can meet come first.
    for one in sorted(expected, key=lambda one: sum(map(one.is_met, jobs))):
        job = next((job for job in left if one.is_met(job)), None)
        if job is None:
            return False
        left.remove(job)
    return not left


def _difference(expected: ExpectedJob, job: AddedJob) -> str:
    if job.name != expected.name:
        return ""
    return "; ".join(expected.differences(job))


def _calls(jobs: Iterable[AddedJob]) -> str:
    return ", ".join(job.call for job in jobs)


def _jobs(number: int) -> str:
    return "1 job was" if number == 1 else f"{number} jobs were"


def _listed(
    jobs: Iterable[AddedJob], comment: Callable[[AddedJob], str] = lambda job: ""
) -> str:
    lines = [f"{job}  ← {said}" if (said := comment(job)) else str(job) for job in jobs]
    return _lines("added were:", lines) if lines else "\nno job was added"


def _lines(title: str, lines: list[str]) -> str:
    shown = lines[:MOST_SHOWN]
    if len(lines) > MOST_SHOWN:
        shown.append(f"… and {len(lines) - MOST_SHOWN} more")
    return "".join(f"\n{line}" for line in (title, *(f"  {one}" for one in shown)))
