"""Streams of events over the network: who hears what, and what happens when not."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.routing import Mount

from kue import Kue
from kue.http import create_app
from kue.http.auth import Role
from kue.http.auth.access import Anyone, Guard, User
from kue.http.framework.api import Api
from kue.http.framework.problem import UNAVAILABLE
from kue.http.streaming.broadcast import EventBroadcast
from kue.http.streaming.client_buffer import BufferLimits
from kue.http.v1.events import routes, section
from kue.model.errors import StoreUnavailable
from kue.model.job import Completed, Ending, Failed
from tests.http.conftest import HOST, serving
from tests.http.test_live import Watches
from tests.support.jobs import OOPS, claim_one, end
from tests.support.patience import PATIENCE_SECONDS, until
from tests.support.servers import RedisServer

#: What comes before the store is the same on all.
on_any_store = pytest.mark.parametrize("url", ["memory://"])

PATH = "/api/v1/events"
#: What another process does.
ADD = """
import asyncio, sys, kue

async def add():
    async with kue.Kue(sys.argv[1]) as q:
        print((await q.enqueue("email", {"to": "ann"})).id)

asyncio.run(add())
"""


class Nobody:
    """A guard that knows nobody."""

    async def who(self, connection: HTTPConnection) -> User | None:
        return None


class Adrift:
    """A guard that would have to ask a store which is away."""

    async def who(self, connection: HTTPConnection) -> User | None:
        raise StoreUnavailable("nobody can tell")


class Fickle:
    """A guard that lets everyone in until it does not."""

    def __init__(self) -> None:
        self.answer: User | StoreUnavailable | None = User("ann", Role.VIEWER)
        self.asked = 0

    async def who(self, connection: HTTPConnection) -> User | None:
        self.asked += 1
        if isinstance(self.answer, StoreUnavailable):
            raise self.answer
        return self.answer


@dataclass
class Heard:
    """One message of a stream."""

    event: str
    id: str
    told: dict[str, Any]


class Ear:
    """A client of a stream, as bare as can be."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader = reader
        self._writer = writer
        self.status = 0
        self.headers: dict[str, str] = {}
        self.retry = ""
        self.comments = 0

    async def ask(self, path: str, headers: dict[str, str]) -> None:
        """Send the request and read the head of the answer."""
        # HTTP/1.0, for an answer that is not cut into chunks.
        lines = [f"GET {path} HTTP/1.0", f"Host: {HOST}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write("\r\n".join([*lines, "", ""]).encode())
        self.status = int((await self._line()).split()[1])
        while line := await self._line():
            name, _, value = line.partition(": ")
            self.headers[name] = value

    async def next(self) -> Heard:
        """Return the next message; comments are counted."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                line = await self._line()
                if not line and "data" in fields:
                    told = json.loads(fields.pop("data"))
                    return Heard(fields.get("event", ""), fields.get("id", ""), told)
                name, _, value = line.partition(":")
                if name == "retry":
                    self.retry = value.strip()
                elif line and not name:
                    self.comments += 1
                elif line:
                    fields[name] = value.strip()

    async def up(self) -> str:
        """Read that the store is up; return from which number on all is heard."""
        heard = await self.next()
        assert (heard.event, heard.told["detail"]) == ("store", {"state": "up"})
        return heard.id

    async def end(self) -> None:
        """Read to the end, which must come."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._reader.read()

    async def close(self) -> None:
        self._writer.close()

    async def _line(self) -> str:
        line = await self._reader.readline()
        if not line:
            raise EOFError("the stream ended")
        return line.decode().rstrip("\r\n")


class Server:
    """A server of events."""

    def __init__(self, address: str, app: Starlette) -> None:
        self.address = address
        self.app = app
        self.live: EventBroadcast = app.state.live

    @asynccontextmanager
    async def ear(
        self,
        *,
        last_id: str = "",
        headers: dict[str, str] | None = None,
        window: int | None = None,
        path: str = PATH,
        **query: object,
    ) -> AsyncIterator[Ear]:
        """Open a stream; a small *window* makes it one that takes little."""
        link = socket.socket()
        if window is not None:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        link.connect((HOST, int(self.address.rpartition(":")[2])))
        limit = 1024 * 1024
        reader, writer = await asyncio.open_connection(sock=link, limit=limit)
        ear = Ear(reader, writer)
        given = {"Last-Event-ID": last_id} if last_id else {}
        try:
            await ear.ask(f"{path}?{urlencode(query)}", {**given, **(headers or {})})
            yield ear
        finally:
            await ear.close()

    async def get(self, method: str = "GET", **query: str) -> httpx.Response:
        """Return an answer that ends."""
        async with httpx.AsyncClient(verify=False) as client:
            return await client.request(method, self.address + PATH, params=query)


def app_of(
    q: Kue, *, guard: Guard | None = None, bounds: BufferLimits | None = None
) -> Starlette:
    guard = guard or Anyone()
    live = EventBroadcast(q, bounds)
    app = create_app(q, guard=guard, hosts=["kue.example"])
    app.state.live = live
    paths = [*Api(q, guard).routes([section]), *routes(guard, live)]
    app.router.routes.insert(0, Mount("/api/v1", routes=paths))
    return app


@asynccontextmanager
async def server_of(
    q: Kue, *, guard: Guard | None = None, bounds: BufferLimits | None = None
) -> AsyncIterator[Server]:
    app = app_of(q, guard=guard, bounds=bounds)
    async with serving(app) as address:
        server = Server(address, app)
        try:
            yield server
        finally:
            # The server waits for streams to end before it does.
            await server.live.close()


@pytest.fixture
async def server(q: Kue) -> AsyncIterator[Server]:
    async with server_of(q) as server:
        yield server


# -- what is told ------------------------------------------------------------


async def test_a_job_that_another_process_adds_is_heard(
    server: Server, url: str
) -> None:
    async with server.ear() as ear:
        place = await ear.up()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", ADD, url), stdout=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()

        heard = await ear.next()

    assert heard.event == ""
    epoch = place.partition("-")[0]
    assert heard.told == {
        "id": f"{epoch}-1",
        "kind": "enqueue",
        "job_id": int(said),
        "type": "email",
        "at": heard.told["at"],
        "attempt": 0,
        "detail": {"state": "waiting"},
    }
    assert heard.id == heard.told["id"]


async def test_neither_data_nor_results_nor_tokens_are_told(
    server: Server, q: Kue
) -> None:
    async with server.ear() as ear:
        await ear.up()
        await q.enqueue_many("email", [{"to": "a secret"}] * 2)
        now = await q.now()
        endings: tuple[Ending, ...] = (Completed({"of": "a secret"}), Failed(OOPS))
        jobs = [await claim_one(q.store, now=now) for _ in endings]
        for job, ending in zip(jobs, endings, strict=True):
            await end(q.store, job, ending, now=now)

        heard = [(await ear.next()).told for _ in range(6)]

    assert [one["kind"] for one in heard] == [
        *("enqueue", "enqueue", "start", "start", "complete", "failed")
    ]
    assert [one["detail"] for one in heard[4:]] == [
        {},
        {"kind": "ValueError", "message": "oops"},
    ]
    text = json.dumps(heard)
    assert "a secret" not in text
    assert not any(job.token and job.token in text for job in jobs)


async def test_a_stream_is_neither_kept_nor_packed_nor_held_back(
    server: Server,
) -> None:
    async with server.ear(headers={"Accept-Encoding": "gzip"}) as ear:
        await ear.up()

    assert ear.status == 200
    assert ear.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert ear.headers["cache-control"] == "no-store"
    assert ear.headers["x-accel-buffering"] == "no"
    assert ear.headers["x-content-type-options"] == "nosniff"
    assert not ear.headers.keys() & {"content-encoding", "content-length"}
    assert ear.retry == "1000"


async def test_filters_are_lists_and_all_must_fit(server: Server, q: Kue) -> None:
    async with server.ear(types="email,report", kinds="cancelled") as ear:
        await ear.up()
        for type in ("email", "video", "report"):
            await (await q.enqueue(type)).cancel("no")

        heard = [await ear.next() for _ in range(2)]

    assert [one.told["type"] for one in heard] == ["email", "report"]


async def test_a_stream_of_one_job_tells_of_that_job(server: Server, q: Kue) -> None:
    job = await q.enqueue("email")
    async with server.ear(job_id=job.id) as ear:
        await ear.up()
        await q.enqueue("email")
        await job.cancel("no")

        heard = await ear.next()

    assert (heard.told["kind"], heard.told["job_id"]) == ("cancelled", job.id)


async def test_silence_is_broken_by_comments(q: Kue) -> None:
    async with (
        server_of(q, bounds=BufferLimits(keep_alive=0.01)) as server,
        server.ear() as ear,
        server.ear(types="other") as other,
    ):
        await ear.up()
        await other.up()
        reading = asyncio.create_task(ear.next())
        await until(lambda: ear.comments > 2)
        await q.enqueue("email")

        assert (await reading).told["kind"] == "enqueue"


async def test_a_stream_ends_when_its_client_may_no_longer_listen(q: Kue) -> None:
    guard = Fickle()
    async with (
        server_of(q, guard=guard, bounds=BufferLimits(recheck=0.01)) as server,
        server.ear() as ear,
    ):
        await ear.up()
        guard.answer = None

        await ear.end()


async def test_a_stream_goes_on_while_nobody_can_tell_who_listens(q: Kue) -> None:
    guard = Fickle()
    async with (
        server_of(q, guard=guard, bounds=BufferLimits(recheck=0.01)) as server,
        server.ear() as ear,
    ):
        await ear.up()
        guard.answer, guard.asked = StoreUnavailable("away"), 0
        await until(lambda: guard.asked > 2)
        await q.enqueue("email")

        assert (await ear.next()).told["kind"] == "enqueue"


async def test_a_question_for_the_head_opens_no_stream(
    server: Server, q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    watches = Watches(q.store, monkeypatch)

    answer = await server.get("HEAD")

    assert watches.begun == 0
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")


# -- coming back -------------------------------------------------------------


@pytest.mark.parametrize("by", ["header", "query"])
async def test_coming_back_misses_nothing_and_repeats_nothing(
    server: Server, q: Kue, by: str
) -> None:
    async with server.ear() as ear:
        await ear.up()
        jobs = [job.id for job in await q.enqueue_many("email", range(30))]
        heard = [await ear.next() for _ in range(10)]
    jobs += [job.id for job in await q.enqueue_many("email", range(30))]
    last = heard[-1].id

    given: dict[str, Any] = (
        {"last_id": last} if by == "header" else {"last_event_id": last}
    )
    async with server.ear(**given) as ear:
        await ear.up()
        jobs.append((await q.enqueue("email")).id)
        heard += [await ear.next() for _ in range(51)]

    assert [one.told["job_id"] for one in heard] == jobs


async def test_coming_back_to_another_life_of_the_server_is_a_lag(
    server: Server, q: Kue
) -> None:
    async with server.ear() as ear:
        place = await ear.up()
    async with server_of(q) as another, another.ear(last_id=place) as ear:
        heard = [await ear.next(), await ear.next()]

    assert [one.event for one in heard] == ["store", "lagged"]


# -- many, and slow ones -----------------------------------------------------


async def test_two_hundred_streams_are_one_subscription(
    q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    watches = Watches(q.store, monkeypatch)
    async with server_of(q, bounds=BufferLimits(linger=0)) as server:
        async with AsyncExitStack() as stack:
            ears = [await stack.enter_async_context(server.ear()) for _ in range(200)]
            for ear in ears:
                await ear.up()
            job = await q.enqueue("email")
            for ear in ears:
                assert (await ear.next()).told["job_id"] == job.id
            assert (watches.begun, watches.open) == (1, 1)

        await until(lambda: watches.open == 0)
        assert watches.begun == 1


async def test_a_client_that_reads_nothing_lags_while_another_hears_all(
    q: Kue,
) -> None:
    # Enough for whatever the two ends of a connection may hold.
    count, ballast = 400, "x" * 30_000
    job = await q.enqueue("email")
    await claim_one(q.store, now=await q.now())
    async with (
        server_of(q, bounds=BufferLimits(buffer=20, pause=0)) as server,
        server.ear(window=4096) as slow,
        server.ear() as quick,
    ):
        await slow.up()
        await quick.up()
        for number in range(count):
            await job.progress(number, count, ballast)
            # It keeps up; that is what is asked of it.
            heard = await quick.next()
            assert heard.id.endswith(f"-{number + 1}")

        numbers: list[int] = []
        missed = 0
        while not numbers or numbers[-1] != count:
            heard = await slow.next()
            if heard.event == "lagged":
                missed += heard.told["detail"]["missed"]
            else:
                numbers.append(int(heard.id.partition("-")[2]))

    assert missed > 0
    assert len(numbers) + missed == count
    assert numbers == sorted(set(numbers))


async def test_a_stream_too_many_is_503_until_another_ends(q: Kue) -> None:
    async with server_of(q, bounds=BufferLimits(clients=1)) as server:
        async with server.ear() as ear:
            await ear.up()

            answer = await server.get()

            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "1"
            assert "too many streams" in answer.json()["detail"]
        await until(lambda: not server.live.is_full)
        async with server.ear() as ear:
            await ear.up()


async def test_streams_end_when_the_server_stops(server: Server) -> None:
    async with server.ear() as ear:
        await ear.up()

        await server.live.close()

        await ear.end()
    assert (await server.get()).status_code == 503


# -- what is refused ---------------------------------------------------------


@on_any_store
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"kinds": "complete,finished"}, "query.kinds[1]"),
        ({"types": "x" * 201}, "query.types[0]"),
        ({"types": ",".join("x" * 201)}, "query.types"),
        ({"job_id": "seven"}, "query.job_id"),
        ({"job_id": "0"}, "query.job_id"),
        ({"last_event_id": "x" * 65}, "query.last_event_id"),
        ({"state": "failed"}, "query"),
    ],
)
async def test_a_filter_that_makes_no_sense_is_400(
    server: Server, query: dict[str, str], field: str
) -> None:
    answer = await server.get(**query)

    assert answer.status_code == 400
    assert answer.json()["field"] == field


async def test_a_stranger_is_401(q: Kue) -> None:
    async with server_of(q, guard=Nobody()) as server:
        assert (await server.get()).status_code == 401


async def test_to_listen_it_takes_no_more_than_the_lowest_role(q: Kue) -> None:
    async with (
        server_of(q, guard=Anyone(min(Role))) as server,
        server.ear() as ear,
    ):
        await ear.up()


async def test_while_nobody_can_tell_who_asks_a_stream_is_503(q: Kue) -> None:
    async with server_of(q, guard=Adrift()) as server:
        assert (await server.get()).status_code == 503


# -- while the store is away -------------------------------------------------


async def test_a_stream_says_that_the_store_went_away_and_came_back(
    tmp_path: Path,
) -> None:
    redis = RedisServer(tmp_path)
    try:
        async with (
            Kue(redis.url, budget="300ms") as q,
            server_of(q) as server,
            server.ear() as ear,
        ):
            await ear.up()
            await asyncio.to_thread(redis.kill)
            assert (await ear.next()).told["detail"] == {"state": "down"}
            async with server.ear() as late:
                assert (await late.next()).told["detail"] == {"state": "down"}
                await asyncio.to_thread(redis.restart)

                for one in (ear, late):
                    await one.up()
                    lagged = await one.next()
                    assert (lagged.event, lagged.told["detail"]) == (
                        "lagged",
                        {"missed": 0},
                    )
                job = await q.enqueue("email")
                for one in (ear, late):
                    assert (await one.next()).told["job_id"] == job.id
    finally:
        redis.stop()


async def test_a_stream_opens_while_the_store_is_away() -> None:
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
    async with (
        Kue(f"redis://{HOST}:{port}", budget="100ms") as q,
        server_of(q) as server,
        server.ear() as ear,
    ):
        heard = await ear.next()

    assert (ear.status, heard.told["detail"]) == (200, {"state": "down"})


# -- the same over a WebSocket -----------------------------------------------


class Line:
    """The client's end of a WebSocket, with no network in between."""

    def __init__(
        self, app: Starlette, query: str = "", origin: str | None = None
    ) -> None:
        headers = [(b"host", b"kue.example:8000")]
        if origin is not None:
            headers.append((b"origin", origin.encode()))
        self._scope = {
            "type": "websocket",
            "path": f"{PATH}/ws",
            "root_path": "",
            "query_string": query.encode(),
            "headers": headers,
            "subprotocols": [],
        }
        self._app = app
        self._to: asyncio.Queue[Any] = asyncio.Queue()
        self._from: asyncio.Queue[Any] = asyncio.Queue()

    async def __aenter__(self) -> Line:
        self._to.put_nowait({"type": "websocket.connect"})
        self._task = asyncio.create_task(
            self._app(self._scope, self._to.get, self._from.put)
        )
        assert (await self.next())["type"] == "websocket.accept"
        return self

    async def __aexit__(self, *error: object) -> None:
        self._to.put_nowait({"type": "websocket.disconnect", "code": 1001})
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._task

    async def next(self) -> Any:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self._from.get()

    async def told(self) -> Any:
        return json.loads((await self.next())["text"])

    async def closed(self) -> tuple[int, str]:
        """Return code and reason of the close, which must come next."""
        message = await self.next()
        assert message["type"] == "websocket.close"
        return message["code"], message["reason"]

    def say(self, text: str) -> None:
        self._to.put_nowait({"type": "websocket.receive", "text": text})


@asynccontextmanager
async def line_to(
    q: Kue,
    query: str = "",
    *,
    origin: str | None = None,
    guard: Guard | None = None,
    bounds: BufferLimits | None = None,
) -> AsyncIterator[Line]:
    app = app_of(q, guard=guard, bounds=bounds)
    try:
        async with Line(app, query, origin) as line:
            yield line
    finally:
        await app.state.live.close()


@pytest.mark.parametrize("origin", [None, "http://kue.example:8000"])
async def test_a_websocket_tells_the_same(q: Kue, origin: str | None) -> None:
    async with line_to(q, "types=email", origin=origin) as line:
        assert (await line.told())["detail"] == {"state": "up"}
        line.say("whatever")
        await q.enqueue("report")
        job = await q.enqueue("email")

        told = await line.told()

    assert told["job_id"] == job.id
    assert set(told) == {"id", "kind", "job_id", "type", "at", "attempt", "detail"}


async def test_a_websocket_goes_on_where_it_was(q: Kue) -> None:
    app = app_of(q)
    async with Line(app) as line:
        place = (await line.told())["id"]
    job = await q.enqueue("email")

    async with Line(app, f"last_event_id={place}") as line:
        await line.told()
        told = await line.told()
    await app.state.live.close()

    assert told["job_id"] == job.id


@pytest.mark.parametrize(
    "origin", ["http://elsewhere.example", "http://kue.example", "null", ""]
)
async def test_a_websocket_of_another_page_is_closed_with_1008(
    q: Kue, origin: str
) -> None:
    async with line_to(q, origin=origin) as line:
        reason = "the request is from a page of another origin"
        assert await line.closed() == (1008, reason)


async def test_a_websocket_of_a_stranger_is_closed_with_1008(q: Kue) -> None:
    async with line_to(q, guard=Nobody()) as line:
        code, reason = await line.closed()

    assert (code, reason[:14]) == (1008, "authentication")


async def test_a_websocket_that_asks_for_nonsense_is_closed_with_1008(q: Kue) -> None:
    async with line_to(q, "job_id=seven") as line:
        code, reason = await line.closed()

    assert code == 1008
    assert reason.startswith("query.job_id: ")


async def test_a_websocket_is_closed_with_1013_while_nobody_can_tell_whose_it_is(
    q: Kue,
) -> None:
    async with line_to(q, guard=Adrift()) as line:
        assert await line.closed() == (1013, UNAVAILABLE)


async def test_a_websocket_too_many_is_closed_with_1013(q: Kue) -> None:
    async with line_to(q, bounds=BufferLimits(clients=0)) as line:
        code, reason = await line.closed()

    assert (code, reason) == (1013, "too many streams are open already")


async def test_websockets_are_closed_when_the_server_stops(q: Kue) -> None:
    app = app_of(q)
    async with Line(app) as line:
        await line.told()

        await app.state.live.close()

        assert await line.closed() == (1013, "the server is stopping")


async def test_what_happens_is_pushed_to_streams_and_websockets(
    server: Server, q: Kue
) -> None:
    async with server.ear() as ear, Line(server.app) as line:
        await ear.up()
        assert (await line.told())["detail"] == {"state": "up"}
        job = await q.enqueue("email")

        heard, told = await ear.next(), await line.told()

    assert heard.told == told
    assert (told["kind"], told["job_id"]) == ("enqueue", job.id)
