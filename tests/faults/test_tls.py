"""TLS: it works with the right authority, and never goes on without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

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


async def test_a_certificate_of_a_stranger_is_refused(
    tls_port: int, folder: Path, new_store: NewStore
) -> None:
    stranger = Authority(folder, "theirs")
    store = new_store(
        f"rediss://:{SECRET}@{HOST}:{tls_port}/0?ssl_ca_certs={stranger.certificate}",
        budget="3s",
    )

    with pytest.raises((StoreUnavailable, StoreRefused), match="certificate") as caught:
        await store.open()

    assert SECRET not in str(caught.value)


async def test_a_certificate_nobody_vouches_for_is_refused(
    tls_port: int, new_store: NewStore
) -> None:
    store = new_store(f"rediss://{HOST}:{tls_port}/0", budget="3s")

    with pytest.raises((StoreUnavailable, StoreRefused), match="certificate"):
        await store.open()


async def test_a_certificate_for_another_host_is_refused(
    tls_port: int, authority: Authority, new_store: NewStore
) -> None:
    store = new_store(
        f"rediss://localhost:{tls_port}/0?ssl_ca_certs={authority.certificate}",
        budget="3s",
    )

    with pytest.raises((StoreUnavailable, StoreRefused), match=r"certificate|ostname"):
        await store.open()


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
