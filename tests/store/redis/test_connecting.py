"""Making connections to Redis."""

from __future__ import annotations

import asyncio
import importlib.metadata

import hiredis
import pytest

from kue.model.errors import ConfigError
from kue.store.redis.wire.connecting import Connector
from kue.store.redis.wire.url import read_url
from tests.support.patience import until
from tests.support.servers import HOST, RedisServer


async def test_a_connection_does_not_look_for_installed_packages(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    monkeypatch.setattr(importlib.metadata, "version", looked.append)

    connection = await Connector(read_url(redis_server.url)).connect()

    await connection.disconnect()
    assert looked == []


class FakeSentinel:
    """A Sentinel that answers once *asking* have asked: with a master, or with none."""

    def __init__(self, master: int | None, *, asking: int = 2) -> None:
        self._master = master
        self._asked = asyncio.Barrier(asking)
        #: Clients that are connected.
        self.clients: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> FakeSentinel:
        self._server = await asyncio.start_server(self._serve, HOST)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        for writer in self.clients:
            writer.transport.abort()
        self._server.close()
        await self._server.wait_closed()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.clients.add(writer)
        commands, is_resp3 = hiredis.Reader(), False
        while data := await reader.read(65536):
            commands.feed(data)
            while command := commands.gets():
                if command[0] == b"HELLO":
                    is_resp3 = True
                    writer.write(b"%0\r\n")
                elif command[0] == b"SENTINEL":
                    await self._asked.wait()
                    writer.write(self._masters(is_resp3))
                else:
                    writer.write(b"+OK\r\n")
        self.clients.discard(writer)
        writer.close()

    def _masters(self, is_resp3: bool) -> bytes:
        if self._master is None:
            return b"*0\r\n"
        state = {
            "name": "mymaster",
            "ip": HOST,
            "port": str(self._master),
            "flags": "master",
            "num-other-sentinels": "1",
        }
        head = b"*1\r\n" + (b"%5" if is_resp3 else b"*10") + b"\r\n"
        texts = [text.encode() for pair in state.items() for text in pair]
        return head + b"".join(b"$%d\r\n%b\r\n" % (len(text), text) for text in texts)


async def test_searches_for_the_master_at_the_same_time_forget_no_sentinel(
    redis_server: RedisServer,
) -> None:
    """Each moves the Sentinel that answered to the front: of its own list."""
    async with FakeSentinel(None) as first, FakeSentinel(redis_server.port) as second:
        hosts = f"{HOST}:{first.port},{HOST}:{second.port}"
        connector = Connector(read_url(f"redis+sentinel://{hosts}/mymaster"))

        made = await asyncio.gather(*(connector.connect() for _ in range(2)))

        for connection in made:
            await connection.disconnect()
        assert [len(one.clients) for one in (first, second)] == [2, 2]
        await connector.close()
        await until(lambda: not first.clients and not second.clients)


def test_the_url_bounds_the_connections_for_commands() -> None:
    assert read_url("redis://localhost?max_connections=5").max_connections == 5
    assert read_url("redis://localhost").max_connections == 0
    with pytest.raises(ConfigError, match="max_connections is a number from 1"):
        read_url("redis://localhost?max_connections=0")
