"""Plan of a flow: its jobs as drafts that refer to each other by position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from kue.model.arguments import result_reader
from kue.model.job import FAILED_PARENT, MAX_PARENTS
from kue.model.parent_failure import check_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kue.client.flow import Signature
    from kue.client.queue import Kue
    from kue.model.job import Draft, OnParentFailure
    from kue.model.payload import JSON

#: Jobs whose results are passed on, by number: one, or for a group a list.
Output: TypeAlias = "int | list[Output]"


class FlowPlan:
    """
    The drafts of a flow; the first has number 1, and parents come first.

    A draft refers to the k-th one as -k, as `Store.add` takes it.
    """

    def __init__(self, on_parent_failure: OnParentFailure = "block") -> None:
        check_policy(on_parent_failure)
        self._on_parent_failure = on_parent_failure
        self._queue: Kue | None = None
        self.drafts: list[Draft] = []
        #: What converts the result of each from JSON.
        self.readers: list[Callable[[JSON], Any] | None] = []
        #: Numbers of the jobs that run only if another fails.
        self.catches: set[int] = set()
        #: The jobs whose results are that of the flow.
        self.last: Output = []

    @property
    def queue(self) -> Kue:
        assert self._queue is not None
        return self._queue

    def add(self, call: Signature[Any], before: Output | None) -> int:
        """Add a job that waits for *before*, and takes the results if it wants them."""
        parents = [] if before is None else list(dict.fromkeys(numbers_in(before)))
        passed = before if call.takes_result else None
        for number in [] if passed is None else parents:
            self._check_result(number)
        draft = self._append(call, parents, passed)
        if parents and draft.on_parent_failure == "block":
            self.drafts[-1] = replace(draft, on_parent_failure=self._on_parent_failure)
        return len(self.drafts)

    def add_catch(self, call: Signature[Any], watched: Sequence[int]) -> None:
        """Add a job that runs when one of *watched* fails, with the id of that one."""
        parents = [number for number in watched if number not in self.catches]
        passed = FAILED_PARENT if call.takes_result else None
        draft = self._append(call, parents, passed)
        self.drafts[-1] = replace(draft, on_parent_failure="only")
        self.catches.add(len(self.drafts))

    def _append(
        self, call: Signature[Any], parents: list[int], passed: Output | None
    ) -> Draft:
        """Add a job that waits for *parents*; *passed* is its first argument."""
        self._check_queue(call.calls._queue)
        name, data = call.bound(takes_result=passed is not None)
        draft = call.calls.link_draft(data, name)
        spec = draft.spec
        # What the task's own options make it wait for comes first.
        after = (*spec.after, *(-number for number in parents))
        self._check_parents(draft.type, len(after))
        first = len(spec.after)
        places = {number: first + at for at, number in enumerate(parents)}
        inputs = (
            {} if name is None or passed is None else {name: _placed(passed, places)}
        )
        spec = replace(spec, after=after, inputs=inputs or None)
        self.drafts.append(replace(draft, spec=spec, flow=-1))
        self.readers.append(result_reader(call.calls._arguments.returns))
        return self.drafts[-1]

    def _check_queue(self, queue: Kue) -> None:
        if self._queue is None:
            self._queue = queue
        elif self._queue is not queue:
            raise ValueError("all jobs of a flow must be of tasks of one queue")

    def _check_parents(self, type: str, number: int) -> None:
        if number > MAX_PARENTS:
            raise ValueError(
                f"{type} would wait for {number:,} jobs, and a job waits for at most "
                f"{MAX_PARENTS:,}; use a batch"
            )

    def _check_result(self, number: int) -> None:
        parent = self.drafts[number - 1]
        if parent.spec.remove_on_complete:
            raise ValueError(
                f"{parent.type} has remove_on_complete, and so leaves no result for "
                "the job after it; use .si(…) there, or keep the job"
            )


def numbers_in(output: Output) -> Iterator[int]:
    """Yield the numbers of all jobs in *output*."""
    if isinstance(output, list):
        for one in output:
            yield from numbers_in(one)
    else:
        yield output


def _placed(output: Output, places: dict[int, int]) -> Output:
    """Return *output* with the position of each job in `Spec.after`."""
    if isinstance(output, list):
        return [_placed(one, places) for one in output]
    return places.get(output, FAILED_PARENT)
