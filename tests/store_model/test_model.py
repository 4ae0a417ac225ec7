"""
Every engine does what the model does, whatever is said to it in whatever order.

``make explore`` looks harder, with ``EXAMPLES=2000`` harder still; with
``KUE_MODEL_SHRINK=no`` a failure is shown as it was found.
"""

from __future__ import annotations

import dataclasses
import os
import sqlite3
from collections.abc import Hashable
from contextlib import closing
from pathlib import Path

import hypothesis
import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from kue.store.contract import Store
from kue.store.redis.keys import root_of
from kue.store.redis.wire import client as link
from tests.store_model.guided import GuidedMachine
from tests.support.engines import Engine, engine_at
from tests.support.exploring import seed
from tests.support.servers import RedisServer

EXAMPLES = int(os.environ.get("KUE_MODEL_EXAMPLES", "80"))
#: Each part looks at as many examples of its own, so that processes share the work.
PARTS = range(1, 5)
#: Redis compares the ids of jobs of the same rank as text, so that "10" is before "9":
#: where ranks are the same for many jobs, ids begin after this one.
SKIPPED = 1000
#: Nightly runs and the search for a small example take far longer than a test may.
PATIENCE_SECONDS = 3600

#: Whether a failure is kept, made small and tried again, or shown as it was found.
IS_SHRUNK = os.environ.get("KUE_MODEL_SHRINK") != "no"
FOUND = (Phase.explicit, Phase.generate)
KEPT = (*FOUND, Phase.reuse, Phase.shrink)

SETTINGS = settings(
    max_examples=-(-EXAMPLES // len(PARTS)),
    stateful_step_count=40,
    deadline=None,
    print_blob=True,
    report_multiple_bugs=False,
    # Each step is a dozen calls to a real store.
    suppress_health_check=[HealthCheck.too_slow],
    phases=KEPT if IS_SHRUNK else FOUND,
)


def explore(machine: type[GuidedMachine], part: int) -> None:
    """Run *machine* through examples that no other part has."""
    # Without a seed of its own each part would begin at that of the whole test run.
    run_state_machine_as_test(hypothesis.seed(seed(part))(machine), settings=SETTINGS)


def patient(engine: Engine) -> Engine:
    """Return the engine with all the time in the world: slow is not wrong."""
    budget = PATIENCE_SECONDS * 1000
    settings = msgspec.structs.replace(engine.settings, budget=budget)
    return dataclasses.replace(engine, settings=settings)


@pytest.mark.long
@pytest.mark.timeout(PATIENCE_SECONDS)
@pytest.mark.parametrize("part", PARTS)
def test_sqlite_does_what_the_model_does(part: int, tmp_path: Path) -> None:
    examples = 0

    class SqliteMachine(GuidedMachine):
        def make_store(self) -> Store:
            nonlocal examples
            examples += 1
            self._path = tmp_path / f"{examples}.db"
            engine = engine_at("sqlite", f"sqlite:///{self._path}")
            return patient(engine).new_store()

        def digest(self) -> Hashable:
            with closing(sqlite3.connect(self._path)) as file:
                return tuple(file.iterdump())

        def teardown(self) -> None:
            super().teardown()
            for path in tmp_path.glob(f"{self._path.name}*"):
                path.unlink()

    explore(SqliteMachine, part)


@pytest.mark.long
@pytest.mark.timeout(PATIENCE_SECONDS)
@pytest.mark.parametrize("part", PARTS)
def test_redis_does_what_the_model_does(
    part: int, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A call that is sent again because the machine is busy may answer otherwise: a job
    # that the first one removed is gone by the second.
    monkeypatch.setattr(link, "COMMAND_TIMEOUT_SECONDS", PATIENCE_SECONDS)
    with closing(redis_server.client()) as client:

        class RedisMachine(GuidedMachine):
            engine: Engine

            def make_store(self) -> Store:
                self.engine = patient(engine_at("redis", redis_server.url))
                return self.engine.new_store()

            def skip_ids(self) -> int:
                self.both.ask(self.both.store.open())
                root = root_of(self.engine.settings.prefix, 0, 1)
                client.set(f"{root}:ids", SKIPPED)
                return SKIPPED

            def keys(self) -> list[bytes]:
                prefix = self.engine.settings.prefix
                return sorted(client.scan_iter(f"*{prefix}*", 1000))

            def digest(self) -> Hashable:
                return tuple((key, client.dump(key)) for key in self.keys())

            def forget_scripts(self) -> None:
                client.script_flush()

            def teardown(self) -> None:
                super().teardown()
                client.unlink("", *self.keys())

        explore(RedisMachine, part)
