"""Queries: job counts, logs, error groups; `get` and `page` are in ``pages``."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from kue.model.fingerprint import first_line
from kue.model.job import Error, State
from kue.model.names import quote, unquote
from kue.store.values import ErrorGroup, Errors, LogLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.store.redis.sharding import Shards

_decode_error = msgspec.json.Decoder(Error).decode
_decode_line = msgspec.json.Decoder(LogLine).decode


async def count(db: Shards) -> dict[str, dict[State, int]]:
    found = await db.on_all(lambda shard: _parts(db, shard, "count"))
    counts: dict[str, dict[State, int]] = {}
    # Each type is followed by its numbers of jobs, in the order of `State`.
    size = 1 + len(State)
    for _, reply in chain(*found):
        columns = (reply[column::size] for column in range(size))
        for name, *numbers in zip(*columns, strict=True):
            by_state = zip(State, map(int, numbers), strict=True)
            counts[unquote(name.decode())] = dict(by_state)
    return dict(sorted(counts.items()))


async def _parts(db: Shards, shard: int, script: str, *args: Any) -> list[Any]:
    """Run a script that scans the types in parts; return all replies."""
    parts = [await db.run(shard, script, *args, "0")]
    while parts[-1][0] != b"0":
        parts.append(await db.run(shard, script, *args, parts[-1][0]))
    return parts


async def logs(
    db: Shards, job_id: int, start: int = 0, stop: int = -1
) -> list[LogLine]:
    shard = db.shard_of(job_id)
    key = db.keys[shard].job(f"{job_id}:log")
    lines = await db.read(shard, "LRANGE", key, start, stop)
    return [_decode_line(line) for line in lines]


async def newest_logs(
    db: Shards, job_ids: Sequence[int], lines: int
) -> list[list[LogLine]]:
    found: list[list[LogLine]] = [[] for _ in job_ids]
    for shard, positions in db.by_shard(job_ids).items():
        keys = [db.keys[shard].job(f"{job_ids[at]}:log") for at in positions]
        asked = [("LRANGE", key, -lines, -1) for key in keys]
        for at, log in zip(positions, await db.read_many(shard, asked), strict=True):
            found[at] = [_decode_line(line) for line in log]
    return found


async def errors(db: Shards, type: str | None = None, *, limit: int = 50) -> Errors:
    if type is None:
        found = await db.on_all(
            lambda shard: _parts(db, shard, "error_groups", limit, "")
        )
    else:
        home = db.home_of(type)
        found = [await _parts(db, home, "error_groups", limit, quote(type))]
    replies = list(chain(*found))
    groups: list[ErrorGroup] = []
    for _, _, *rows in replies:
        groups += map(_read_group, *(rows[column::5] for column in range(5)))
    # A type may come twice, see count.lua.
    groups = list({(one.type, one.fingerprint): one for one in groups}.values())
    groups.sort(key=lambda group: -group.count)
    return Errors(groups[:limit], sum(total for _, total, *_ in replies))


def _read_group(
    job_type: bytes, fingerprint: bytes, count: bytes, first: bytes, last: bytes
) -> ErrorGroup:
    last_at, _, rest = last.partition(b"\t")
    job_id, _, cause = rest.partition(b"\t")
    try:
        error = _decode_error(cause)
    except ValueError:
        # The jobs still count, even if their error is damaged.
        error, first, last_at, job_id = Error("Unknown", ""), b"0", b"0", b"0"
    return ErrorGroup(
        fingerprint=fingerprint.decode(),
        type=unquote(job_type.decode()),
        kind=error.kind,
        message=first_line(error.message),
        count=int(float(count)),
        first_at=int(first or 0),
        last_at=int(last_at),
        job_id=int(job_id),
    )
