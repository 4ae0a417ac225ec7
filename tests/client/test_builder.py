"""Making jobs: the builder's verbs, and what is refused before anything is stored."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import kue
from kue import BadPayload, ConfigError, JobBuilder, JobError, Kue
from kue.model.backoff import Exponential
from kue.model.settings import Settings
from tests.support.flaky import Wire


def test_making_a_queue_touches_nothing(tmp_path: Path) -> None:
    Kue(f"sqlite:///{tmp_path / 'kue.db'}")

    assert list(tmp_path.iterdir()) == []


def test_a_queue_is_made_where_no_server_listens() -> None:
    q = Kue("redis://127.0.0.1:1/0")

    assert "127.0.0.1:1" in repr(q)


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(ConfigError, match="unknown setting 'colour'"):
        Kue("memory://", colour="red")


def test_a_url_that_names_no_engine_is_refused_with_examples() -> None:
    with pytest.raises(ConfigError, match=r"sqlite:///kue\.db, memory://, redis://"):
        Kue("postgres://localhost/jobs")


async def test_two_queues_in_one_process_keep_their_jobs_apart(tmp_path: Path) -> None:
    async with (
        Kue(f"sqlite:///{tmp_path / 'one.db'}") as one,
        Kue(f"sqlite:///{tmp_path / 'two.db'}") as two,
    ):
        await one.enqueue("email")

        assert await one.inactive_count() == 1
        assert await two.inactive_count() == 0


async def test_every_verb_of_the_builder_reaches_the_job(q: Kue) -> None:
    parent = await q.enqueue("import")

    saved = (
        await q.create_job("email", {"to": "a@b.c"})
        .priority("high")
        .delay("10m")
        .attempts(3)
        .backoff(kue.exponential("1s", max="1m"))
        .ttl("5s")
        .timeout("30s")
        .expires("1d")
        .remove_on_complete()
        .unique("a@b.c", for_="1h")
        .group("b.c")
        .tags("mail", "urgent")
        .parent(parent)
        .after(parent, any_end=True)
        .retention("2h")
        .delivery("at-most-once")
        .meta({"trace": "7"})
        .save()
    )

    job = await saved.refresh()
    assert (job.type, job.data, job.priority) == ("email", {"to": "a@b.c"}, -10)
    assert (job.spec.delay, job.max_attempts) == (600_000, 3)
    assert job.spec.backoff == Exponential(1000, 60_000)
    assert (job.ttl, job.spec.timeout, job.expires) == (5_000, 30_000, 86_400_000)
    assert job.spec.remove_on_complete
    assert (job.unique, job.unique_for, job.group) == ("a@b.c", 3_600_000, "b.c")
    assert job.tags == ("mail", "urgent")
    assert (job.spec.parent, job.spec.after) == (parent.id, (parent.id,))
    assert job.after_any
    assert (job.spec.retention, job.once) == (7_200_000, True)
    assert job.spec.meta == {"trace": "7"}


async def test_a_job_can_be_due_at_a_moment(q: Kue) -> None:
    moment = datetime.now(UTC) + timedelta(hours=1)

    by_delay = await q.create_job("email").delay(moment).save()
    by_at = await q.create_job("email").at(moment).save()

    due = int(moment.timestamp() * 1000)
    assert (await by_delay.refresh()).promote_at == due
    assert (await by_at.refresh()).promote_at == due


async def test_create_is_another_name_for_create_job(q: Kue) -> None:
    handle = await q.create("learn vertx", {"title": "hi"}).save()

    assert (await handle.refresh()).type == "learn vertx"


async def test_data_is_taken_as_it_is_when_the_job_is_begun(q: Kue) -> None:
    data = {"to": "a@b.c"}
    builder = q.create_job("email", data)

    data["to"] = "someone else"

    assert (await (await builder.save()).refresh()).data == {"to": "a@b.c"}


REFUSED: list[tuple[Callable[[JobBuilder], JobBuilder], str]] = [
    (lambda job: job.delay(-1), "delay must not be negative"),
    (lambda job: job.delay(datetime(2030, 1, 1)), "delay needs a datetime with"),  # noqa: DTZ001 - is the point
    (lambda job: job.priority("huge"), "priority 'huge' is unknown"),  # type: ignore[arg-type]
    (lambda job: job.priority(5000), "priority must be from -1024 to 1023"),
    (lambda job: job.attempts(0), "attempts must be from 1"),
    (lambda job: job.ttl(0), "ttl must be more than 0"),
    (lambda job: job.timeout("soon"), "timeout 'soon' cannot be read"),
    (lambda job: job.expires(-1), "expires must not be negative"),
    (lambda job: job.unique(""), "unique key must have 1 to 200 bytes"),
    (lambda job: job.parent(-3), "parent must be a job or its id"),
    (lambda job: job.delivery("twice"), "delivery is"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("verb", "message"), REFUSED)
def test_a_bad_option_is_refused_at_once_and_named(
    verb: Callable[[JobBuilder], JobBuilder], message: str
) -> None:
    builder = Kue("memory://").create_job("email")

    with pytest.raises((ValueError, TypeError), match=message):
        verb(builder)


def test_a_refused_option_leaves_the_builder_as_it_was() -> None:
    builder = Kue("memory://").create_job("email").priority("high")
    before = builder.draft

    with pytest.raises(ValueError, match="negative"):
        builder.delay(-1)

    assert builder.draft == before


def test_delay_and_at_together_are_refused() -> None:
    builder = Kue("memory://").create_job("email").delay("1m")

    with pytest.raises(ValueError, match="give delay or at, not both"):
        builder.at(datetime.now(UTC))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("x" * 300_000, "data: is 300,002 bytes of JSON"),
        ({"when": object()}, "data.when: cannot be written as JSON"),
        ({"ratio": float("nan")}, "data.ratio: is nan"),
    ],
)
def test_data_that_cannot_be_stored_is_refused_at_once(data: Any, message: str) -> None:
    with pytest.raises(BadPayload, match=message):
        Kue("memory://").create_job("email", data)


def test_the_limit_on_data_is_a_setting() -> None:
    with pytest.raises(BadPayload, match="the limit is 10"):
        Kue("memory://", max_data=10).create_job("email", "more than ten")


async def test_saving_a_saved_job_updates_it(q: Kue, wire: Wire) -> None:
    builder = q.create_job("email").meta({"trace": "7"})
    handle = await builder.save()
    builder.priority("high").attempts(3).tags("a").meta({"user": "ann"})

    again = await builder.save()
    await builder.save()

    job = await handle.refresh()
    assert (again.id, job.priority, job.max_attempts) == (handle.id, -10, 3)
    assert (job.tags, job.spec.meta) == (("a",), {"trace": "7", "user": "ann"})
    assert (wire.times("update"), await q.inactive_count()) == (1, 1)


async def test_what_a_saved_job_cannot_change_is_refused_with_advice(q: Kue) -> None:
    builder = q.create_job("email")
    handle = await builder.save()

    with pytest.raises(JobError, match=rf"saved as job {handle.id}, and its delay .*"):
        builder.delay("1m")
    with pytest.raises(JobError, match="begin another with create_job"):
        builder.unique("k")


async def test_a_builder_that_could_not_be_saved_can_be_saved_later(
    q: Kue, wire: Wire
) -> None:
    builder = q.create_job("email")
    wire.is_cut = True
    with pytest.raises(kue.StoreUnavailable):
        await builder.save()

    wire.is_cut = False
    await builder.save()

    assert await q.inactive_count() == 1


async def test_a_second_job_with_a_unique_key_answers_with_the_first(q: Kue) -> None:
    first = await q.create_job("email").unique("a@b.c").save()

    second = await q.enqueue("email", unique="a@b.c")

    assert first.is_new
    assert (second.id, second.is_new) == (first.id, False)


async def test_a_durable_job_is_asked_for_as_such(q: Kue, wire: Wire) -> None:
    await q.enqueue("email")
    assert wire.last("add")["durable"] is False

    # Without replicas Redis cannot confirm, and says so; a file confirms by itself.
    with contextlib.suppress(kue.DurabilityUnknown):
        await q.create_job("email").save(durable=True)

    assert wire.last("add")["durable"] is True


def test_settings_are_those_given() -> None:
    q = Kue("memory://", lease="3s")

    assert q.settings == Settings(url="memory://", lease=3_000)
