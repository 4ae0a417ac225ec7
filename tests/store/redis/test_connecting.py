"""Making connections to Redis."""

from __future__ import annotations

import importlib.metadata

import pytest

from kue.store.redis.wire.connecting import Connector
from kue.store.redis.wire.url import read_url
from tests.support.servers import RedisServer


async def test_a_connection_does_not_look_for_installed_packages(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    monkeypatch.setattr(importlib.metadata, "version", looked.append)

    connection = await Connector(read_url(redis_server.url)).connect()

    await connection.disconnect()
    assert looked == []
