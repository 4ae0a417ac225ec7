"""
Flows: jobs that wait for each other, and pass their results on.

A signature is a call of a task that is not enqueued yet.  Chains and groups are made of
signatures, and of each other::

    flow = fetch.s(url) | kue.group(resize.s(80), resize.s(800)) | publish.s()
    pages = await (await flow.enqueue()).result()
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from msgspec.structs import replace

from kue.aio.loop_thread import refuse_on_a_loop
from kue.client.flow_enqueue import add_flow
from kue.client.flow_plan import FlowPlan
from kue.client.sync.flow_handles import SyncFlowHandle

if TYPE_CHECKING:
    from kue.client.flow_handle import FlowHandle
    from kue.client.flow_plan import Output
    from kue.client.queue import Kue
    from kue.client.task import TaskCalls
    from kue.model.job import Draft, OnParentFailure

A = TypeVar("A")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Flow(Generic[T_co]):
    """Jobs to be added together; the result of the last is a ``T_co``."""

    _catch: Signature[Any] | None = None

    @property
    def queue(self) -> Kue:
        """The queue of its tasks."""
        raise NotImplementedError

    def __or__(self, then: Flow[A]) -> Chain[A]:
        """Return a chain: *then* runs after this, and gets its result."""
        return chain(self, then)

    async def enqueue(
        self, *, on_parent_failure: OnParentFailure = "block", durable: bool = False
    ) -> FlowHandle[T_co]:
        """
        Store all jobs of the flow; from async code.

        When a job fails, those after it wait until it is retried; with
        *on_parent_failure* "cancel" they are cancelled.

        Raises:
            TypeError: A function cannot be called like that.
            ValueError: Something given makes no sense.
            What `Kue.enqueue` raises.
        """
        plan = self._planned(on_parent_failure)
        return await add_flow(plan.queue._connection, plan, durable=durable)

    def delay(
        self, *, on_parent_failure: OnParentFailure = "block", durable: bool = False
    ) -> SyncFlowHandle[T_co]:
        """
        Store all jobs of the flow; from blocking code.

        Raises:
            RuntimeError: An event loop runs here: ``await flow.enqueue()`` instead.
        """
        refuse_on_a_loop("await flow.enqueue()", blocking="flow.delay()")
        plan = self._planned(on_parent_failure)
        sync = plan.queue.sync
        handle = sync.call(lambda q: add_flow(q._connection, plan, durable=durable))
        return SyncFlowHandle(sync, handle)

    def catch(self, call: Signature[Any]) -> Self:
        """
        Run *call* when a job of the flow fails, once, with the id of that job.

        It is passed as the first argument, unless *call* was made with ``.si(…)``.
        """
        if self._catch is not None:
            raise ValueError("the flow has a catch; one runs whatever fails")
        check_signature(call, "catch")
        caught = self._copy()
        caught._catch = call
        return caught

    def drafts(self, on_parent_failure: OnParentFailure = "block") -> list[Draft]:
        """Return its jobs as values, which refer to each other by position."""
        return self._planned(on_parent_failure).drafts

    def _planned(self, on_parent_failure: OnParentFailure) -> FlowPlan:
        plan = FlowPlan(on_parent_failure)
        plan.last = self.add_to(plan, None)
        if len(plan.drafts) == 1:
            # A single job needs no flow.
            plan.drafts[0] = replace(plan.drafts[0], flow=None)
        return plan

    def add_to(self, plan: FlowPlan, before: Output | None) -> Output:
        """Add the jobs to *plan*, after those of *before*; return the last ones."""
        first = len(plan.drafts)
        last = self._add(plan, before)
        if self._catch is not None:
            plan.add_catch(self._catch, range(first + 1, len(plan.drafts) + 1))
        return last

    def _add(self, plan: FlowPlan, before: Output | None) -> Output:
        raise NotImplementedError

    def _copy(self) -> Self:
        raise NotImplementedError


class Signature(Flow[T_co]):
    """A call of a task that is not enqueued yet; `kue.Task.s` makes one."""

    def __init__(
        self,
        calls: TaskCalls[..., T_co],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        takes_result: bool,
    ) -> None:
        self.calls = calls
        self.args = args
        self.kwargs = kwargs
        #: Whether the result of the job before it is its first argument.
        self.takes_result = takes_result

    def __repr__(self) -> str:
        return f"<Signature of {self.calls.name!r}>"

    @property
    def queue(self) -> Kue:
        return self.calls._queue

    def bound(self, *, takes_result: bool) -> tuple[str | None, dict[str, Any]]:
        """Return the parameter that gets the result, if any, and the rest as data."""
        arguments = self.calls._arguments
        if takes_result:
            return arguments.bind_after_result(self.args, self.kwargs)
        return None, arguments.bind(self.args, self.kwargs)

    def _add(self, plan: FlowPlan, before: Output | None) -> Output:
        return plan.add(self, before)

    def _copy(self) -> Self:
        return type(self)(
            self.calls, self.args, self.kwargs, takes_result=self.takes_result
        )


class Chain(Flow[T_co]):
    """Flows that run one after the other; each gets the result of the one before."""

    def __init__(self, links: Iterable[Flow[Any]]) -> None:
        self.links: list[Flow[Any]] = []
        for link in links:
            # A chain of chains is a chain, unless a part has its own catch.
            if isinstance(link, Chain) and link._catch is None:
                self.links += link.links
            else:
                self.links.append(link)
        if not self.links:
            raise ValueError("a chain needs at least one link")

    def __repr__(self) -> str:
        return f"<Chain of {len(self.links)}>"

    @property
    def queue(self) -> Kue:
        return self.links[0].queue

    def _add(self, plan: FlowPlan, before: Output | None) -> Output:
        last = before
        for link in self.links:
            last = link.add_to(plan, last)
        assert last is not None
        return last

    def _copy(self) -> Self:
        return type(self)(self.links)


class Group(Flow[list[T]]):
    """Flows that run at the same time; what follows gets the list of their results."""

    def __init__(self, members: Iterable[Flow[T]]) -> None:
        self.members = list(members)
        if not self.members:
            raise ValueError("a group needs at least one member")

    def __repr__(self) -> str:
        return f"<Group of {len(self.members)}>"

    @property
    def queue(self) -> Kue:
        return self.members[0].queue

    def _add(self, plan: FlowPlan, before: Output | None) -> Output:
        return [member.add_to(plan, before) for member in self.members]

    def _copy(self) -> Self:
        return type(self)(self.members)


@overload
def chain(first: Flow[T], /) -> Chain[T]: ...
@overload
def chain(first: Flow[Any], second: Flow[T], /) -> Chain[T]: ...
@overload
def chain(first: Flow[Any], second: Flow[Any], third: Flow[T], /) -> Chain[T]: ...
@overload
def chain(
    first: Flow[Any], second: Flow[Any], third: Flow[Any], fourth: Flow[T], /
) -> Chain[T]: ...
@overload
def chain(*links: Flow[Any]) -> Chain[Any]: ...
@overload
def chain(links: Iterable[Flow[Any]], /) -> Chain[Any]: ...
def chain(*links: Any) -> Chain[Any]:
    """
    Return a flow whose links run one after the other: ``a.s(1) | b.s()``.

    The result of each is the first argument of the next; ``.si(…)`` takes none.

    Raises:
        ValueError: There is no link.
    """
    return Chain(_flows(links, "chain"))


@overload
def group(*members: Flow[T]) -> Group[T]: ...
@overload
def group(members: Iterable[Flow[T]], /) -> Group[T]: ...
def group(*members: Any) -> Group[Any]:
    """
    Return a flow whose members run at the same time.

    ``kue.group(a.s(1), a.s(2)) | b.s()`` calls b with the list of results.

    Raises:
        ValueError: There is no member.
    """
    return Group(_flows(members, "group"))


def check_signature(call: object, method: str) -> None:
    """Raise `TypeError` unless *call*, which *method* was given, is one call."""
    if not isinstance(call, Signature):
        raise TypeError(f"{method} takes one call such as task.s(…), not {call!r}")


def _flows(given: tuple[Any, ...], what: str) -> list[Flow[Any]]:
    one = given[0] if len(given) == 1 else None
    flows = list(one if isinstance(one, Iterable) else given)
    for flow in flows:
        if not isinstance(flow, Flow):
            raise TypeError(
                f"a {what} is made of signatures such as task.s(…), not of {flow!r}"
            )
    return flows
