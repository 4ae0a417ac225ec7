"""``kue top``: on a real terminal, in a pipe, and through an outage."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kue.model.job import State
from kue.store.contract import Store
from kue.store.values import Limits, PauseRequest, RenewRequest
from tests.cli.processes import KUE
from tests.cli.test_audit import acts
from tests.support.command_line import CommandLine
from tests.support.engines import engine_at
from tests.support.jobs import add_many, add_one, count_of, job_in, start_one
from tests.support.screen import TerminalProgram
from tests.support.servers import RedisServer

#: A machine that is busy is not a store that is away.
BUDGET = {"KUE_BUDGET": "60s"}


def top(*arguments: str, columns: int = 80, lines: int = 24) -> TerminalProgram:
    """Start it on a terminal of that size."""
    environ = os.environ | BUDGET
    return TerminalProgram(
        KUE, "top", *arguments, environ=environ, columns=columns, lines=lines
    )


async def fill(store: Store) -> None:
    """Have two queues, one with failed jobs, and a worker that runs a job."""
    now = await store.now()
    for _ in range(3):
        await job_in(store, State.FAILED, "email", now=now)
    await add_many(store, 5, "report", now=now)
    await start_one(store, "video", worker="web-1", now=now)
    # One without a list of types might take any.
    await store.leave("w1", now=now)
    slots = {"email": 5, "video": 2}
    await store.renew(
        RenewRequest("web-1", info={"slots": slots}, lease=3_600_000), now=now
    )


@pytest.fixture
def filled(kue: CommandLine) -> CommandLine:
    kue.arrange(fill)
    return kue


# -- on a terminal -------------------------------------------------------------


def test_a_queue_is_paused_and_its_failed_jobs_retried(filled: CommandLine) -> None:
    with top("--interval", "200ms") as program:
        program.until_shown("email", "web-1", "queues sorted by need")
        # Jobs of email failed, but nobody takes report.
        program.until(lambda shown: re.search(r"^> report +no worker", shown, re.M))
        program.press("j")
        program.until(lambda shown: re.search(r"^> email ", shown, re.M))

        program.press("p")
        program.until_shown("paused email; p resumes it")
        [pause] = filled.arrange(lambda store: store.paused())
        program.until_shown("! queue 'email' is paused by ")

        program.press("p")
        program.until_shown("resumed email")

        program.press("r")
        program.until_shown("retry 3 failed jobs of email? y/n")
        program.press("n")
        program.until_shown("nothing was changed")
        failed = filled.arrange(lambda store: count_of(store, "email"))
        program.press("ry")
        program.until_shown("email: retried 3 failed jobs")
        retried = filled.arrange(lambda store: count_of(store, "email"))

        program.press("q")
        assert program.wait() == 0
        assert program.is_restored

    assert (pause.type, pause.by != "") == ("email", True)
    assert failed == {State.FAILED: 3}
    assert retried == {State.WAITING: 3}
    assert filled.arrange(lambda store: store.paused()) == []
    noted = [(act.what, act.target, act.status) for act in acts(filled)]
    assert noted == [
        ("queue.pause", "email", 200),
        ("queue.resume", "email", 200),
        ("failed.retry", "email", 200),
    ]
    assert acts(filled)[0].who.startswith("cli:")
    assert json.loads(acts(filled)[0].detail) == {"by": "kue top"}


def test_a_change_is_made_although_the_user_leaves_at_once(
    filled: CommandLine,
) -> None:
    with top() as program:
        program.until_shown("email")
        program.press("pq")
        assert program.wait() == 0

    [pause] = filled.arrange(lambda store: store.paused())
    assert pause.type == "report"
    assert [act.what for act in acts(filled)] == ["queue.pause"]


def test_a_worker_and_every_queue_are_paused(filled: CommandLine) -> None:
    with top("--interval", "200ms") as program:
        program.until_shown("web-1")
        program.press("\tp")
        program.until_shown("paused worker web-1; p resumes it")
        program.until(lambda shown: re.search(r"^> web-1 +paused", shown, re.M))
        workers = filled.arrange(lambda store: store.workers())
        program.press("p")
        program.until_shown("resumed web-1")
        program.press("P")
        program.until_shown("pause every queue? y/n")
        program.press("y")
        program.until_shown("paused every queue; P resumes it", "everything is paused")
        program.press("\tp")
        program.until_shown("every queue is paused; P resumes them")
        program.press("P")
        program.until_shown("resumed every queue")

    assert [worker.name for worker in workers if worker.paused] == ["web-1"]
    assert filled.arrange(lambda store: store.paused()) == []
    assert [act.what for act in acts(filled)] == [
        "workers.pause",
        "workers.resume",
        "queue.pause",
        "queue.resume",
    ]


def test_details_have_the_errors_and_what_a_worker_runs(filled: CommandLine) -> None:
    with top("--interval", "200ms") as program:
        program.until(lambda shown: re.search(r"^> report", shown, re.M))
        program.press("jd")
        program.until_shown("queue email", "errors of failed jobs", "ValueError: oops")
        program.press("\x1b\t")
        program.until(lambda shown: re.search(r"^> web-1", shown, re.M))
        program.press("\r")
        program.until_shown("worker web-1", "1 of 7 used: email 5, video 2", "video 9")
        program.press("?")
        program.until_shown("this help")
        program.press("?")
        program.until_shown("/ filter")
        program.press("\x1b")

        assert program.wait() == 0
        assert program.is_restored


def test_names_are_filtered_as_they_are_typed(filled: CommandLine) -> None:
    with top("--interval", "200ms") as program:
        program.until_shown("email", "report")
        program.press("/REP")
        program.until(lambda shown: "/REP" in shown and "email" not in shown)
        program.press("\r")
        program.until_shown("only queues with 'REP'")
        program.press("/\x15zzz\r")
        program.until_shown("no queues with 'zzz' in their names; Esc shows all")
        program.press("\x1b")
        program.until_shown("email", "report", "video")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_however_it_is_ended_the_terminal_is_as_before(
    filled: CommandLine, number: signal.Signals
) -> None:
    with top() as program:
        program.until_shown("email")
        assert not program.is_restored
        program.process.send_signal(number)

        assert program.wait() == 0
        assert program.is_restored


def test_a_failure_of_the_program_leaves_the_terminal_as_before(
    filled: CommandLine, tmp_path: Path
) -> None:
    """A bug is not hidden, and its traceback can be read."""
    (tmp_path / "buggy.py").write_text(
        "import sys\n"
        "from kue.cli import main\n"
        "from kue.cli.commands.top import live\n"
        "live.frame = None\n"
        "main(sys.argv[1:])\n"
    )
    program = TerminalProgram(
        str(Path(KUE).with_name("python")),
        *(str(tmp_path / "buggy.py"), "top"),
        environ=os.environ | BUDGET,
        columns=80,
        lines=24,
    )
    with program:
        assert program.wait() == 1
        assert program.is_restored
        assert "TypeError: 'NoneType' object is not callable" in program.screen.text


def test_it_is_suspended_and_goes_on(filled: CommandLine) -> None:
    with top("--interval", "200ms") as program:
        program.until_shown("email")
        program.process.send_signal(signal.SIGTSTP)
        program.until_stopped()
        assert program.is_restored

        filled.arrange(lambda store: add_one(store, "later", now=None))
        program.process.send_signal(signal.SIGCONT)
        program.until_shown("later")
        assert program.screen.is_other
        program.press("q")

        assert program.wait() == 0
        assert program.is_restored


def test_a_resized_terminal_is_filled_again(filled: CommandLine) -> None:
    with top(columns=80, lines=24) as program:

        def until_lines(number: int) -> str:
            """Wait for a frame of so many lines; the keys are on the last."""
            lines = program.screen.lines
            return program.until(
                lambda shown: max(lines, default=0) == number and "s sort" in shown
            )

        small = until_lines(24)
        program.resize(140, 40)
        large = until_lines(40)
        program.resize(60, 10)
        tiny = until_lines(10)

    assert "oldest" in small
    assert "run95" not in small
    assert "run95" in large
    assert "oldest" not in tiny
    assert max(map(len, tiny.splitlines())) <= 60


# -- without a terminal --------------------------------------------------------


def test_once_prints_a_frame_without_escape_codes(filled: CommandLine) -> None:
    filled.on_a_terminal(width=100)

    said = filled("top", "--once")

    lines = said.out.splitlines()
    assert (said.code, said.err) == (0, "")
    assert "\x1b" not in said.out
    assert lines[0].startswith("kue top  ")
    assert lines[1] == "3 queues: 5 waiting, 1 active, 0 delayed, 3 failed"
    assert lines[2].startswith("last minute: ")
    assert lines[2].endswith(" failed; 1 worker, 1 of 7 slots")
    assert lines[3] == "! 5 jobs of type 'report' wait, and no live worker takes it"
    assert max(map(len, lines)) <= 100
    assert re.search(r"^report +no worker +5 +· +· +· ", said.out, re.M)
    assert re.search(r"^email +(failing +)?· +· +· +3 ", said.out, re.M)
    assert re.search(r"^web-1 +alive +1/7 +video 9 ", said.out, re.M)
    assert re.search(r"^w1 +stopped +0 ", said.out, re.M)


def test_a_pipe_gets_one_frame_and_only_the_types_asked_for(
    filled: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)

    said = filled("top", "--type", "email", "--type", "video")

    assert said.code == 0
    assert "2 queues: 0 waiting, 1 active" in said.out
    assert "report" not in said.out
    # Nothing is left out where there is no screen.
    assert "run95" in said.out


def test_a_frame_of_nothing_says_how_to_begin(kue: CommandLine) -> None:
    kue.arrange(lambda store: store.open())

    shown = kue("top", "--once").out

    assert "no queues yet; kue job add adds a job" in shown
    assert "no workers yet; kue worker starts one" in shown


def test_pauses_and_lost_workers_are_warned_of(kue: CommandLine) -> None:
    async def lose(store: Store) -> None:
        then = await store.now() - 60_000
        await start_one(store, "email", worker="web-1", now=then)
        await store.renew(RenewRequest("web-1", lease=1_000), now=then)
        await store.pause(PauseRequest("email", reason="moving", by="ann"))

    kue.arrange(lose)

    shown = kue("top", "--once").out

    assert "! worker 'web-1' is lost while running 1 job" in shown
    assert "! queue 'email' is paused by ann: moving" in shown
    assert re.search(r"^web-1 +lost +1 .*ago, ran 1$", shown, re.MULTILINE)


def test_a_full_queue_is_warned_of_unless_it_has_no_worker(kue: CommandLine) -> None:
    async def fill(store: Store) -> None:
        for type in ("email", "report"):
            await store.limit(type, Limits(max_waiting=1))
            await add_one(store, type, now=None)
        await store.renew(RenewRequest("web-1", info={"slots": {"email": 1}}))

    kue.arrange(fill)

    shown = kue("top", "--once").out

    assert "! queue 'email' is full: 1 job waits, and its cap is 1" in shown
    assert re.search(r"^email +full +1 ", shown, re.MULTILINE)
    assert re.search(r"^report +no worker +1 ", shown, re.MULTILINE)


def test_a_name_cannot_control_the_terminal(kue: CommandLine) -> None:
    kue.arrange(lambda store: add_one(store, "evil\u202e\u200b", now=None))

    shown = kue("top", "--once").out

    assert r"evil\u202e\u200b" in shown


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--interval", "1ms"), "--interval is from 100ms to 1h"),
        (("--interval", "2h"), "--interval is from 100ms to 1h"),
        (("--interval", "soon"), "soon"),
    ],
)
def test_an_interval_that_makes_no_sense_is_refused(
    filled: CommandLine, arguments: tuple[str, ...], complaint: str
) -> None:
    said = filled("top", "--once", *arguments)

    assert said.code == 2
    assert complaint in said.err


def test_a_type_nobody_knows_is_not_watched(filled: CommandLine) -> None:
    said = filled("top", "--once", "--type", "emial")

    assert said.code == 1
    assert "no job of type 'emial' is known; did you mean 'email'?" in said.err


def test_of_very_many_queues_the_first_are_printed(kue: CommandLine) -> None:
    async def add_types(store: Store) -> None:
        for number in range(150):
            await add_one(store, f"type-{number:03}", now=None)

    kue.arrange(add_types)

    shown = kue("top", "--once").out

    assert "1 to 99 of 150 queues" in shown
    assert "! no live worker, and 150 jobs wait; kue worker starts one\n" in shown
    assert "\ntype-098 " in shown
    assert "type-099" not in shown


# -- outages -------------------------------------------------------------------


@pytest.fixture
def server(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[RedisServer]:
    """A server of its own, which may be stopped, with the jobs of `fill`."""
    server = RedisServer(tmp_path)
    CommandLine(engine_at("redis", server.url), capsys, monkeypatch).arrange(fill)
    yield server
    server.stop()


def test_an_outage_is_shown_until_it_is_over(server: RedisServer) -> None:
    with top("--interval", "200ms") as program:
        program.until_shown("email")
        with server.frozen():
            program.until_shown("no answer from the store for ", "email")
        program.until(lambda shown: "no answer" not in shown and "email" in shown)
        program.press("q")

        assert program.wait() == 0


def test_a_change_that_fails_is_reported_and_the_view_goes_on(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUDGET, "KUE_BUDGET", "10s")
    with top("--interval", "200ms") as program:
        program.until_shown("email")
        with server.frozen():
            program.press("p")
            program.until_shown("pausing report failed: ")
        program.until(lambda shown: "no answer" not in shown)
        # Another queue: that call may have been done after all.
        program.press("Gp")
        program.until_shown("paused video; p resumes it")
