"""``kue job show``, ``list``, ``log`` and ``wait``: looking at jobs."""

from __future__ import annotations

import asyncio
import threading

import msgspec
import pytest

from kue import Kue
from kue.cli.commands.job.show import unseen
from kue.model.fingerprint import fingerprint
from kue.model.job import Completed, Error, Failed, Released, Retried, State
from kue.model.steps import Signal
from kue.store.contract import Store
from kue.store.values import MAX_LOG_LINES, LogLine, Progress
from tests.support.command_line import CommandLine
from tests.support.jobs import (
    DAY,
    HOUR,
    SECOND,
    add_many,
    add_one,
    claim_one,
    end,
    get_one,
    job_in,
    start_one,
)
from tests.support.patience import PATIENCE_SECONDS

STACK = 'Traceback:\n\tFile "a.py"\nOSError: gone'


async def troubled(store: Store) -> int:
    """Bring about a job that failed in its second attempt."""
    now = await store.now()
    job = await start_one(
        store, "email", {"to": "[bold]ann"}, attempts=2, tags=["vip"], now=now - 9_000
    )
    late = Error("TimeoutError", "too late")
    await end(store, job, Retried(late), now=now - 8_000)
    job = await claim_one(store, "email", now=now - 7_000)
    await end(store, job, Failed(Error("OSError", "gone", STACK)), now=now - 6_000)
    await store.log(job.id, [LogLine("dialling"), LogLine("no answer", "error", 2)])
    return job.id


def test_everything_there_is_to_know_is_shown(kue: CommandLine) -> None:
    job_id = kue.arrange(troubled)

    said = kue("job", "show", job_id)

    assert said.code == 0
    facts = {row[0]: row[1:] for row in said.rows if row[0] != "history"}
    assert facts["state"] == ["failed"]
    assert facts["data"] == ['{"to":"[bold]ann"}']
    assert facts["attempts"] == ["2 of 2"]
    assert facts["error"] == ["OSError: gone"]
    assert facts["tags"] == ["vip"]
    assert facts["took"] == ["1 s"]
    assert facts["log"] == [f"2 lines (kue job log {job_id})"]
    assert facts["ended"][0].endswith(" s ago)")
    assert facts["stack"] == [r'Traceback:\n\tFile "a.py"\nOSError: gone']
    first, second = (row for row in said.rows if row[0] == "history")
    assert (first[1], first[2], first[5]) == ("1", "retry", "w1")
    assert first[6] == "TimeoutError: too late"
    assert (second[1], second[2], second[6]) == ("2", "failed", "OSError: gone")


def test_releases_are_shown_apart_from_attempts(kue: CommandLine) -> None:
    async def release(store: Store) -> int:
        job = await start_one(
            store, attempts="unlimited", max_exceptions=3, retry_until="2h"
        )
        for _ in range(2):
            await end(store, job, Released(reason="ProviderDown: 503"))
            job = await claim_one(store)
        await end(store, job, Retried(Error("OSError", "gone")))
        return job.id

    said = kue("job", "show", kue.arrange(release))

    facts = {row[0]: row[1:] for row in said.rows if row[0] != "history"}
    assert facts["attempts"] == ["1 of unlimited"]
    assert facts["released"] == ["2 times, not counted as attempts"]
    assert facts["max errors"] == ["3"]
    assert "retried until" in facts
    released = next(row for row in said.rows if row[0] == "history")
    assert (released[2], released[6]) == ("released", "ProviderDown: 503")
    assert kue("job", "list").rows[0].count("1/∞") == 1


def test_on_a_terminal_a_job_is_shown_with_its_history_and_stack(
    kue: CommandLine,
) -> None:
    job_id = kue.arrange(troubled)
    kue.on_a_terminal()

    shown = kue("job", "show", job_id).shown

    for words in (
        "details",
        "TimeoutError: too late",
        '    File "a.py"',
        "2 of 2",
    ):
        assert words in shown
    assert '{"to":"[bold]ann"}' in shown


def test_a_job_that_does_not_exist_is_told_and_the_others_are_shown(
    kue: CommandLine,
) -> None:
    kue("job", "add", "email")

    said = kue("job", "show", 7, 1, "--json")

    assert said.code == 1
    assert said.err == "kue: job 7 does not exist\n"
    assert [item["id"] for item in said.items] == [1]


def test_what_a_job_carries_cannot_steer_a_terminal(kue: CommandLine) -> None:
    kue("job", "add", "email", '"\\u001b]0;owned\\u0007 \\u202egnp \\u009b31m"')

    plain = kue("job", "show", 1).out + kue("job", "list").out
    as_json = kue("job", "show", 1, "--json")
    kue.on_a_terminal()
    shown = kue("job", "list").shown

    for text in (plain, as_json.out, shown):
        assert not set("\x1b\x07\u202e\x9b") & set(text)
    assert as_json.items[0]["data"] == "\x1b]0;owned\x07 \u202egnp \x9b31m"


def test_jobs_are_listed_by_what_is_asked(kue: CommandLine) -> None:
    failed = kue.arrange(troubled)
    kue("job", "add", "report", '{"month": "May"}', "--tag", "slow")
    kue("job", "add", "email", "--delay", "1h")

    def ids(*options: str) -> list[str]:
        said = kue("job", "list", *options)
        assert said.code == 0
        return [row[0] for row in said.rows]

    assert ids() == [str(failed), "2", "3"]
    assert ids("--newest") == ["3", "2", str(failed)]
    assert ids("--type", "email") == [str(failed), "3"]
    assert ids("--state", "delayed") == ["3"]
    assert ids("--state", "inactive") == ["2"]
    assert ids("--tag", "slow") == ["2"]
    assert ids("--text", "MAY") == ["2"]
    assert ids("--error", "oserror") == [str(failed)]
    assert ids("--since", "5s") == ["2", "3"]
    assert ids("--until", "5s ago") == [str(failed)]


@pytest.mark.parametrize(
    "options",
    [
        ("--worker", "w7"),
        ("--group", "ann"),
        ("--priority", "high"),
        ("--priority", "-10"),
        ("--fingerprint", fingerprint(Error("OSError", "gone"))),
        ("--data", "user.id=42"),
        ("--data", "user.id=42", "--data", "to=ann"),
    ],
)
def test_jobs_are_listed_by_what_they_have(
    kue: CommandLine, options: tuple[str, ...]
) -> None:
    async def some(store: Store) -> int:
        await add_many(store, 2)
        job = await start_one(
            store,
            "report",
            {"to": "ann", "user": {"id": 42}},
            group="ann",
            priority="high",
            worker="w7",
        )
        await end(store, job, Failed(Error("OSError", "gone")))
        return job.id

    job_id = kue.arrange(some)

    said = kue("job", "list", *options)

    assert [row[0] for row in said.rows] == [str(job_id)]


def test_jobs_of_priority_0_are_listed(kue: CommandLine) -> None:
    async def some(store: Store) -> list[int]:
        await add_many(store, 1, priority="high")
        return await add_many(store, 1)

    [job_id] = kue.arrange(some)

    said = kue("job", "list", "--priority", "normal")

    assert [row[0] for row in said.rows] == [str(job_id)]


def test_a_line_of_a_list_has_eight_columns(kue: CommandLine) -> None:
    kue.arrange(troubled)

    [row] = kue("job", "list").rows

    assert row[:5] == ["1", "email", "failed", "0", "2/2"]
    assert row[6:] == ['{"to":"[bold]ann"}', "OSError: gone"]


def test_a_long_list_goes_on_where_it_stopped(kue: CommandLine) -> None:
    ids = [str(job_id) for job_id in kue.arrange(lambda store: add_many(store, 1_100))]

    first = kue("job", "list", "--limit", 600, "--state", "delayed")
    assert first.rows == []
    first = kue("job", "list", "--limit", 600, "--state", "waiting")
    cursor = first.err.split()[5]
    rest = kue("job", "list", cursor, "--limit", 600, "--state", "waiting")
    every = kue("job", "list", "--all")

    assert first.err.startswith("kue: there may be more: --cursor=")
    assert [row[0] for row in first.rows + rest.rows] == ids
    assert rest.err == ""
    assert [row[0] for row in every.rows] == ids


def test_a_search_goes_on_by_itself_as_far_as_it_may(kue: CommandLine) -> None:
    async def some(store: Store) -> int:
        await add_many(store, 600, "report")
        job_id = await add_one(store, data={"title": 'say "hi"'})
        await store.log(job_id, [LogLine("delivered to MX1")])
        await add_many(store, 10)
        return job_id

    job_id = str(kue.arrange(some))

    whole = kue("job", "list", "--text", 'mx1 "hi"')
    assert ([row[0] for row in whole.rows], whole.err) == ([job_id], "")
    part = kue("job", "list", "--text", "mx1", "--max-scan", 200)
    assert part.rows == []
    message = "kue: looked at 200 of 611 jobs: "
    assert part.err.startswith(f"{message}--cursor=0:200 continues, --max-scan looks")
    rest = kue("job", "list", "--text", "mx1", "--cursor", "0:200", "--limit", 1)
    assert [row[0] for row in rest.rows] == [job_id]
    assert rest.err.startswith("kue: there may be more: --cursor=")


def test_on_a_terminal_a_search_is_one_table(kue: CommandLine) -> None:
    async def some(store: Store) -> None:
        for _ in range(2):
            await add_one(store, data="needle")
            await add_many(store, 1_200)

    kue.arrange(some)
    kue.on_a_terminal(width=80)

    shown = kue("job", "list", "--text", "needle").shown

    assert shown.count("needle") == 2
    assert shown.count("prio") == 1


def test_on_a_terminal_a_list_is_a_table_as_wide_as_that(kue: CommandLine) -> None:
    kue("job", "add", "email", f'"{"long " * 100}"')
    kue.on_a_terminal(width=80)

    lines = kue("job", "list").shown.splitlines()

    assert "prio" in lines[1]
    assert "…" in lines[3]
    assert max(map(len, lines)) <= 80


def test_the_log_is_written_line_by_line(kue: CommandLine) -> None:
    job_id = kue.arrange(troubled)

    every = kue("job", "log", job_id)

    assert [row[1:] for row in every.rows] == [
        ["info", "0", "dialling"],
        ["error", "2", "no answer"],
    ]
    assert len(kue("job", "log", job_id, "--level", "warning").rows) == 1
    assert len(kue("job", "log", job_id, "--attempt", 2).rows) == 1
    [first, _] = kue("job", "log", job_id, "--json").items
    assert (first["text"], first["level"]) == ("dialling", "info")
    # The job has ended: following ends at once.
    assert kue("job", "log", job_id, "--follow").rows == every.rows


def test_a_log_is_followed_until_the_job_has_ended(kue: CommandLine) -> None:
    kue("job", "add", "email")
    worker = threading.Thread(target=asyncio.run, args=[work(kue)])
    worker.start()

    said = kue("job", "log", 1, "--follow")
    worker.join(PATIENCE_SECONDS)

    assert [row[3] for row in said.rows] == ["one", "two", "three"]


async def work(kue: CommandLine) -> None:
    """Run the jobs of type email there are, which log three lines."""
    settings = kue.engine.settings
    async with Kue(settings.url, prefix=settings.prefix) as q:

        @q.process("email")
        async def email(job: object) -> str:
            for text in ("one", "two", "three"):
                await q.handle(await (await q.get(1)).refresh()).log(text)
            return "sent"

        async with q.work():
            await (await q.get(1)).result(15)


def test_lines_are_seen_once_even_when_the_oldest_fall_off() -> None:
    lines = [LogLine(str(number)) for number in range(MAX_LOG_LINES + 3)]
    full = lines[:MAX_LOG_LINES]

    assert unseen(lines[:2], lines[:4]) == lines[2:4]
    assert unseen(full, lines[3:]) == lines[MAX_LOG_LINES:]
    assert unseen(full, full) == []
    assert unseen(lines[:1], lines[3:]) == lines[3:]


def test_waiting_ends_with_the_result(kue: CommandLine) -> None:
    kue("job", "add", "email")
    worker = threading.Thread(target=asyncio.run, args=[work(kue)])
    worker.start()

    said = kue("job", "wait", 1)
    worker.join(PATIENCE_SECONDS)

    assert (said.code, said.out, said.err) == (0, '"sent"\n', "")


def test_waiting_for_what_failed_or_takes_too_long_exits_with_1(
    kue: CommandLine,
) -> None:
    failed = kue.arrange(troubled)
    kue("job", "add", "email")

    assert (
        kue("job", "wait", failed).err == f"kue: job {failed} failed: OSError: gone\n"
    )
    slow = kue("job", "wait", 2, "--timeout", "50ms")
    assert slow.code == 1
    assert slow.err == "kue: job 2 is waiting and did not end within 0.05 s\n"
    assert kue("job", "wait", 99).err == "kue: job 99 does not exist\n"


def test_an_error_cannot_steer_a_terminal_either(kue: CommandLine) -> None:
    async def fail(store: Store) -> None:
        job = await start_one(store, "email", now=await store.now())
        await end(store, job, Failed(Error("OSError", "\x1b[2Jgone\nkue: fine")))

    kue.arrange(fail)

    assert kue("job", "wait", 1).err == (
        "kue: job 1 failed: OSError: \\x1b[2Jgone\n     kue: fine\n"
    )


def test_a_running_job_is_shown_with_its_progress(kue: CommandLine) -> None:
    async def start(store: Store) -> None:
        job = await start_one(store, "email", now=await store.now())
        await store.progress([Progress(job.id, 40, {"page": 2}, job.token)])

    kue.arrange(start)

    facts = {row[0]: row[1:] for row in kue("job", "show", 1).rows}

    assert facts["state"] == ["active"]
    assert facts["progress"] == ['40 % {"page":2}']
    assert facts["worker"] == ["w1"]
    assert facts["took"][0].endswith(" so far")


def test_a_result_is_shown(kue: CommandLine) -> None:
    async def complete(store: Store) -> None:
        job = await start_one(store, "email", now=await store.now())
        await end(store, job, Completed({"n": 1}), now=await store.now())

    kue.arrange(complete)

    assert ["result", '{"n":1}'] in kue("job", "show", 1).rows


def test_a_blocked_job_says_what_it_waits_for(kue: CommandLine) -> None:
    job_id = kue.arrange(lambda store: job_in(store, State.BLOCKED))

    assert ["after", str(job_id - 1)] in kue("job", "show", job_id).rows


async def waiting(store: Store) -> int:
    """Bring about a job that did a step, slept, and waits for a signal."""
    now = await store.now()
    job = await start_one(store, "order", now=now - HOUR)
    result = msgspec.Raw(b'{"id":7}')
    await store.record_step(job, "charge", result, duration=1500, now=now - HOUR)
    await store.signal(job.id, Signal(name="other", data=1), now=now - HOUR)
    await end(store, job, Released(SECOND, suspended="sleep:1"), now=now - HOUR)
    job = await claim_one(store, "order", now=now - SECOND)
    await end(store, job, Released(DAY, suspended="wait:1:approved"), now=now)
    return job.id


def test_steps_and_what_the_job_waits_for_are_shown(kue: CommandLine) -> None:
    job_id = kue.arrange(waiting)

    said = kue("job", "show", job_id)

    facts = {row[0]: row[1:] for row in said.rows if row[0] not in ("history", "step")}
    assert facts["waits for"][0].startswith("signal 'approved', until 20")
    assert facts["signals"] == ["other 1"]
    charge, sleep, wait = (row[1:] for row in said.rows if row[0] == "step")
    assert (*charge[:2], *charge[3:]) == ("step", "charge", "1.5 s", '{"id":7}')
    assert sleep[:2] == ["sleep", "1"]
    assert wait[:2] == ["wait", "approved"]
    assert wait[4].startswith("until 20")
    shown = kue("job", "show", job_id, "--json").items[0]
    assert [step["name"] for step in shown["steps"]] == ["charge", "1", "approved"]
    assert shown["pending"]["name"] == "approved"


def test_a_signal_is_sent(kue: CommandLine) -> None:
    job_id = kue.arrange(waiting)

    said = kue("job", "signal", job_id, "approved", '{"by": "ann"}')

    assert (said.code, said.rows) == (0, [[str(job_id), "sent"]])
    job = kue.arrange(lambda store: get_one(store, job_id))
    assert job.state is State.WAITING
    sent = kue("job", "signal", job_id, "more", "--json").items[0]
    assert sent == {"id": job_id, "signal": "more"}


def test_a_signal_that_cannot_be_sent_says_why(kue: CommandLine) -> None:
    ended = kue.arrange(lambda store: job_in(store, State.FAILED))

    assert kue("job", "signal", ended, "a").err == (
        f"kue: job {ended} is failed and cannot be sent a signal\n"
    )
    assert kue("job", "signal", 4711, "a").err == "kue: job 4711 does not exist\n"
    assert "the name of a signal must have" in kue("job", "signal", ended, "").err
    assert "data" in kue("job", "signal", ended, "a", "{not json").err
