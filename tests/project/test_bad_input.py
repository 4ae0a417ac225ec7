"""
What a user gets wrong first, and whether the answer helps.

Each message must name the thing, show what was given and say what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kue.client.queries import state_of
from kue.client.subscriptions import kind_of
from kue.model import backoff, settings
from kue.model.draft import draft
from kue.store import store_for
from kue.store.contract import Store
from kue.worker import Worker


def store(url: str) -> Store:
    return store_for(settings.load({}, url=url))


MISTAKES: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "a URL of another database": (
        lambda: store("postgres://localhost/jobs"),
        ["'postgres://localhost/jobs'", "sqlite:///kue.db", "redis://localhost:6379/0"],
    ),
    "a URL without a scheme": (
        lambda: store("localhost:6379"),
        ["'localhost:6379'", "redis://localhost:6379/0"],
    ),
    "a file with two slashes": (
        lambda: store("sqlite://kue.db"),
        ["'sqlite://kue.db'", "sqlite:///kue.db", "sqlite:////var/lib/kue.db"],
    ),
    "a port that is none": (
        lambda: store("redis://localhost:http"),
        ["'http' is not a port"],
    ),
    "an option that a Redis URL does not have": (
        lambda: store("redis://localhost?timeout=5"),
        ["'timeout'", "it has shards, db"],
    ),
    "too many shards": (
        lambda: store("redis+cluster://localhost?shards=100000"),
        ["shards", "1 to 1024", "'100000'"],
    ),
    "several hosts without a cluster": (
        lambda: store("redis://one,two"),
        ["several hosts", "redis+sentinel://", "redis+cluster://"],
    ),
    "Sentinels without a service": (
        lambda: store("redis+sentinel://one,two"),
        ["name of the master", "redis+sentinel://host1,host2/mymaster"],
    ),
    "an unknown state": (
        lambda: state_of("sleeping"),
        ["'sleeping'", "waiting, active, delayed", "inactive"],
    ),
    "an unknown event": (
        lambda: kind_of("job_done", prefix="job_"),
        ["'job_done'", "job_complete"],
    ),
    "nothing to work on": (
        lambda: Worker(store("memory://"), [], settings.Settings()),
        ["nothing to work on", "q.process(type, n, handler)"],
    ),
    "a negative delay": (
        lambda: draft("email", delay=-5),
        ["delay", "-5", "leave it out or give 0"],
    ),
    "a payload too large": (
        lambda: draft("email", "x" * 300_000),
        ["data", "300,002 bytes", "262,144", "put a reference into the job"],
    ),
    "a payload that is not JSON": (
        lambda: draft("email", {"when": [object()]}),
        ["data.when[0]", "cannot be written as JSON"],
    ),
    "a type without a name": (
        lambda: draft(""),
        ["type", "1 to 200 bytes", "has 0"],
    ),
    "an unknown priority": (
        lambda: draft("email", priority="urgent"),  # type: ignore[arg-type]
        ["'urgent'", "critical, high, medium, normal and low", "-1024 to 1023"],
    ),
    "a delay in words": (
        lambda: draft("email", delay="ten minutes"),
        ["delay", "'ten minutes'", '"10m"'],
    ),
    "no attempt at all": (
        lambda: draft("email", attempts=0),
        ["attempts", "from 1 to", "not 0"],
    ),
    "a strategy nobody registered": (
        lambda: backoff.delay_ms(backoff.named("mine"), 1),
        ["'mine'", "kue.model.backoff.register('mine', …)"],
    ),
    "an unknown setting": (
        lambda: settings.load({}, lease_time=5),
        ["'lease_time'", "there are url, prefix, lease"],
    ),
    "a variable that cannot be read": (
        lambda: settings.load({"KUE_LEASE": "ten"}),
        ["KUE_LEASE", "'ten'", '"10m"'],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_with_what_to_do(mistake: str) -> None:
    make, expected = MISTAKES[mistake]

    with pytest.raises((ValueError, TypeError)) as caught:
        make()

    message = str(caught.value)
    for part in expected:
        assert part in message
    assert message[-1] not in ".!"


def test_a_password_is_never_shown() -> None:
    with pytest.raises(ValueError, match=r"names no store") as caught:
        store("mysql://admin:hunter2@db.internal/jobs")

    assert "hunter2" not in str(caught.value)
    assert "mysql://…@db.internal/jobs" in str(caught.value)
