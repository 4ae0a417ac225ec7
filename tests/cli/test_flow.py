"""``kue flow`` and ``kue batch``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kue as library
from kue.model.job import Failed, State
from kue.store.contract import Store
from tests.support.command_line import CommandLine
from tests.support.jobs import OOPS, claim_one, end, get_one


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


FLOW: dict[str, Any] = {
    "steps": [
        {
            "name": "count",
            "job": {"type": "count", "data": {"word": "e"}, "attempts": 3},
            "inputs": {"page": "fetch"},
        },
        {"name": "fetch", "job": {"type": "fetch", "data": {"url": "example.com"}}},
        {"name": "mail", "job": {"type": "email"}, "after": ["count"]},
    ],
    "on_parent_failure": "cancel",
}


def step(number: int, **changes: Any) -> dict[str, Any]:
    """Return the flow with a step, or its job, that is different."""
    steps = [dict(one) for one in FLOW["steps"]]
    job = changes.pop("job", {})
    steps[number] |= {**changes, "job": {**steps[number]["job"], **job}}
    return {"steps": steps}


@pytest.mark.parametrize("is_file", [True, False])
def test_a_flow_is_added_from_a_document(
    kue: CommandLine, tmp_path: Path, is_file: bool
) -> None:
    text = json.dumps(FLOW)
    path = tmp_path / "flow.json"
    path.write_text(text)

    added = kue(
        "flow", "add", str(path) if is_file else "-", stdin="" if is_file else text
    )

    assert (added.code, added.err) == (0, "")
    assert added.rows == [
        ["1", "count", "2", "count"],
        ["1", "fetch", "1", "fetch"],
        ["1", "mail", "3", "email"],
    ]
    count = kue.arrange(lambda store: get_one(store, 2))
    assert (count.flow, count.spec.after, count.max_attempts) == (1, (1,), 3)
    assert (count.state, count.on_parent_failure) == (State.BLOCKED, "cancel")
    [graph] = kue("flow", "show", 1, "--json").items
    assert graph["edges"] == [[1, 2], [2, 3]]


def test_a_flow_that_was_added_is_json_by_step(kue: CommandLine) -> None:
    [item] = kue("flow", "add", "-", "--json", stdin=json.dumps(FLOW)).items

    assert item["id"] == 1
    assert item["jobs"]["mail"] == {
        "id": 3,
        "type": "email",
        "new": True,
        "replaced": False,
    }


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (step(0, job={"attempts": 0}), "step 'count', steps[0].job.attempts: "),
        (step(1, job={"delay": "soon"}), "step 'fetch', steps[1].job.delay: "),
        (step(1, job={"atempts": 2}), "step 'fetch', steps[1].job: "),
        (step(2, after="count"), "step 'mail', steps[2].after: Expected `array`"),
        (step(2, name="fetch"), "step 'fetch', steps[2].name: two steps are named"),
        (step(0, job={"data": 7}), "steps[0].job.data: inputs need data that is an"),
        (step(2, after=["sum"]), "mail waits for sum, which the flow does not have"),
        (step(1, after=["mail"]), "the jobs of the flow wait for each other: "),
        ({"steps": []}, "steps: Expected `array` of length >= 1"),
        ([], "the flow: Expected `object`, got `array`"),
    ],
)
def test_a_step_that_is_wrong_is_named_and_nothing_is_added(
    kue: CommandLine, document: Any, problem: str
) -> None:
    refused = kue("flow", "add", "-", stdin=json.dumps(document))

    assert (refused.code, refused.out) == (2, "")
    assert problem in " ".join(refused.err.split())
    assert kue("queue", "list").out == ""


def test_a_step_after_a_job_that_was_never_added_is_named(kue: CommandLine) -> None:
    document = step(1, job={"after": [77]})

    refused = kue("flow", "add", "-", stdin=json.dumps(document))

    assert (refused.code, refused.out) == (1, "")
    assert "step 'fetch': no job was added: job 77, which one" in refused.err


def test_what_is_not_a_document_is_refused(kue: CommandLine, tmp_path: Path) -> None:
    no_json = kue("flow", "add", "-", stdin="{steps}")
    no_file = kue("flow", "add", str(tmp_path / "none.json"))

    assert (no_json.code, no_file.code) == (2, 2)
    assert "standard input is not JSON" in no_json.err
    assert "none.json cannot be read: No such file" in no_file.err


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


def test_a_job_without_others_is_shown_as_a_flow_of_one(kue: CommandLine) -> None:
    alone = kue("job", "add", "load").out.strip()

    assert f"flow {alone}: 1 job, 0 complete" in kue("flow", "show", alone).err


def test_a_job_shows_whose_results_are_its_arguments(kue: CommandLine) -> None:
    flow, _ = fill(kue)

    assert "inputs" not in kue("job", "show", flow).out
    shown = kue("job", "show", flow + 1).rows
    assert ["inputs", f"row: result of {flow}"] in shown


def test_a_job_shows_what_a_group_and_a_catch_pass_on(kue: CommandLine) -> None:
    async def add(store: Store) -> list[int]:
        q = library.Kue(store=store)

        @q.task
        async def load(number: int) -> int:
            return number

        @q.task
        async def total(numbers: list[int]) -> int:
            return sum(numbers)

        @q.task
        async def note(job_id: int) -> None: ...

        group = library.group(load.s(1), load.s(2))
        flow = await (group | total.s()).catch(note.s()).enqueue()
        await q.close()
        return [job.id for job in flow.jobs]

    first, second, last, caught = kue.arrange(add)

    assert ["inputs", f"numbers: [result of {first}, result of {second}]"] in kue(
        "job", "show", last
    ).rows
    assert ["inputs", "job_id: id of the first that failed"] in kue(
        "job", "show", caught
    ).rows


def test_a_flow_is_cancelled_from_a_job_on(kue: CommandLine) -> None:
    flow, _ = fill(kue)

    assert kue("flow", "cancel", flow, "--from", flow + 1).rows == [
        [str(flow), "2 cancelled"]
    ]
    assert kue("flow", "cancel", flow).rows == [[str(flow), "1 cancelled"]]
    assert kue("flow", "cancel", flow).code == 1


def test_a_job_of_another_flow_is_refused(kue: CommandLine) -> None:
    flow, _ = fill(kue)
    other, _ = fill(kue)

    for action in ("cancel", "retry"):
        refused = kue("flow", action, flow, "--from", other + 1)

        assert refused.code == 2
        text = f"job {other + 1} is of flow {other}, not of flow {flow}"
        assert text in refused.err


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
