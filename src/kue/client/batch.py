"""
Batches: many jobs with one progress, and callbacks for when all of them have ended.

::

    batch = await kue.batch("import").then(report.s()).enqueue(
        load.s(row) for row in rows
    )
    print((await batch.progress()).percent)
"""

from __future__ import annotations

from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec
from msgspec.structs import replace

from kue.aio.loop_thread import refuse_on_a_loop
from kue.client.batch_handle import (
    BatchHandle,
    NoMoreJobs,
    add_watched,
    drafts_of,
    iterated,
    joined,
    stop_if_cancelled,
)
from kue.client.flow import Flow, check_signature
from kue.client.flow_enqueue import (
    LinkedAdd,
    calls_of,
    closed_gate,
    gate,
    open_gate,
)
from kue.client.sync.flow_handles import SyncBatchHandle
from kue.model.backoff import exponential
from kue.model.job import Draft, id_at
from kue.model.names import check_name
from kue.store.values import MAX_BATCH, Change
from kue.worker.batch_progress import PROGRESS, ProgressReports
from kue.worker.batches import BATCH, FIRST_FAILURE, BatchOptions
from kue.worker.flow_jobs import GATE, use_flow_jobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kue.client.batch_handle import Call
    from kue.client.connection import Connection
    from kue.client.flow import Signature
    from kue.client.queue import Kue
    from kue.model.job import OnParentFailure
    from kue.model.payload import JSON

#: The first failure and the batch itself survive an outage of the store.
_OWN_OPTIONS = {"attempts": 100, "backoff": exponential("1s", max="1m", jitter=0.5)}
#: A batch may be retried for as long as it is kept; then its progress goes on.
_PROGRESS_OPTIONS = {**_OWN_OPTIONS, "retention": "7d"}


class BatchBuilder:
    """A batch that is not enqueued yet; `kue.batch` makes one."""

    def __init__(self, name: str = "", *, allow_failures: bool = False) -> None:
        self.name = name
        self.allow_failures = allow_failures
        self._before: list[Signature[Any]] = []
        self._progress: list[Signature[Any]] = []
        self._then: list[Signature[Any]] = []
        self._catch: list[Signature[Any]] = []
        self._finally: list[Signature[Any]] = []

    def __repr__(self) -> str:
        return f"<BatchBuilder {self.name!r}>"

    def before(self, call: Signature[Any]) -> Self:
        """
        Run *call* with the id of the batch, once all of it is stored; jobs wait for it.

        If it fails, the jobs are cancelled and the batch fails.
        """
        check_signature(call, "before")
        self._before.append(call)
        return self

    def progress(self, call: Signature[Any]) -> Self:
        """
        Run *call* with the id of the batch after jobs have ended, and at the end.

        Jobs that end within half a second, or before an earlier call has started, have
        one call together.
        """
        check_signature(call, "progress")
        self._progress.append(call)
        return self

    def then(self, call: Signature[Any]) -> Self:
        """Run *call* with the id of the batch, once all jobs have succeeded."""
        check_signature(call, "then")
        self._then.append(call)
        return self

    def catch(self, call: Signature[Any]) -> Self:
        """Run *call* with the id of the failed job, at the first failure."""
        check_signature(call, "catch")
        self._catch.append(call)
        return self

    def finally_(self, call: Signature[Any]) -> Self:
        """Run *call* with the id of the batch, once all jobs have ended in any way."""
        check_signature(call, "finally_")
        self._finally.append(call)
        return self

    async def enqueue(self, calls: Iterable[Call]) -> BatchHandle:
        """
        Store a batch of *calls*: signatures, flows or drafts; from async code.

        Up to about 490 jobs are added in one atomic step, unless there are callbacks
        for `before` or `progress`.  Of more, the first run while the others are added;
        callbacks run when all have ended.

        Raises:
            TypeError, ValueError: Something given makes no sense.
            What `Kue.enqueue` raises.
        """
        queue, calls = self._queue_of(iterated(calls))
        return await self._add(queue._connection, calls)

    def delay(self, calls: Iterable[Call]) -> SyncBatchHandle:
        """
        Store a batch of *calls*; from blocking code.

        Raises:
            RuntimeError: An event loop runs here: ``await batch.enqueue(…)`` instead.
        """
        refuse_on_a_loop("await batch.enqueue(…)", blocking="batch.delay(…)")
        # Read here: the iterator may belong to this thread.
        queue, calls = self._queue_of(iter(list(iterated(calls))))
        sync = queue.sync
        handle = sync.call(lambda q: self._add(q._connection, calls))
        return SyncBatchHandle(sync, handle)

    def _queue_of(self, calls: Iterator[Call]) -> tuple[Kue, Iterator[Call]]:
        """Return the queue of the batch, and all *calls*."""
        callbacks = (*self._before, *self._progress, *self._then, *self._catch)
        callbacks = (*callbacks, *self._finally)
        head: list[Call] = []
        # Drafts do not know their queue.
        while not callbacks and (not head or isinstance(head[-1], Draft)):
            if (call := next(calls, None)) is None:
                break
            head.append(call)
        known = callbacks[0] if callbacks else head[-1] if head else None
        if not isinstance(known, Flow):
            raise _unknown_queue(known)
        for callback in callbacks:
            _of_queue(known.queue, callback)
        return known.queue, map(partial(_of_queue, known.queue), chain(head, calls))

    async def _add(self, connection: Connection, calls: Iterator[Call]) -> BatchHandle:
        connection = await connection.home_of_flow()
        await use_flow_jobs(connection.store)
        await connection.subscriptions.ready()
        groups = map(drafts_of, calls)
        first, is_all = _first_groups(groups)
        # Those get the id of the batch before the gate is opened.
        if is_all and not self._before and not self._progress:
            head = self._head(connection, is_gated=False, has_members=bool(first))
            whole = [*head.drafts, *head.joined(first, len(head.drafts))]
            types = {one.type for one in whole}
            if len(calls_of(whole)) == 1 and not connection.store.spans_shards(types):
                return await _send(connection, head, [whole])
        head = self._head(connection, is_gated=True, has_members=True)
        return await _send(connection, head, _chunks(head, chain(first, groups)))

    def _head(
        self, connection: Connection, *, is_gated: bool, has_members: bool
    ) -> BatchHead:
        """Return the batch itself with its callbacks, and what it waits for."""
        is_watched = has_members and (bool(self._catch) or not self.allow_failures)
        drafts = [gate(connection)] if is_gated else []
        held = tuple(range(-1, -1 - len(drafts), -1))
        if is_watched:
            drafts.append(_own(connection, FIRST_FAILURE, None, held, "only"))
        watch = len(drafts) if is_watched else None
        drafts += [_behind_gate(_with_id(call, 0), watch) for call in self._before]
        after = tuple(range(-1, -1 - len(drafts), -1))
        options = BatchOptions(self.name, self.allow_failures, is_gated, is_watched)
        data = msgspec.to_builtins(options)
        drafts.append(_own(connection, BATCH, data, after, "run"))
        number = len(drafts)
        if watch is not None:
            drafts += [_callback(call, watch, passes_id=False) for call in self._catch]
        # A failed batch may be retried: what follows its success waits for that.
        drafts += [_callback(call, number) for call in self._then]
        drafts += [
            replace(_callback(call, number), on_parent_failure="run")
            for call in self._finally
        ]
        if self._progress:
            data = self._reports(0)
            own = connection.draft(PROGRESS, data, dict(_PROGRESS_OPTIONS))
            drafts.append(_behind_gate(own, None))
        return BatchHead(drafts, number, watch, self, options)

    def _reports(self, batch_id: int) -> JSON:
        keys = (f"{PROGRESS} {batch_id} {n}" for n in range(len(self._progress)))
        drafts = (_with_id(call, batch_id) for call in self._progress)
        calls = [_one_at_a_time(*pair) for pair in zip(drafts, keys, strict=True)]
        return ProgressReports(batch_id, calls).to_json()


def _unknown_queue(last: Call | None) -> Exception:
    """Return the error about a batch of which only the *last* job is known, if any."""
    if last is None:
        return ValueError("a batch needs at least one job, or a callback")
    if isinstance(last, Draft):
        return ValueError(
            "a batch of drafts alone does not know its queue; make one of the jobs "
            "with task.s(…), or give the batch a callback"
        )
    return TypeError(
        f"a batch is made of signatures such as task.s(…), not of {last!r}"
    )


def _of_queue(queue: Kue, call: Call) -> Call:
    """Return *call*; raises `ValueError` if it is of a task of another queue."""
    if isinstance(call, Flow) and call.queue is not queue:
        raise ValueError(
            f"all jobs of a batch must be of tasks of one queue, {call!r} is of another"
        )
    return call


def batch(name: str = "", *, allow_failures: bool = False) -> BatchBuilder:
    """
    Return a batch, to be filled by ``await batch.enqueue(calls)``.

    Unless failures are allowed, the first one cancels the jobs that have not started,
    and the batch fails.

    Raises:
        TypeError, ValueError: The name is not one line of up to 200 bytes, or
            *allow_failures* is not a bool.
    """
    if name != "":
        check_name(name, what="the name of a batch")
    if not isinstance(allow_failures, bool):
        raise TypeError(f"allow_failures must be True or False, not {allow_failures!r}")
    return BatchBuilder(name, allow_failures=allow_failures)


class BatchHead(NamedTuple):
    """The drafts that come before the members."""

    drafts: list[Draft]
    #: The numbers of the batch, and of the job that runs at the first failure.
    batch: int
    watch: int | None
    builder: BatchBuilder
    options: BatchOptions

    @property
    def before(self) -> range:
        """The numbers of the callbacks that members wait for."""
        return range(self.batch - len(self.builder._before), self.batch)

    @property
    def has_callbacks(self) -> bool:
        return bool(self.builder._before) or len(self.drafts) > self.batch

    def joined(self, groups: Iterable[list[Draft]], start: int) -> Iterator[Draft]:
        """Yield the drafts of members, of which the first has number *start* + 1."""
        waiting = [self.batch] if self.watch is None else [self.batch, self.watch]
        before = tuple(-number for number in waiting)
        after = tuple(-number for number in self.before)
        for drafts in groups:
            yield from joined(
                drafts, start, flow=-self.batch, before=before, after=after
            )
            start += len(drafts)

    def ids_in_data(self, ids: Sequence[int]) -> list[Change]:
        """Return what is written into the head once the *ids* of its jobs are known."""
        builder, batch = self.builder, ids[self.batch - 1]
        before = [ids[number - 1] for number in self.before]
        changes = [
            Change(job_id, data=_with_id(call, batch).spec.data)
            for job_id, call in zip(before, builder._before, strict=True)
        ]
        after = tuple(ids[self.batch :])
        options = replace(self.options, before=tuple(before), callbacks=after)
        if builder._progress:
            options = replace(options, progress=ids[-1])
            changes.append(Change(options.progress, data=builder._reports(batch)))
        return [*changes, Change(batch, data=msgspec.to_builtins(options))]


async def _send(
    connection: Connection, head: BatchHead, parts: Iterable[list[Draft]]
) -> BatchHandle:
    adding, is_gated = LinkedAdd(connection), head.drafts[0].type == GATE
    try:
        async with closed_gate(connection, adding, is_gated=is_gated):
            for part in parts:
                for call in calls_of(part):
                    await _add_members(adding, call, head)
                    if is_gated and len(adding.added) >= head.batch:
                        batch_id = _batch_id(adding, head)
                        await stop_if_cancelled(connection.store, batch_id)
    except NoMoreJobs:
        # The jobs that have not started are being cancelled: more would be, too.
        pass
    except BaseException:
        await adding.cancel("the batch could not be added as a whole")
        raise
    if is_gated:
        ids = [one.id for one in adding.added[: len(head.drafts)]]
        if head.has_callbacks:
            await connection.store.update(head.ids_in_data(ids))
        await open_gate(connection, adding.added[0])
    await adding.run()
    return BatchHandle(connection, _batch_id(adding, head))


def _batch_id(adding: LinkedAdd, head: BatchHead) -> int:
    return adding.added[head.batch - 1].id


async def _add_members(
    adding: LinkedAdd, drafts: Sequence[Draft], head: BatchHead
) -> None:
    """Add some drafts of a batch, the first jobs of which may have failed already."""
    known, watch = len(adding.added), head.watch
    watch_id = adding.added[watch - 1].id if watch and watch <= known else None
    await add_watched(adding, drafts, watch_id, goes_on=head.options.allow_failures)


def _first_groups(groups: Iterator[list[Draft]]) -> tuple[list[list[Draft]], bool]:
    """Return as many as one call takes, and whether those are all."""
    first: list[list[Draft]] = []
    number = 0
    for drafts in groups:
        first.append(drafts)
        number += len(drafts)
        if number > MAX_BATCH:
            return first, False
    return first, True


def _chunks(head: BatchHead, groups: Iterable[list[Draft]]) -> Iterator[list[Draft]]:
    """Yield all drafts, as many at a time as one call takes."""
    drafts = chain(head.drafts, head.joined(groups, len(head.drafts)))
    while chunk := list(islice(drafts, MAX_BATCH)):
        yield chunk


def _own(
    connection: Connection,
    type: str,
    data: JSON,
    after: tuple[int, ...],
    policy: OnParentFailure,
) -> Draft:
    draft = connection.draft(type, data, dict(_OWN_OPTIONS))
    spec = replace(draft.spec, after=after)
    return replace(draft, spec=spec, on_parent_failure=policy)


def _callback(call: Signature[Any], parent: int, *, passes_id: bool = True) -> Draft:
    """Return a job after *parent*, whose id or result is its first argument."""
    name, data = call.bound(takes_result=call.takes_result)
    draft = call.calls.link_draft(data, name)
    position = len(draft.spec.after)
    inputs = {name: id_at(position) if passes_id else position} if name else {}
    after = (*draft.spec.after, -parent)
    return replace(draft, spec=replace(draft.spec, after=after, inputs=inputs or None))


def _with_id(call: Signature[Any], batch_id: int) -> Draft:
    """Return a callback with the id of the batch as its first argument."""
    name, data = call.bound(takes_result=call.takes_result)
    return call.calls.link_draft({name: batch_id, **data} if name else data, name)


def _one_at_a_time(draft: Draft, key: str) -> Draft:
    """Return a callback that is not added again before it has started."""
    if draft.unique is not None:
        return draft
    return replace(draft, unique=key, unique_until="start")


def _behind_gate(draft: Draft, watch: int | None) -> Draft:
    """Return a draft behind the gate, whose failure *watch* is notified of."""
    spec = replace(draft.spec, after=(*draft.spec.after, -1))
    before = () if watch is None else (-watch,)
    return replace(draft, spec=spec, before=before, on_parent_failure="cancel")
