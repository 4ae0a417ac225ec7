"""Inputs of a run: arguments that are results of the jobs its job waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from kue.model.errors import Fail, Release, StoreUnavailable
from kue.model.job import FAILED_PARENT, State, id_at
from kue.model.sealed_payload import readable
from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.model.job import Job
    from kue.model.payload import JSON
    from kue.store.contract import Store
    from kue.worker.active_run import ActiveRun

#: How long to wait if the parents cannot be read now.
RETRY_SECONDS = 2


async def read_inputs(run: ActiveRun) -> None:
    """
    Add the results of parents to the data of the run.

    Raises:
        Fail: A result is not there and never will be.
        PayloadRefused: It is sealed, and cannot be opened.
        Release: The store is unavailable.
    """
    spec = run.job.spec
    if not isinstance(spec.data, dict | None):
        raise Fail("the data of a job that takes results must be an object")
    parents = await _parents(run.services.store, spec.after)
    data = dict(spec.data or {})
    for name, tree in (spec.inputs or {}).items():
        data[name] = _value(tree, spec.after, parents)
    run.job = replace(run.job, spec=replace(spec, data=data))


async def _parents(store: Store, ids: Sequence[int]) -> dict[int, Job]:
    found: list[Job | None] = []
    try:
        for start in range(0, len(ids), MAX_BATCH):
            found += await store.get(ids[start : start + MAX_BATCH])
    except StoreUnavailable as exc:
        why = f"its inputs cannot be read: {exc}"
        raise Release(RETRY_SECONDS, reason=why) from exc
    return {job.id: job for job in found if job is not None}


def _value(tree: Any, after: Sequence[int], parents: dict[int, Job]) -> JSON:
    """Return the value of one argument: see `Spec.inputs`."""
    if isinstance(tree, list):
        return [_value(branch, after, parents) for branch in tree]
    if tree == FAILED_PARENT:
        return _failed(after, parents)
    is_number = isinstance(tree, int)
    position = id_at(tree) if is_number and tree < 0 else tree
    if not is_number or not position < len(after):
        raise Fail(f"{tree!r} is not the position of a job that this one waited for")
    job_id = after[position]
    return job_id if tree < 0 else _result(job_id, parents.get(job_id))


def _failed(after: Sequence[int], parents: dict[int, Job]) -> int | None:
    """Return the first that failed; None if it was retried or removed since."""
    known = [parents[job_id] for job_id in after if job_id in parents]
    failed = [job for job in known if job.state is State.FAILED]
    return min(failed, key=lambda job: job.failed_at or 0).id if failed else None


def _result(job_id: int, job: Job | None) -> JSON:
    if job is None:
        raise Fail(
            f"the result of job {job_id} is gone, as the job was removed; keep it "
            "longer (retention=…), or pass what is needed in the data"
        )
    if job.state is not State.COMPLETE:
        raise Fail(
            f"job {job_id}, whose result is needed, is {job.state}; retry that one "
            "first, then this one"
        )
    return readable(job.result, f"the result of job {job_id}")
