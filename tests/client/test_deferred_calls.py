"""Jobs that wait for a commit, or for a response to be sent, with real frameworks."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import django
import pytest
from django.conf import settings as django_settings
from django.db import connections, transaction
from django.http import HttpResponse
from fastapi import BackgroundTasks, FastAPI
from httpx import ASGITransport, AsyncClient
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from kue import DuplicateJob, Kue, Task


@pytest.fixture
def q() -> Iterator[Kue]:
    q = Kue("memory://")
    yield q
    q.sync.close()


@pytest.fixture
def send(q: Kue) -> Task[[int], None, None]:
    @q.task
    def send(number: int) -> None: ...

    return send


@pytest.fixture
def session() -> Iterator[Session]:
    engine = create_engine("sqlite://")
    with Session(engine) as session:
        yield session
    engine.dispose()


def added(q: Kue) -> list[Any]:
    return [job.data["number"] for job in q.sync.page("waiting", "send").jobs]


# -- SQLAlchemy ----------------------------------------------------------------


def test_a_job_is_added_when_the_session_is_committed(
    q: Kue, send: Task[[int], None, None], session: Session
) -> None:
    session.execute(text("create table t (n)"))
    send.after_commit(session).delay(1)
    send.options(priority="high").after_commit(session).delay(2)

    assert added(q) == []
    session.commit()
    assert added(q) == [2, 1]
    session.execute(text("select 1"))
    session.commit()
    assert added(q) == [2, 1]


@pytest.mark.parametrize("end", [Session.rollback, Session.close])
def test_a_job_of_a_session_that_is_not_committed_is_discarded(
    q: Kue,
    send: Task[[int], None, None],
    session: Session,
    end: Callable[[Session], None],
) -> None:
    session.execute(text("select 1"))
    send.after_commit(session).delay(1)

    end(session)
    session.execute(text("select 1"))
    session.commit()

    assert added(q) == []


def test_a_job_is_discarded_with_its_savepoint_and_kept_with_the_others(
    q: Kue, send: Task[[int], None, None], session: Session
) -> None:
    session.execute(text("select 1"))
    send.after_commit(session).delay(1)
    with session.begin_nested():
        send.after_commit(session).delay(2)
    lost = session.begin_nested()
    send.after_commit(session).delay(3)
    with session.begin_nested():
        send.after_commit(session).delay(4)
    lost.rollback()

    assert added(q) == []
    session.commit()
    assert added(q) == [1, 2]


def test_without_a_transaction_a_job_is_added_at_once(
    q: Kue, send: Task[[int], None, None], session: Session
) -> None:
    send.after_commit(session).delay(1)

    assert added(q) == [1]


def test_a_job_that_is_refused_after_the_commit_keeps_no_other_from_being_added(
    q: Kue, session: Session
) -> None:
    @q.task(unique="key", on_conflict="reject")
    def once(number: int) -> None: ...

    @q.task
    def send(number: int) -> None: ...

    once.delay(1)
    session.execute(text("select 1"))
    once.after_commit(session).delay(2)
    send.after_commit(session).delay(3)
    with pytest.raises(DuplicateJob):
        session.commit()

    assert added(q) == [3]
    session.rollback()
    session.execute(text("select 1"))
    session.commit()
    assert added(q) == [3]


def test_a_scoped_session_is_the_session_of_the_thread(
    q: Kue, send: Task[[int], None, None]
) -> None:
    scoped = scoped_session(sessionmaker(create_engine("sqlite://")))
    scoped.execute(text("select 1"))
    send.after_commit(scoped).delay(1)

    scoped.commit()

    assert added(q) == [1]
    scoped.remove()


async def test_an_async_session_adds_the_job_in_the_background() -> None:
    engine = create_engine("sqlite://")
    session = AsyncSession()
    session.sync_session.bind = engine
    async with Kue("memory://") as q:

        @q.task
        async def send(number: int) -> None: ...

        # What the methods of an async session call; a driver for asyncio is not needed.
        session.sync_session.execute(text("select 1"))
        send.after_commit(session).delay(1)
        session.sync_session.commit()
        await q._connection.deferred.finish()

        [job] = (await q.page("waiting", "send")).jobs
        assert job.data == {"number": 1}
    session.sync_session.close()
    engine.dispose()


# -- anything that has on_commit -----------------------------------------------


def test_any_transaction_that_calls_back_will_do(
    q: Kue, send: Task[[int], None, None]
) -> None:
    calls: list[Callable[[], None]] = []
    database = sqlite3.connect(":memory:")
    send.after_commit(SimpleNamespace(on_commit=calls.append)).delay(1)

    database.execute("create table t (n)")
    database.commit()
    for call in calls:
        call()

    assert added(q) == [1]
    database.close()


def test_what_cannot_be_committed_is_refused(send: Task[[int], None, None]) -> None:
    with pytest.raises(TypeError, match="takes a session of SQLAlchemy, the name of"):
        send.after_commit(object())
    with pytest.raises(TypeError, match="takes the BackgroundTasks of Starlette or"):
        send.after_response(object())


def test_arguments_are_checked_when_the_call_is_made(
    send: Task[[int], None, None], session: Session
) -> None:
    with pytest.raises(TypeError, match="missing a required argument"):
        send.after_commit(session).delay()  # type: ignore[call-arg]


# -- Django --------------------------------------------------------------------


@pytest.fixture
def _django() -> Iterator[None]:
    if not django_settings.configured:
        database = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
        django_settings.configure(DATABASES={"default": database})
        django.setup()
    yield
    connections.close_all()


@pytest.mark.usefixtures("_django")
def test_a_job_is_added_when_the_transaction_of_django_is_committed(
    q: Kue, send: Task[[int], None, None]
) -> None:
    def fail() -> None:
        with transaction.atomic():
            send.after_commit("default").delay(2)
            raise ZeroDivisionError

    with transaction.atomic():
        send.after_commit().delay(1)
        with pytest.raises(ZeroDivisionError):
            fail()
        assert added(q) == []

    assert added(q) == [1]


@pytest.mark.usefixtures("_django")
def test_a_job_is_added_when_the_response_of_django_was_sent(
    q: Kue, send: Task[[int], None, None]
) -> None:
    response = HttpResponse("thanks")
    send.after_response(response).delay(1)

    send.after_response(response).delay(2)

    assert added(q) == []
    response.close()
    assert added(q) == [1, 2]
    response.close()
    assert added(q) == [1, 2]


# -- Starlette and FastAPI -----------------------------------------------------


async def test_a_job_is_added_when_the_response_of_fastapi_was_sent() -> None:
    app, q = FastAPI(), Kue("memory://")
    seen: list[int] = []

    @q.task
    async def send(number: int) -> None: ...

    @app.post("/orders/{number}")
    async def order(number: int, background: BackgroundTasks) -> str:
        send.after_response(background).delay(number)
        seen.append(sum((await q.counts()).values()))
        return "thanks"

    client = AsyncClient(transport=ASGITransport(app), base_url="http://testserver")
    async with q, client:
        assert (await client.post("/orders/7")).json() == "thanks"
        await q._connection.deferred.finish()

        assert seen == [0]
        [job] = (await q.page("waiting", "send")).jobs
        assert job.data == {"number": 7}
