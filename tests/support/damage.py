"""Ways to break a store from outside, as a bad disk or a careless hand would."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from urllib.parse import urlsplit

import redis

from tests.support.engines import Engine

#: The engines whose data can be reached from outside the process.
REACHABLE = ("sqlite", "redis", "redis-shards", "redis-cluster")
GARBAGE = "this is no record of a job"


def spoil_record(engine: Engine, job_id: int) -> None:
    """Overwrite what is kept of a job with something that makes no sense."""
    if engine.name == "sqlite":
        _spoil_row(engine, job_id)
    else:
        _spoil_key(engine, job_id)


def _spoil_row(engine: Engine, job_id: int) -> None:
    path = engine.settings.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE jobs SET body = ? WHERE id = ?", (GARBAGE, job_id))


def _spoil_key(engine: Engine, job_id: int) -> None:
    prefix = engine.settings.prefix
    tag = prefix if engine.shards == 1 else f"{prefix}:{job_id % engine.shards}"
    with closing(_client(engine)) as client:
        key = f"{{{tag}}}:job:{job_id}"
        assert client.exists(key), f"{key} is not where a job's record is"
        client.set(key, GARBAGE)


def _client(engine: Engine) -> redis.Redis | redis.RedisCluster:
    host, port = urlsplit(engine.settings.url).netloc.split(",")[0].split(":")
    if engine.name == "redis-cluster":
        return redis.RedisCluster(host=host, port=int(port))
    return redis.Redis(host=host, port=int(port))
