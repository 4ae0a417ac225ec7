"""``kue job retry``, ``cancel``, ``remove``, ``move`` and ``edit``."""

from __future__ import annotations

import pytest

from kue.model.job import State
from tests.support.command_line import CommandLine
from tests.support.jobs import add_many, count_of, get_one, job_in


def arranged(kue: CommandLine, state: State) -> int:
    return kue.arrange(lambda store: job_in(store, state))


def state_of(kue: CommandLine, job_id: int) -> State:
    return kue.arrange(lambda store: get_one(store, job_id)).state


@pytest.mark.parametrize("state", [State.FAILED, State.COMPLETE, State.CANCELLED])
def test_an_ended_job_is_put_back_in_line(kue: CommandLine, state: State) -> None:
    job_id = arranged(kue, state)

    said = kue("job", "retry", job_id)

    assert (said.code, said.rows, said.err) == (0, [[str(job_id), "waiting"]], "")
    assert state_of(kue, job_id) is State.WAITING


def test_a_retry_can_wait(kue: CommandLine) -> None:
    job_id = arranged(kue, State.FAILED)

    assert kue("job", "retry", job_id, "--delay", "1h").rows == [
        [str(job_id), "delayed"]
    ]

    assert state_of(kue, job_id) is State.DELAYED


def test_one_that_cannot_be_retried_does_not_keep_the_others_back(
    kue: CommandLine,
) -> None:
    active = arranged(kue, State.ACTIVE)
    failed = arranged(kue, State.FAILED)

    said = kue("job", "retry", active, 99, failed, "--json")

    assert said.code == 1
    assert said.err.splitlines() == [
        f"kue: job {active} is active and cannot be retried",
        "kue: job 99 does not exist",
    ]
    assert said.items == [
        {
            "id": active,
            "now": None,
            "error": f"job {active} is active and cannot be retried",
        },
        {"id": 99, "now": None, "error": "job 99 does not exist"},
        {"id": failed, "now": "waiting", "error": None},
    ]


def test_ids_come_from_a_list(kue: CommandLine) -> None:
    kue.arrange(lambda store: add_many(store, 600))
    listed = kue("job", "list", "--all").out

    said = kue("job", "cancel", "-", stdin=listed)

    assert said.code == 0
    assert len(said.rows) == 600
    assert kue.arrange(count_of) == {State.CANCELLED: 600}


def test_a_line_without_an_id_is_told(kue: CommandLine) -> None:
    kue("job", "add", "email")

    said = kue("job", "cancel", "-", stdin="1\temail\n\nemail\n")

    assert said.code == 2
    assert said.err.startswith(
        "kue: line 3 of standard input: 'email' is not a job id; ids are whole numbers"
    )


def test_a_running_job_is_asked_to_end(kue: CommandLine) -> None:
    active = arranged(kue, State.ACTIVE)
    waiting = kue("job", "add", "email").out.strip()

    said = kue("job", "cancel", active, waiting, "--reason", "withdrawn")

    assert said.rows == [[str(active), "asked"], [waiting, "cancelled"]]
    shown = kue("job", "show", active, waiting).out
    assert "active (asked to end)" in shown
    assert "withdrawn" in shown


def test_what_has_ended_cannot_be_cancelled(kue: CommandLine) -> None:
    job_id = arranged(kue, State.COMPLETE)

    said = kue("job", "cancel", job_id)

    assert said.code == 1
    assert said.err == f"kue: job {job_id} is complete and cannot be cancelled\n"


def test_a_running_job_is_removed_by_force_only(kue: CommandLine) -> None:
    job_id = arranged(kue, State.ACTIVE)

    refused = kue("job", "remove", job_id)
    removed = kue("job", "remove", job_id, "--force")

    assert refused.code == 1
    assert refused.err == (
        f"kue: job {job_id} is active and cannot be removed; "
        "cancel it, or use --force\n"
    )
    assert removed.rows == [[str(job_id), "removed"]]
    assert kue("job", "show", job_id).code == 1


def test_a_job_is_moved_to_run_later_or_now(kue: CommandLine) -> None:
    kue("job", "add", "email")

    kue("job", "move", 1, "--to", "delayed", "--at", "2099-01-01T00:00:00Z")
    job = kue.arrange(lambda store: get_one(store, 1))
    assert (job.state, job.promote_at) == (State.DELAYED, 4_070_908_800_000)

    assert kue("job", "move", 1, "--to", "delayed", "--delay", "2h").code == 0
    assert kue("job", "move", 1, "--to", "waiting").rows == [["1", "waiting"]]
    assert state_of(kue, 1) is State.WAITING


def test_a_job_is_edited(kue: CommandLine) -> None:
    kue("job", "add", "email", "--tag", "a")

    said = kue(
        "job", "edit", 1, 9, "--priority", "-7", "--attempts", 4, "--data", "[1]"
    )

    assert (said.code, said.rows) == (1, [["1", "changed"]])
    assert said.err == "kue: job 9 does not exist\n"
    job = kue.arrange(lambda store: get_one(store, 1))
    assert (job.priority, job.max_attempts, job.data) == (-7, 4, [1])
    assert job.tags == ("a",)


def test_tags_are_replaced_or_taken_away(kue: CommandLine) -> None:
    kue("job", "add", "email", "--tag", "a")

    kue("job", "edit", 1, "--tag", "b", "--tag", "c")
    assert kue.arrange(lambda store: get_one(store, 1)).tags == ("b", "c")

    kue("job", "edit", 1, "--no-tags", "--data", "-", stdin='{"x": 1}')
    job = kue.arrange(lambda store: get_one(store, 1))
    assert (job.tags, job.data) == ((), {"x": 1})
