"""
Any wrong value in any key of a Redis store is an error of the store, and is found.

For every kind of key and every kind of wrong value (R-6): each verb works or raises
`StoreError`, and the doctor finds what no verb can have written.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kue import settings
from kue.errors import StoreError, StoreUnavailable
from kue.store import store_for
from tests.faults.garbling_keys import PLACES, VERBS, Garbling, place_of, prepare

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from kue.store.base import Store
    from tests.faults.garbling_keys import Case
    from tests.faults.scene import Scene
    from tests.support.servers import RedisServer

pytestmark = pytest.mark.damages

PREFIX = "garbage"
#: What is gone without a trace: it may as well never have been there.
NEVER_THERE = {
    "*:lapse",  # an add finds that the key's time is over
    "*:progress",
    "*:rate",  # begins again
    "*:tries",  # so does a job that was restarted
    "*:wake",
    "acts",
    "cancelling",
    "claims:*",
    "hours:*",
    "info",
    "job:*:log",
    "listeners",
    "meta",  # written again by the next opening; workers that run notice
    "orders",
    "outbox",
    "paused",
    "producers:*",
    "refusals",
    "search",
    "stacks",
    "stats:*",
    "watched",
}
_TEXT = ("empty", "text", "object", "negative", "float", "huge", "nan", "binary", "nul")
#: Wrong values that look right, or do not matter.
LEGAL = {
    "agenda": {"=0.5"},  # as types without jobs have it
    "info": {"w*=object"},
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
        self.scene, self.readers = asyncio.run(self._fill())
        self.garbling = Garbling(self.client, PREFIX)

    def new_store(self) -> Store:
        return store_for(settings.load(environ={}, url=self.url, prefix=PREFIX))

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
        told = await examine(store, is_legal)
        told += await call_all(store, filled, case)
        faults += [f"{case.what}: {fault}" for fault in told]
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


async def call_all(store: Store, filled: Place, case: Case) -> list[str]:
    """Call every verb that the key concerns; together, as a busy process does."""
    names = [*VERBS] if case.what == "gone" else filled.readers.get(case.key, [])
    answers = await asyncio.gather(
        *(VERBS[name](store, filled.scene) for name in names), return_exceptions=True
    )
    return [
        f"{name} raised {answer!r}"
        for name, answer in zip(names, answers, strict=True)
        if isinstance(answer, Exception) and not is_fit(answer)
    ]


def is_fit(error: Exception) -> bool:
    """Return whether it is an error of the store that does not look like an outage."""
    return isinstance(error, StoreError) and not isinstance(error, StoreUnavailable)
