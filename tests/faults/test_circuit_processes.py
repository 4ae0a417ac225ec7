"""A circuit breaker that worker processes share; one of them is killed as it probes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, cast

import pytest

from kue import Circuit, Job, JobHandle, Kue, State
from tests.faults.processes import Process
from tests.faults.program_circuit import CIRCUIT, FAILURES
from tests.support.patience import eventually

Worker = partial(Process, program="tests.faults.program_circuit")


@pytest.fixture
async def q(url: str, prefix: str) -> AsyncIterator[Kue]:
    async with Kue(url, prefix=prefix) as q:
        yield q


async def circuit_of(q: Kue) -> Circuit:
    [circuit] = await q.circuits()
    assert circuit.name == CIRCUIT
    return circuit


async def ended(job: JobHandle[Any]) -> Job:
    """Wait until the job has run, or was released."""

    async def look() -> Job | None:
        seen = await job.refresh()
        return seen if seen.history else None

    return cast("Job", await eventually(look))


async def is_held(q: Kue, type: str) -> bool:
    """Return whether a new job is released, rather than run."""
    return (await ended(await q.enqueue(type))).releases > 0


async def test_failures_in_two_processes_open_the_circuit_of_both(
    q: Kue, url: str, prefix: str
) -> None:
    async with (
        Worker("patient", url, prefix, "one"),
        Worker("patient", url, prefix, "two"),
    ):
        for type in ("one", "two"):
            assert not await is_held(q, type)
        for type in ("one", "two"):
            for _ in range(FAILURES // 2):
                assert (await ended(await q.enqueue(type, "fail"))).attempts == 1
        circuit = await circuit_of(q)
        # Within about a second, in the one whose failures were not the last.
        await eventually(lambda: is_held(q, "one"))
        await eventually(lambda: is_held(q, "two"))

    assert (circuit.state, circuit.failures) == ("open", FAILURES)
    assert circuit.last_error == "ProviderDown: 503"


async def test_a_probe_whose_worker_was_killed_makes_room_for_another(
    q: Kue, url: str, prefix: str
) -> None:
    await q.open_circuit(CIRCUIT, for_="1ms")
    probe = await q.enqueue("call", "hang")
    async with Worker("short", url, prefix, "call") as victim:
        assert await victim.line() == f"started {probe.id}"
        assert (await circuit_of(q)).probe == probe.id
        victim.kill()
        await victim.ended()

    async with Worker("patient", url, prefix, "call"):
        other = await q.enqueue("call")
        jobs = [await eventually(partial(_completed, job)) for job in (probe, other)]

    assert [cast("Job", job).state for job in jobs] == [State.COMPLETE] * 2
    assert (await probe.refresh()).stalls == 1
    assert (await circuit_of(q)).state == "closed"


async def _completed(job: JobHandle[Any]) -> Job | None:
    seen = await job.refresh()
    return seen if seen.state.is_final else None
