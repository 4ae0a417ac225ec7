"""
The baseline for Redis: the data model and the fencing token, and nothing else.

The same structures as Kue's (a record per job, a queue, a hash of active runs), the
same batches, the same client.  No retries, no recovery, no idempotence, no limits, no
events, no options: the difference to Kue is the cost of these.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from redis.asyncio import Redis

from benchmarks.delivery import check_count, check_once
from benchmarks.readings import stopwatch
from benchmarks.traffic import LANES, Quota, batches, send

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT, TYPE, WORKER, CLAIM = "{bare}", "noop", "w1", "c0ffee0011"

ADD = """
local root, queue = KEYS[1], KEYS[1] .. ':' .. ARGV[1]
local count = #ARGV - 1
local first = redis.call('INCRBY', root .. ':ids', count) - count
local records, line = {}, {}
for i = 1, count do
  local id, at = first + i, 2 * i
  records[at - 1], records[at] = root .. ':job:' .. id, ARGV[i + 1]
  line[at - 1], line[at] = id, id
end
redis.call('MSET', unpack(records))
redis.call('ZADD', queue .. ':waiting', unpack(line))
redis.call('ZADD', queue .. ':wake', 0, '0')
return first
"""

CYCLE = """#!lua flags=allow-oom
local root, queue = KEYS[1], KEYS[1] .. ':' .. ARGV[1]
local worker, limit, claim = ARGV[2], tonumber(ARGV[3]), ARGV[4]
local job, active = root .. ':job:', queue .. ':active'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Which runs are held, and which jobs are next?
local ended, held = {}, {}
for at = 5, #ARGV, 3 do
  ended[#ended + 1] = ARGV[at]
end
if #ended > 0 then
  held = redis.call('HMGET', active, unpack(ended))
end
local ids, records, tries = {}, {}, {}
if limit > 0 and not redis.call('HGET', root .. ':paused', ARGV[1]) then
  redis.call('ZRANGEBYSCORE', queue .. ':delayed', '-inf', now, 'LIMIT', 0, 200)
  ids = redis.call('ZRANGE', queue .. ':waiting', 0, limit - 1)
end
if #ids > 0 then
  local keys = {}
  for i = 1, #ids do
    keys[i] = job .. ids[i]
  end
  records = redis.call('MGET', unpack(keys))
  tries = redis.call('HMGET', queue .. ':tries', unpack(ids))
end

-- End runs.
local done, scores = {}, {}
for i = 1, #ended do
  if held[i] == ARGV[3 * i + 3] then
    redis.call('APPEND', job .. ended[i], ARGV[3 * i + 4])
    local n = #done + 1
    done[n] = ended[i]
    scores[2 * n - 1], scores[2 * n] = now, ended[i]
  end
end
if #done > 0 then
  redis.call('HDEL', active, unpack(done))
  redis.call('ZADD', queue .. ':complete', unpack(scores))
  local minute = root .. ':stats:' .. math.floor(now / 60000)
  redis.call('HINCRBY', minute, ARGV[1] .. ':complete', #done)
  redis.call('EXPIRE', minute, 90000)
end

-- Start runs.
local taken, runs = {}, {}
if #ids > 0 then
  redis.call('ZREMRANGEBYRANK', queue .. ':waiting', 0, #ids - 1)
  local last = tonumber(redis.call('GET', root .. ':fence') or 0)
  local fence = math.max(last, time[1] * 1000000 + time[2])
  local tail = ':' .. claim .. ':' .. worker .. ':' .. now .. ':'
  for i = 1, #ids do
    fence = fence + 1
    local token = string.format('%.0f', fence) .. tail .. (tonumber(tries[i]) or 0) + 1
    runs[2 * i - 1], runs[2 * i] = ids[i], token
    taken[3 * i - 2], taken[3 * i - 1], taken[3 * i] = ids[i], token, records[i]
  end
  redis.call('HSET', active, unpack(runs))
  redis.call('SET', root .. ':fence', string.format('%.0f', fence))
  if redis.call('ZCARD', queue .. ':waiting') > 0 then
    redis.call('ZADD', queue .. ':wake', 0, '0')
  end
end
return { #done, taken }
"""


class Body(msgspec.Struct):
    """A minimal job: as many bytes as Kue sends for one."""

    data: dict[str, int]
    max_attempts: int = 1


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Body).decode


def bodies(count: int) -> list[bytes]:
    """Return encoded jobs, so that encoding is not measured."""
    return [_encode(Body({"i": i}, 3)) for i in range(count)]


class BareRedis:
    """Two scripts on one Redis, and the jobs that were added and ran so far."""

    def __init__(self, port: int, prepared: list[bytes], *, flights: int) -> None:
        self._redis = Redis(port=port, protocol=2, socket_timeout=None)
        self._prepared = prepared
        self._flights = flights
        self._add = self._cycle = ""
        self._added = self._done = 0
        self._ran: list[int] = []

    async def open(self) -> None:
        self._add = await self._redis.script_load(ADD)
        self._cycle = await self._redis.script_load(CYCLE)

    async def close(self) -> None:
        await self._redis.aclose()

    async def add(self, first: int, last: int) -> float:
        async def call(_: int, piece: Sequence[bytes]) -> None:
            await self._run(self._add, *piece)

        pieces = batches(self._prepared[first:last])
        with stopwatch() as watch:
            await send(pieces, call, flights=self._flights)
        self._added += last - first
        return watch.seconds

    async def drain(self, jobs: int) -> float:
        quota = Quota(jobs)
        with stopwatch() as watch:
            await asyncio.gather(*(self._lane(quota) for _ in range(LANES)))
        return watch.seconds

    async def _lane(self, quota: Quota) -> None:
        outcomes: list[Any] = []
        while (take := quota.take()) or outcomes:
            done, taken = await self._run(self._cycle, WORKER, take, CLAIM, *outcomes)
            self._done += done
            outcomes = []
            for at in range(0, len(taken), 3):
                job_id, token, record = taken[at : at + 3]
                self._ran.append(_decode(record).data["i"])
                outcome = b"\n" + _encode({"at": 0, "result": None})
                outcomes += (job_id, token, outcome)

    async def check_all_ran(self) -> None:
        check_once(range(self._added), self._ran, "bare scripts")
        check_count(self._done, self._added, "bare runs that ended")
        complete = await self._redis.zcard(f"{ROOT}:{TYPE}:complete")
        check_count(complete, self._added, "bare jobs complete")

    async def _run(self, sha: str, *args: Any) -> Any:
        return await self._redis.evalsha(sha, 1, ROOT, TYPE, *args)
