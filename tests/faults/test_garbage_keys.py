"""
Any wrong value in any key of a Redis store is an error of the store, and is found.

For every kind of key and every kind of wrong value (R-6): each verb works or raises
`StoreError`, and the doctor finds what no verb can have written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kue import ActiveJob, Kue
from kue.model import settings
from kue.model.draft import draft
from kue.model.errors import JobError, StoreCorrupt, StoreError, StoreRefused
from kue.store import store_for
from kue.store.contract import Store
from tests.faults.garbling import call_all, errors
from tests.faults.garbling_keys import (
    PLACES,
    SCORES,
    VERBS,
    Case,
    Garbling,
    place_of,
    prepare,
)
from tests.faults.scene import Scene, Verb
from tests.support.command_line import CommandLine
from tests.support.engines import Engine
from tests.support.patience import PATIENCE_SECONDS, until
from tests.support.servers import RedisServer
from tests.support.site import command

pytestmark = pytest.mark.damages

PREFIX = "garbage"
#: What is gone without a trace: it may as well never have been there.
NEVER_THERE = {
    "*:fair",  # all groups begin at the first waiting job
    "*:lapse",  # an add finds that the key's time is over
    "*:progress",
    "*:rate",  # begins again
    "*:tries",  # so does a job that was restarted
    "*:wake",
    "acts",
    "cancelling",
    "claims:*",
    "failure_rules",  # what is not there is not done
    "failures",
    "hours:*",
    "info",
    "job:*:left",  # those that still list the job find out when they end
    "job:*:log",
    "job:*:stream",
    "job:*:steps",  # the job begins again
    "limit rate:*",  # begins again
    "listeners",
    "lost:*",  # jobs that are gone: they then count as complete
    "meta",  # written again by the next opening; workers that run notice
    "orders",
    "paused",
    "producers:*",
    "refusals",
    "routine",
    "search",
    "stacks",
    "stats:*",
    "watched",
}
_TEXT = ("empty", "text", "object", "negative", "float", "huge", "nan", "binary", "nul")
#: Wrong values that look right, or do not matter.
LEGAL = {
    "agenda": {"=0.5"},  # as types without jobs have it
    "*:fair": {"=-7", "+negative"},  # priorities may be negative
    "failure_rules": {"ruled=object"},  # fields of another release
    "info": {"w*=object"},
    "limit running:*": {f"={score}" for score in SCORES},  # since when is not used
    "flow:*": {"at:*=empty"},
    "lost:*": {"empty", "nul"},
    "outbox": {"left:*=empty"},
    # Any text, and of workers that nobody knows.
    "stacks": {f"w*={kind}" for kind in (*_TEXT, "long")} | {"+text", "+negative"},
    "types": {"+text", "+negative"},  # without jobs, and forgotten after a day
    "workers": {"=-7", "+text", "+negative"},  # one that left, and others
}


class Place:
    """A store with something in every kind of key, and hands to garble it."""

    def __init__(self, server: RedisServer) -> None:
        self.url = server.url
        self.client = server.client()
        # Of earlier tests: the tests of a module may run in two parts.
        for key in self.client.scan_iter(f"{{{PREFIX}}}:*"):
            self.client.delete(key)
        self.scene, self.readers = asyncio.run(self._fill())
        self.garbling = Garbling(self.client, PREFIX)

    def new_store(self) -> Store:
        # Slow is not wrong: a busy machine gets all the time it needs.
        loaded = settings.load(
            environ={}, url=self.url, prefix=PREFIX, budget=PATIENCE_SECONDS
        )
        return store_for(loaded)

    def concerned(self, case: Case) -> dict[str, Verb]:
        """Return the verbs that a garbled key concerns."""
        names = [*VERBS] if case.what == "gone" else self.readers.get(case.key, [])
        return {name: VERBS[name] for name in names}

    def garble(self, place: str, what: str) -> None:
        """Garble a kind of key in a way that has a name."""
        [case] = [one for one in self.garbling.cases(place) if one.what == what]
        self.garbling.garble(case)

    async def _fill(self) -> tuple[Scene, dict[bytes, list[str]]]:
        store = self.new_store()
        scene = await prepare(store, self.client, PREFIX)
        assert (await store.check()).findings == ()
        readers = await Garbling(self.client, PREFIX).readers(store, scene)
        await store.close()
        return scene, readers


@pytest.fixture(scope="module")
def filled(redis_server: RedisServer) -> Iterator[Place]:
    place = Place(redis_server)
    yield place
    place.client.close()


@pytest.fixture
async def store(filled: Place) -> AsyncIterator[Store]:
    filled.garbling.restore()
    store = filled.new_store()
    yield store
    await store.close()


def test_every_kind_of_key_is_there(filled: Place) -> None:
    filled.garbling.restore()

    found = {place_of(key) for key in filled.client.scan_iter(f"{{{PREFIX}}}:*")}

    # What is parked is a finding by itself.
    assert found == set(PLACES) - {"*:parked"}


@pytest.mark.parametrize("place", PLACES)
async def test_wrong_values_raise_store_errors_and_are_found(
    filled: Place, store: Store, place: str
) -> None:
    faults: list[str] = []
    for case in filled.garbling.cases(place):
        filled.garbling.garble(case)
        is_legal = is_harmless(case)
        if place == "meta":
            # Read once, when a store is opened.
            await store.close()
        found = await examine(store, is_legal)
        found += await call_all(store, filled.scene, filled.concerned(case), is_fit)
        faults += [f"{case.what}: {fault}" for fault in found]
        filled.garbling.restore()

    assert "\n".join(faults) == ""


def is_harmless(case: Case) -> bool:
    if case.what == "gone":
        return case.place in NEVER_THERE
    return case.what in LEGAL.get(case.place, ())


async def examine(store: Store, is_legal: bool) -> list[str]:
    try:
        report = await store.check()
    except StoreError as exc:
        return [] if is_fit(exc) else [f"the doctor raised {exc!r}"]
    except Exception as exc:
        return [f"the doctor raised {exc!r}"]
    if is_legal == (not report.findings):
        return []
    return [f"the doctor finds {report.findings or 'nothing'}"[:500]]


def is_fit(error: Exception) -> bool:
    """
    Return whether it says that something is damaged, or not as the URL has it.

    Or that a job is not as another that is added with a link to it needs it.
    """
    return isinstance(error, StoreCorrupt | StoreRefused | JobError)


#: Damage to what a worker reads all the time, and whether it must say so.
AT_WORK = [
    ("*:waiting", "type", True),
    ("*:active", "type", True),
    ("*:tries", "*=text", False),
    ("*:running", "g=text", False),
    ("*:rate", "at=nan", False),
    ("job:*", "text", False),
    ("fence", "huge", False),
    ("limits", "email=text", False),
    ("paused", "+text", False),
    ("cancelling", "*=text", False),
    ("agenda", "+binary", False),
    ("workers", "+binary", False),
]


@pytest.mark.parametrize(("place", "what", "is_logged"), AT_WORK)
async def test_a_worker_lives_and_other_types_go_on(
    filled: Place,
    store: Store,
    caplog: pytest.LogCaptureFixture,
    place: str,
    what: str,
    is_logged: bool,
) -> None:
    """R-6: damage is an error in the log, once a minute, and never silence."""
    q = Kue(filled.url, prefix=PREFIX)
    ran: list[int] = []

    @q.process("email")
    async def damaged(job: ActiveJob) -> None: ...

    @q.process("innocent")
    async def innocent(job: ActiveJob) -> None:
        ran.append(job.id)

    async with q:
        first = await q.enqueue("innocent")
        filled.garble(place, what)
        async with q.work():
            await until(lambda: first.id in ran)
            second = await q.enqueue("innocent")
            await until(lambda: second.id in ran)
            if is_logged:
                await until(lambda: bool(errors(caplog)))

    logged = errors(caplog)
    assert len(logged) == len({record.getMessage() for record in logged})
    for record in logged:
        assert isinstance(record.exc_info and record.exc_info[1], StoreCorrupt)


@pytest.fixture
def kue(
    filled: Place,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> CommandLine:
    filled.garbling.restore()
    known = settings.load(environ={}, url=filled.url, prefix=PREFIX)
    return CommandLine(Engine("redis", known), capsys, monkeypatch)


@pytest.mark.parametrize("place", PLACES)
def test_the_command_finds_damage_in_every_kind_of_key(
    filled: Place, kue: CommandLine, place: str
) -> None:
    harmful = [one for one in filled.garbling.cases(place) if not is_harmless(one)]
    filled.garbling.garble(harmful[0])

    found = kue("doctor")

    assert found.code in (1, 2)
    assert "left" in found.err or "kue doctor" in found.err


#: Damage, a command that must read it, and whether the command can do without.
READ = [
    ("types", "+binary", ("queue", "list"), False),
    ("limits", "email=text", ("queue", "limit", "email"), False),
    ("workers", "+binary", ("workers",), False),
    ("workers", "=inf", ("workers",), False),
    ("*:waiting", "type", ("queue", "list"), False),
    ("*:waiting", "type", ("job", "list"), False),
    ("*:causes", "f*eab*bf:last=text", ("failed", "list"), True),
    ("*:failed", "type", ("failed", "list"), False),
    ("ids", "huge", ("job", "list"), False),
    ("ids", "float", ("job", "add", "email"), False),
    ("ids", "negative", ("job", "add", "email"), False),
    ("*:active", "type", ("job", "show", "1"), False),
    ("job:*:log", "+text", ("job", "show", "1"), False),
    ("kept", "user:ann=binary", ("user", "list"), False),
    ("meta", "schema=text", ("queue", "list"), False),
    ("meta", "type", ("queue", "list"), False),
]


@pytest.mark.parametrize(("place", "what", "words", "is_spared"), READ)
def test_commands_report_damage(
    filled: Place,
    kue: CommandLine,
    place: str,
    what: str,
    words: tuple[str, ...],
    is_spared: bool,
) -> None:
    filled.garble(place, what)

    shown = kue(*words)

    assert shown.code == (0 if is_spared else 1)
    assert is_spared or "kue doctor" in shown.err


APP = """
import kue

q = kue.Kue({url!r}, prefix={prefix!r})

@q.process("email")
async def email(job):
    pass

@q.process("innocent")
async def innocent(job):
    print("innocent ran", flush=True)
"""


@pytest.mark.processes
async def test_real_commands_meet_damage(
    filled: Place, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APP.format(url=filled.url, prefix=PREFIX))
    await store.add([draft("innocent")], producer="p", seq=1)
    filled.garble("*:waiting", "type")
    environment = {"KUE_URL": filled.url, "KUE_PREFIX": PREFIX}

    async with command("worker", "app:q", folder=tmp_path) as worker:
        await worker.says("innocent ran")
        await worker.says("kue doctor")
        assert await worker.end() == 0
    async with command("doctor", folder=tmp_path, **environment) as doctor:
        assert await doctor.ended() == 1

    assert "must be a zset" in doctor.said
    assert "Traceback" not in doctor.said
