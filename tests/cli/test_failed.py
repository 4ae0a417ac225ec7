"""``kue failed``: list, retry, forget, flush, prune."""

from __future__ import annotations

from kue.model.job import Error, Failed, State
from kue.store.contract import Store
from tests.support.command_line import CommandLine
from tests.support.jobs import DAY, add_many, claim, count_of, end, job_in


def failures(
    kue: CommandLine, number: int, message: str, *, type: str = "email", ago: int = 0
) -> list[int]:
    """Let jobs fail, the message followed by which of them it was."""

    async def fail(store: Store) -> list[int]:
        now = await store.now() - ago
        ids = await add_many(store, number, type, now=now)
        while jobs := await claim(store, type, limit=500, now=now):
            for job in jobs:
                error = Error("OSError", f"{message} {job.id}")
                await end(store, job, Failed(error), now=now)
        return ids

    return kue.arrange(fail)


def test_failed_jobs_are_listed_the_newest_first(kue: CommandLine) -> None:
    [old] = failures(kue, 1, "refused", ago=2 * DAY)
    [new] = failures(kue, 1, "[red]timeout")
    kue("job", "add", "email")

    said = kue("failed", "list")

    assert [row[0] for row in said.rows] == [str(new), str(old)]
    assert said.rows[0][1] == "email"
    assert said.rows[0][3:] == ["1", f"OSError: [red]timeout {new}"]
    assert said.err == ""


def test_failed_jobs_are_listed_by_what_is_asked(kue: CommandLine) -> None:
    [old] = failures(kue, 1, "refused", ago=2 * DAY)
    [new] = failures(kue, 1, "timeout", type="report")

    def ids(*options: str) -> list[int]:
        return [item["id"] for item in kue("failed", "list", "--json", *options).items]

    assert ids("--type", "email") == [old]
    assert ids("--error", "TIMEOUT") == [new]
    assert ids("--since", "1d") == [new]
    assert ids("--limit", "1") == [new]
    assert kue("failed", "list", "--limit", "1").err == (
        "kue: these are the newest 1; --all shows all\n"
    )
    assert "did you mean 'email'?" in kue("failed", "list", "--type", "emial").err


def test_failures_are_counted_by_error(kue: CommandLine) -> None:
    failures(kue, 3, "no such user")
    newest = failures(kue, 600, "timeout after")[-1]

    said = kue("failed", "list", "--by-error")

    assert [row[0] for row in said.rows] == ["600", "3"]
    assert said.rows[0][1] == "email"
    assert said.rows[0][4:] == [str(newest), f"OSError: timeout after {newest}"]
    [most] = kue("failed", "list", "--by-error", "--json", "--limit", 1).items
    assert (most["count"], most["kind"]) == (600, "OSError")
    kue.on_a_terminal()
    assert "timeout after" in kue("failed", "list", "--by-error").shown


def test_all_that_match_are_retried(kue: CommandLine) -> None:
    failures(kue, 600, "timeout")
    failures(kue, 2, "refused")
    kue.on_a_terminal()

    said = kue("failed", "retry", "--all", "--error", "timeout", "--json")

    assert said.items == [{"retried": 600, "changed": 0, "held": 0}]
    assert "Retrying jobs" in said.err
    assert said.err.endswith("kue: retried 600 failed jobs\n")
    assert kue.arrange(count_of) == {State.WAITING: 600, State.FAILED: 2}


def test_jobs_whose_key_is_taken_stay_failed(kue: CommandLine) -> None:
    kue.arrange(lambda store: job_in(store, State.FAILED, unique="k", now=1))
    kue("job", "add", "email", "--unique", "k")

    said = kue("failed", "retry", "--all")

    assert said.code == 0
    assert said.err == (
        "kue: retried 0 failed jobs; 1 stay failed: another job has their unique key\n"
    )
    named = kue("failed", "retry", 1)
    assert named.code == 1
    assert "job 1 cannot be requeued: job 2 holds its unique key" in named.err


def test_named_ones_are_retried_only_if_they_failed(kue: CommandLine) -> None:
    [failed] = failures(kue, 1, "timeout")
    complete = kue.arrange(lambda store: job_in(store, State.COMPLETE))

    said = kue("failed", "retry", failed, complete, "--delay", "10m")

    assert said.code == 1
    assert said.rows == [[str(failed), "delayed"]]
    assert said.err == f"kue: job {complete} is complete and cannot be retried\n"


def test_named_ones_are_forgotten_only_if_they_failed(kue: CommandLine) -> None:
    failed = failures(kue, 2, "timeout")
    kue("job", "add", "email")

    said = kue("failed", "forget", "-", 3, stdin=f"{failed[0]}\temail\n{failed[1]}\n")

    assert said.code == 1
    assert said.rows == [[str(job_id), "removed"] for job_id in failed]
    assert said.err == "kue: job 3 is waiting and cannot be removed\n"
    assert kue.arrange(count_of) == {State.WAITING: 1}


def test_all_failed_jobs_are_flushed(kue: CommandLine) -> None:
    failures(kue, 600, "timeout")
    failures(kue, 2, "timeout", type="report")

    by_type = kue("failed", "flush", "--type", "email")
    rest = kue("failed", "flush", "--yes", "--json")

    assert by_type.err == "kue: removed 600 failed jobs\n"
    assert rest.items == [{"removed": 2, "changed": 0, "held": 0}]
    assert kue("failed", "list").out == ""


def test_old_failures_are_pruned(kue: CommandLine) -> None:
    failures(kue, 2, "timeout", ago=8 * DAY)
    [new] = failures(kue, 1, "timeout", ago=6 * DAY)

    said = kue("failed", "prune", "--older-than", "7d")

    assert said.err == "kue: removed 2 failed jobs\n"
    assert [row[0] for row in kue("failed", "list").rows] == [str(new)]
    assert "Missing option '--older-than'" in kue("failed", "prune").err


def test_failed_jobs_are_listed_retried_forgotten_pruned_and_flushed(
    kue: CommandLine,
) -> None:
    [old] = failures(kue, 1, "timeout", ago=8 * DAY)
    named, wrong, last = failures(kue, 3, "timeout")

    def left() -> list[int]:
        return [item["id"] for item in kue("failed", "list", "--json").items]

    assert left() == [last, wrong, named, old]
    assert kue("failed", "prune", "--older-than", "7d").code == 0
    assert left() == [last, wrong, named]
    assert kue("failed", "forget", wrong).code == 0
    assert left() == [last, named]
    assert kue("failed", "retry", named).code == 0
    assert left() == [last]
    assert kue("failed", "flush", "--yes").code == 0
    assert kue.arrange(count_of) == {State.WAITING: 1}
