"""TLS: it works with the right authority, and never goes on without."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

import kue
from kue.model.errors import StoreRefused, StoreUnavailable
from kue.model.job import State
from tests.faults.certificates import Authority
from tests.faults.conftest import NewStore, assert_sound
from tests.support.jobs import add_many, count_of
from tests.support.servers import HOST, RedisServer, free_port

SECRET = "hunter2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder, "ours")


@pytest.fixture(scope="module")
def tls_port(folder: Path, authority: Authority) -> Iterator[int]:
    """Where a Redis speaks TLS and nothing else."""
    certificate, key = authority.sign(HOST)
    port = free_port()
    server = RedisServer(
        folder,
        config={
            "tls-port": str(port),
            "tls-cert-file": str(certificate),
            "tls-key-file": str(key),
            "tls-ca-cert-file": str(authority.certificate),
            "tls-auth-clients": "no",
        },
    )
    yield port
    server.stop()


async def test_a_redis_behind_tls_keeps_jobs(
    tls_port: int, authority: Authority, new_store: NewStore
) -> None:
    store = new_store(
        f"rediss://{HOST}:{tls_port}/0?ssl_ca_certs={authority.certificate}"
    )

    await add_many(store, 3)

    assert await count_of(store) == {State.WAITING: 3}
    await assert_sound(store)


async def test_a_context_or_a_client_says_whom_to_trust(
    tls_port: int, authority: Authority
) -> None:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    client = redis.Redis(
        HOST, tls_port, ssl=True, ssl_ca_certs=str(authority.certificate)
    )
    url = f"rediss://{HOST}:{tls_port}"
    async with (
        kue.Kue(url, ssl_context=context, prefix="given") as by_context,
        kue.Kue(client, prefix="given") as by_client,
        kue.Kue(
            redis.Redis(HOST, tls_port, ssl=True), ssl_context=context, prefix="given"
        ) as by_both,
        kue.Kue(redis.Redis(HOST, tls_port, ssl=True), prefix="given") as stranger,
    ):
        job = await by_context.enqueue("a")
        assert (await by_client.get(job.id)).type == "a"
        assert (await by_both.get(job.id)).type == "a"
        with pytest.raises(StoreRefused, match="certificate"):
            await stranger.open()


#: Whose server is called, and which authority is to vouch for it.
REFUSED = {
    "of a stranger": (HOST, "theirs", "certificate"),
    "that nobody vouches for": (HOST, "", "certificate"),
    "for another host": ("localhost", "ours", r"certificate|ostname"),
}


@pytest.mark.parametrize("certificate", REFUSED)
@pytest.mark.usefixtures("authority")
async def test_a_certificate_that_proves_nothing_is_refused(
    tls_port: int, folder: Path, new_store: NewStore, certificate: str
) -> None:
    host, name, message = REFUSED[certificate]
    if name == "theirs":
        Authority(folder, name)
    query = f"?ssl_ca_certs={folder / name}.crt" if name else ""
    store = new_store(f"rediss://:{SECRET}@{host}:{tls_port}/0{query}", budget="3s")

    with pytest.raises((StoreUnavailable, StoreRefused), match=message) as caught:
        await store.open()

    assert SECRET not in str(caught.value)


async def test_tls_never_falls_back_to_plain_text(
    redis_server: RedisServer, authority: Authority, new_store: NewStore, prefix: str
) -> None:
    """The server there would take the plain command; it must not get one."""
    store = new_store(
        f"rediss://{redis_server.address}/0?ssl_ca_certs={authority.certificate}",
        budget="3s",
    )

    with pytest.raises((StoreUnavailable, StoreRefused)):
        await add_many(store, 1)

    with closing(redis.Redis(host=HOST, port=redis_server.port)) as client:
        assert list(client.scan_iter(f"{{{prefix}}}:*")) == []
