"""A client or pool of redis-py, given instead of a URL, says how to connect."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
import redis
import redis.asyncio as aioredis
from redis import sentinel as blocking_sentinel
from redis.asyncio import sentinel as asyncio_sentinel
from redis.credentials import CredentialProvider, UsernamePasswordCredentialProvider

import kue
from kue import km
from kue.store import null_store
from kue.store.redis.wire.given_client import address_of
from tests.store.redis.test_connecting import FakeSentinel
from tests.support.servers import HOST, RedisCluster, RedisServer

#: They have no annotations in all versions.
BLOCKING_SENTINEL: Any = cast("Any", blocking_sentinel.Sentinel)
SENTINEL: Any = cast("Any", asyncio_sentinel.Sentinel)
BLOCKING_POOL: Any = cast("Any", redis.BlockingConnectionPool)


@pytest.fixture(scope="module")
def sock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("given") / "redis.sock"


@pytest.fixture(scope="module")
def server(sock: Path) -> Iterator[RedisServer]:
    server = RedisServer(sock.parent, config={"unixsocket": str(sock)})
    yield server
    server.stop()


async def assert_works(q: kue.Kue) -> None:
    """Add a job and run it, also from blocking code."""

    @q.task
    async def double(n: int) -> int:
        return 2 * n

    async with q, q.work():
        assert await (await double.enqueue(4)).result(timeout=30) == 8
        job = await asyncio.to_thread(double.delay, 5)
        assert await asyncio.to_thread(job.result, timeout=30) == 10


GIVEN: dict[str, Callable[[int], Any]] = {
    "asyncio client": lambda port: aioredis.Redis(host=HOST, port=port, db=3),
    "client": lambda port: redis.Redis(HOST, port, db=3, decode_responses=True),
    "asyncio pool": lambda port: aioredis.ConnectionPool(host=HOST, port=port, db=3),
    "pool": lambda port: redis.ConnectionPool(host=HOST, port=port, db=3),
    "blocking pool": lambda port: redis.BlockingConnectionPool.from_url(
        f"redis://{HOST}:{port}/3", max_connections=2
    ),
}


@pytest.mark.parametrize("kind", GIVEN)
async def test_a_queue_is_where_the_client_is(server: RedisServer, kind: str) -> None:
    q = kue.Kue(GIVEN[kind](server.port), prefix=kind)

    assert q.store.name == q.settings.url == f"redis://{HOST}:{server.port}/3"
    assert not q.is_shared
    await assert_works(q)
    with closing(redis.Redis(HOST, server.port, db=3)) as plain:
        assert plain.keys(f"*{kind.replace(' ', '*')}*")


@pytest.mark.parametrize("module", [redis, aioredis])
@pytest.mark.usefixtures("server")
async def test_a_unix_socket_is_used(sock: Path, module: Any) -> None:
    q = kue.Kue(module.Redis(unix_socket_path=str(sock), db=2), prefix="unix")

    assert q.store.name == f"unix://{sock}?db=2"
    await assert_works(q)


async def test_the_client_itself_is_left_alone(server: RedisServer) -> None:
    client = aioredis.Redis(host=HOST, port=server.port, client_name="ours")
    q = kue.Kue(client, prefix="alone")
    await q.enqueue("a")

    names = [one["name"] for one in await client.client_list()]
    assert names.count("ours") > 1  # the client, and the connections of the queue
    await q.close()
    assert await client.ping()
    await client.aclose()


class Rotating(CredentialProvider):
    """Returns whatever the password is now."""

    def __init__(self, user: str) -> None:
        self.user = user
        self.password = ""
        self.asked = 0

    def get_credentials(self) -> tuple[str, str]:
        self.asked += 1
        return self.user, self.password

    async def get_credentials_async(self) -> tuple[str, str]:
        return self.get_credentials()

    def rotate(self, server: RedisServer) -> None:
        """Change the password, and close what was opened with the old one."""
        self.password = secrets.token_hex(8)
        rules = ("resetpass", f">{self.password}", "on", "~*", "&*", "+@all")
        server.send("ACL", "SETUSER", self.user, *rules)
        server.send("CLIENT", "KILL", "USER", self.user)


@pytest.mark.parametrize("form", ["URL", "client"])
async def test_a_password_that_changes_is_asked_for_again(
    server: RedisServer, form: str
) -> None:
    provider = Rotating(f"rotating-{form}")
    provider.rotate(server)
    if form == "URL":
        q = kue.Kue(server.url, credential_provider=provider, prefix="acl")
    else:
        client = redis.Redis(HOST, server.port, credential_provider=provider)
        q = kue.Kue(client, prefix="acl")
    done: list[int] = []

    @q.task
    async def note(n: int) -> None:
        done.append(n)

    async with q, q.work():
        await (await note.enqueue(1)).result(timeout=30)
        asked = provider.asked
        provider.rotate(server)
        await (await note.enqueue(2)).result(timeout=30)

    assert done == [1, 2]
    assert provider.asked > asked
    assert provider.password not in repr(q) + q.settings.url


async def test_a_wrong_login_is_refused(server: RedisServer) -> None:
    provider = UsernamePasswordCredentialProvider("nobody", "wrong")
    async with kue.Kue(server.url, credential_provider=provider) as q:
        with pytest.raises(kue.StoreRefused, match="check user, password and ACL"):
            await q.open()


async def test_a_class_of_connections_of_your_own_is_used(server: RedisServer) -> None:
    made: list[str] = []

    class Noted(aioredis.Connection):
        def __init__(self, mark: str, **options: Any) -> None:
            super().__init__(**options)
            made.append(mark)

    pool = aioredis.ConnectionPool(
        connection_class=Noted, host=HOST, port=server.port, mark="x"
    )
    await assert_works(kue.Kue(pool, prefix="noted"))

    assert set(made) == {"x"}


@pytest.mark.parametrize("module", [redis, aioredis])
async def test_a_cluster_is_that_of_the_client(
    redis_cluster: RedisCluster, module: Any
) -> None:
    host, port = redis_cluster.addresses.split(",")[0].split(":")
    client = module.RedisCluster(host=host, port=int(port))
    q = kue.Kue(client, shards=2, prefix=f"cluster-{module.__name__}")

    assert q.settings.url.startswith("redis+cluster://")
    assert q.settings.url.endswith("?shards=2")
    await assert_works(q)


@pytest.mark.parametrize("module", [blocking_sentinel, asyncio_sentinel])
async def test_the_sentinels_of_a_client_are_asked(
    server: RedisServer, module: Any
) -> None:
    async with FakeSentinel(server.port, asking=1) as fake:
        sentinel = module.Sentinel([(HOST, fake.port)])
        q = kue.Kue(sentinel.master_for("mymaster", db=1), prefix="watched")

        assert q.store.name == f"redis+sentinel://{HOST}:{fake.port}/mymaster/1"
        await assert_works(q)


def test_settings_are_taken_over() -> None:
    sentinel = SENTINEL(
        [("one", 1), ("::2", 2)], sentinel_kwargs={"password": "s", "ssl": True}
    )
    client = sentinel.master_for("m", password="p", ssl=True, ssl_ca_certs="/ca.pem")
    address = address_of(client)

    assert address.name == "rediss+sentinel://one:1,[::2]:2/m"
    assert (address.password, address.is_tls) == ("p", True)
    assert address.tls["ssl_ca_certs"] == "/ca.pem"
    assert address.sentinel_options == {"password": "s", "ssl": True}

    pool = BLOCKING_POOL(max_connections=3, username="u", password="p")
    address = address_of(pool)
    assert (address.max_connections, address.username) == (3, "u")
    assert "p@" not in address.url


class _Blocking(redis.Connection):
    pass


def _connected() -> None: ...


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "something else": (lambda: kue.Kue(7), "int is neither a URL, nor a client"),  # type: ignore[arg-type]
    "Sentinels": (
        lambda: kue.Kue(BLOCKING_SENTINEL([(HOST, 1)])),
        r"sentinel\.master_for",
    ),
    "replicas": (
        lambda: kue.Kue(SENTINEL([(HOST, 1)]).slave_for("m")),
        "connects to replicas",
    ),
    "a blocking class": (
        lambda: kue.Kue(redis.ConnectionPool(connection_class=_Blocking)),
        "_Blocking is a connection class of your own for blocking code",
    ),
    "a blocking function": (
        lambda: kue.Kue(redis.Redis(redis_connect_func=_connected)),
        "redis_connect_func of a blocking client",
    ),
    "shards of a URL": (
        lambda: kue.Kue("redis://host", shards=2),
        r"write redis://host\?shards=2",
    ),
    "too many shards": (lambda: kue.Kue(redis.Redis(), shards=0), "from 1 to"),
    "a password as well": (
        lambda: kue.Kue(
            "redis://u:secret@host",
            credential_provider=UsernamePasswordCredentialProvider("u", "p"),
        ),
        "^redis://host:?.* has a user or password; leave it out",
    ),
    "no provider": (
        lambda: kue.Kue("redis://host", credential_provider=7),  # type: ignore[arg-type]
        "not int",
    ),
    "TLS without TLS": (
        lambda: kue.Kue("redis://host", ssl_context=object()),  # type: ignore[arg-type]
        "write rediss://",
    ),
    "two sorts of TLS": (
        lambda: kue.Kue("rediss://host?ssl_ca_certs=/ca", ssl_context=object()),  # type: ignore[arg-type]
        "ssl_context or ssl_ca_certs, not both",
    ),
    "another engine": (
        lambda: kue.Kue("memory://", ssl_context=object()),  # type: ignore[arg-type]
        "are for Redis, not for memory://",
    ),
}


def test_a_process_that_runs_jobs_may_import_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUE_URL", null_store.URL)
    provider = UsernamePasswordCredentialProvider("u", "p")

    assert kue.Kue(credential_provider=provider).store.name == null_store.URL


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_taken_over_is_refused(case: str) -> None:
    make, message = REFUSED[case]

    with pytest.raises(kue.ConfigError, match=message):
        make()


def test_managers_of_kmqueue_take_a_pool(server: RedisServer) -> None:
    pool = redis.ConnectionPool(host=HOST, port=server.port, db=5)
    builder = km.KMQueueManager.Builder(pool, "mails")
    with pytest.raises(kue.ConfigError, match="a pool has its own max_connections"):
        builder.set_max_total(4)
    with builder.build() as manager:
        queue = manager.get_task_queue("mails")
        queue.push_task(km.Task("mails", data="hello"))
        task = queue.pop_task()

    assert task is not None
    assert task.data == "hello"
