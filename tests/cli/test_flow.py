"""``kue flow`` and ``kue batch``."""

from __future__ import annotations

import kue as library
from kue.model.job import Failed
from kue.store.contract import Store
from tests.support.command_line import CommandLine
from tests.support.jobs import OOPS, claim_one, end


def fill(kue: CommandLine) -> tuple[int, int]:
    """Add a chain of three jobs and a batch of two; return their ids."""

    async def add(store: Store) -> tuple[int, int]:
        q = library.Kue(store=store)

        @q.task
        async def load(row: int) -> int:
            return row

        flow = await (load.s(1) | load.s() | load.s()).enqueue()
        batch = await library.batch("import").enqueue([load.s(1), load.s(2)])
        return flow.flow, batch.id

    return kue.arrange(add)


def test_a_flow_is_shown_with_what_each_job_waits_for(kue: CommandLine) -> None:
    flow, _ = fill(kue)

    shown = kue("flow", "show", flow + 1)

    assert [row[:5] for row in shown.rows] == [
        [str(flow), "1", "load", "waiting", ""],
        [str(flow + 1), "1", "load", "blocked", str(flow)],
        [str(flow + 2), "1", "load", "blocked", str(flow + 1)],
    ]
    assert "flow 1: 3 jobs, 0 complete, 0 failed, 0 cancelled" in shown.err
    [graph] = kue("flow", "show", flow, "--json").items
    assert graph["edges"] == [[flow, flow + 1], [flow + 1, flow + 2]]


def test_a_flow_is_cancelled_from_a_job_on(kue: CommandLine) -> None:
    flow, _ = fill(kue)

    assert kue("flow", "cancel", flow, "--from", flow + 1).rows == [
        [str(flow), "2 cancelled"]
    ]
    assert kue("flow", "cancel", flow).rows == [[str(flow), "1 cancelled"]]
    assert kue("flow", "cancel", flow).code == 1


def test_the_failed_jobs_of_a_flow_are_retried(kue: CommandLine) -> None:
    flow, _ = fill(kue)

    async def fail(store: Store) -> None:
        job = await claim_one(store, "load", now=await store.now())
        await end(store, job, Failed(OOPS), now=await store.now())

    kue.arrange(fail)

    assert kue("flow", "retry", flow).rows == [[str(flow), "1 retried, 0 wait again"]]
    assert kue("flow", "retry", flow).code == 1


def test_batches_are_listed_shown_cancelled_and_retried(kue: CommandLine) -> None:
    _, batch = fill(kue)

    listed = kue("batch", "list").rows
    assert [row[:8] for row in listed] == [
        [str(batch), "import", "blocked", "0 %", "2", "0", "0", "0"]
    ]
    assert kue("batch", "show", batch).rows == listed
    assert kue("batch", "cancel", batch).rows == [[str(batch), "2 of 2 cancelled"]]
    assert kue("batch", "retry", batch, "--json").items == [{"id": batch, "retried": 2}]
    assert kue("batch", "retry", batch).code == 1


def test_another_job_is_not_a_batch(kue: CommandLine) -> None:
    flow, _ = fill(kue)

    refused = kue("batch", "show", flow)

    assert refused.code == 2
    assert "is not a batch" in refused.err
