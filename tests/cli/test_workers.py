"""``kue workers``: who runs jobs, paused and resumed by name."""

from __future__ import annotations

import asyncio
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kue.cli.commands import workers
from kue.store.contract import Store
from kue.store.values import RenewRequest
from tests.cli.processes import start_kue
from tests.support.command_line import CommandLine
from tests.support.jobs import start_one
from tests.support.patience import PATIENCE_SECONDS


def at_work(kue: CommandLine, **info: Any) -> None:
    """Let the worker web-1 run a job, and tell of itself."""

    async def start(store: Store) -> None:
        now = await store.now()
        await start_one(store, "email", worker="web-1", now=now)
        await store.renew(RenewRequest("web-1", info=info, lease=60_000), now=now)

    kue.arrange(start)


def test_what_a_worker_says_of_itself_is_shown(kue: CommandLine) -> None:
    at_work(
        kue,
        host="web",
        pid=4711,
        started_at=1_700_000_000_000,
        slots={"email": 20, "report": 2},
        done=1234,
        memory=50 << 20,
        lag_ms=3,
        blocked=2,
        blocked_at="app.py:12 in resize",
        processes={"now": 3, "least": 1, "most": 8},
    )

    [row] = kue("workers").rows

    assert row[:4] == ["web-1", "web", "4711", "yes"]
    assert row[4].startswith("2023-11-1")
    assert row[5:] == [
        "1 of 22",
        "1234",
        "email 20, report 2",
        "50 MB",
        "3 ms",
        "2: app.py:12 in resize",
        "3 of 1:8",
    ]


def test_a_worker_that_fails_says_what_is_wrong(kue: CommandLine) -> None:
    """R-6: trouble is to be seen where one looks for workers."""
    trouble = "cycle: StoreCorrupt: a value cannot be read\x1b[31m"
    at_work(kue, trouble=trouble)

    told = kue("workers")
    [item] = kue("workers", "--json").items

    [row] = told.rows
    assert row[3] == "fails"
    assert "web-1 fails: cycle: StoreCorrupt: a value cannot be read" in told.err
    assert "\x1b" not in told.err
    assert item["info"]["trouble"] == trouble


def test_a_worker_that_says_nothing_is_shown_all_the_same(kue: CommandLine) -> None:
    at_work(kue)

    [row] = kue("workers").rows
    [item] = kue("workers", "--json").items
    kue.on_a_terminal()

    assert row == ["web-1", "", "", "yes", "", "1", *[""] * 6]
    assert (item["name"], item["alive"], item["active"]) == ("web-1", True, 1)
    assert "web-1" in kue("workers").shown


def test_a_worker_past_its_lease_is_lost(kue: CommandLine) -> None:
    async def leave(store: Store) -> None:
        now = await store.now() - 5_000
        await start_one(store, "email", worker="web-1", now=now)
        await store.renew(RenewRequest("web-1", lease=1_000), now=now)

    kue.arrange(leave)

    assert kue("workers").rows[0][3].startswith("no, lost 4")


def test_nobody_at_work_is_told(kue: CommandLine) -> None:
    kue("job", "add", "email")

    said = kue("workers")

    assert (said.code, said.out) == (0, "")
    assert said.err == "kue: no workers for this queue\n"


def test_a_worker_is_paused_and_resumed_by_name(kue: CommandLine) -> None:
    at_work(kue)

    paused = kue("workers", "pause", "web-1", "--reason", "kernel", "--until", "30m")
    row = kue("workers").rows[0]
    types = kue("queue", "list").rows
    resumed = kue("workers", "resume", "web-1", "--json")

    assert paused.rows[0][:2] == ["web-1", "paused"]
    assert paused.rows[0][2].startswith("until ")
    assert row[3] == "paused"
    assert types[0][9] == ""
    assert resumed.items == [{"worker": "web-1", "paused": False}]
    assert kue("workers").rows[0][3] == "yes"


def test_a_worker_nobody_knows_is_not_paused(kue: CommandLine) -> None:
    at_work(kue)

    paused = kue("workers", "pause", "web1")
    resumed = kue("workers", "resume", "web1")

    assert (paused.code, resumed.code) == (1, 1)
    assert paused.err == "kue: no worker is named 'web1'; did you mean 'web-1'?\n"
    assert resumed.err.startswith("kue: worker 'web1' was not paused")


@pytest.mark.parametrize("options", [["--watch"], ["--watch", "--json"]])
def test_workers_are_watched_until_ctrl_c(kue: CommandLine, options: list[str]) -> None:
    at_work(kue)
    with start_kue("workers", *options) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=PATIENCE_SECONDS)

    assert all("web-1" in line for line in lines)
    assert process.returncode == 0
    assert complaints == ""


# -- orders --------------------------------------------------------------------


def test_a_worker_is_ordered_to_stop(kue: CommandLine) -> None:
    at_work(kue)

    assert kue("workers", "stop", "web-1").rows == [["web-1", "stops"]]
    [item] = kue("workers", "stop", "web-1", "--json").items

    async def beat(store: Store) -> tuple[str, ...]:
        return (await store.renew(RenewRequest("web-1", orders=True))).orders

    assert item == {"worker": "web-1", "order": "stop"}
    assert kue.arrange(beat) == ("stop",)


@pytest.mark.parametrize("verb", ["stop", "stacks"])
def test_a_worker_that_nobody_knows_is_not_ordered(kue: CommandLine, verb: str) -> None:
    at_work(kue)

    refused = kue("workers", verb, "web1")

    assert refused.code == 1
    assert refused.err == "kue: no live worker is named 'web1'; did you mean 'web-1'?\n"


def test_a_worker_that_does_not_answer_has_no_stacks(
    kue: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "PATIENCE_SECONDS", 0.05)
    at_work(kue)

    said = kue("workers", "stacks", "web-1")

    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("kue: worker 'web-1' did not answer")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_stacks_are_shown_when_the_worker_has_written_them(
    kue: CommandLine, options: list[str]
) -> None:
    at_work(kue)

    async def obey(store: Store) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            # There is no event to wait for.
            while not (await store.renew(RenewRequest("web-1", orders=True))).orders:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await store.write_stacks("web-1", "task 'kue heartbeat':")

    with ThreadPoolExecutor() as pool:
        obeyed = pool.submit(kue.arrange, obey)
        said = kue("workers", "stacks", "web-1", *options)
        obeyed.result()

    if options:
        assert said.items[0]["text"] == "task 'kue heartbeat':"
    else:
        assert said.out == "task 'kue heartbeat':\n"


def test_a_worker_that_stopped_in_order_is_not_lost(kue: CommandLine) -> None:
    """Friction 6: it says since when, and the same on both engines."""

    async def stop(store: Store) -> None:
        now = await store.now() - 65_000
        await store.renew(RenewRequest("web-1"), now=now - 1_000)
        await store.leave("web-1", now=now)

    kue.arrange(stop)
    [row] = kue("workers").rows
    [item] = kue("workers", "--json").items

    assert row[3].startswith("no, stopped 1 min")
    assert (item["alive"], item["stopped"], item["lost"]) == (False, True, False)


def test_a_worker_that_left_with_jobs_in_its_hands_is_lost(kue: CommandLine) -> None:
    """A supervisor deregisters a child that was killed."""

    async def leave(store: Store) -> None:
        await start_one(store, "email", worker="web-1", now=await store.now() - 5_000)
        await store.leave("web-1", now=await store.now() - 4_000)

    kue.arrange(leave)

    assert kue("workers").rows[0][3].startswith("no, lost 4")


@pytest.mark.parametrize("width", [80, 60])
def test_names_pids_and_titles_are_whole_where_there_is_little_room(
    kue: CommandLine, width: int
) -> None:
    """Friction 7: `kill -9` needs the pid."""
    info = {
        "host": "build-server-17",
        "pid": 1234567,
        "started_at": 1,
        "memory": 9**9,
        "slots": {"resize-images": 10, "send-email": 20},
        "done": 123_456,
        "lag_ms": 12.0,
        "blocked": 7,
        "blocked_at": "app.py:12 in resize",
    }
    kue.arrange(
        lambda store: store.renew(
            RenewRequest("build-server-17-1234567-a1b2", info=info)
        )
    )
    kue.on_a_terminal(width=width)

    said = kue("workers")
    lines = said.shown.splitlines()

    titles, first = lines[1].split(), lines[3].split()
    assert titles[:2] == ["name", "pid"]
    assert {"alive", "running"} <= set(titles)
    assert first[:2] == ["build-server-17-1234567-a1b2", "1234567"]
    assert "no room for host, memory" in said.err
    assert max(map(len, lines)) <= width
