"""Reading jobs: get, page, count, types, logs, errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kue.errors import KueError
from kue.fingerprint import first_line
from kue.job import Error, Job, State
from kue.names import quote, unquote
from kue.store.checks import InvalidCall, check_batch, check_errors, read_cursor
from kue.store.redis.counters import Counters
from kue.store.redis.keys import LIVE_CHUNK
from kue.store.redis.record import read_job
from kue.store.values import (
    MAX_BATCH,
    MAX_PAGE_BYTES,
    ErrorGroup,
    Errors,
    LogLine,
    Page,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

_decode_error = msgspec.json.Decoder(Error).decode
_decode_line = msgspec.json.Decoder(LogLine).decode
#: Order of the numbers in the reply of ``count.lua``.
_COUNTED = (
    State.WAITING,
    State.ACTIVE,
    State.DELAYED,
    State.COMPLETE,
    State.FAILED,
    State.CANCELLED,
    State.BLOCKED,
)
#: Live bitmaps read in one go: a quarter of a megabyte.
_CHUNKS = 32


class Reading(Counters):
    """The verbs that change nothing."""

    #: Without a state there are only the live bitmaps, which know of no types.
    has_types_in_order = False

    async def get(self, job_ids: Sequence[int]) -> list[Job | None]:
        check_batch(job_ids, "jobs")
        jobs: list[Job | None] = [None] * len(job_ids)
        for shard, places in self._by_shard(job_ids).items():
            while places:
                ids = [job_ids[place] for place in places]
                # As many as a script may read at once: see get.lua.
                replies = await self._run(shard, "get", *ids)
                for place, reply in zip(places, replies, strict=False):
                    jobs[place] = _read(job_ids[place], reply) if reply else None
                places = places[len(replies) :]
        return jobs

    async def _get_in_parts(
        self, job_ids: list[int]
    ) -> AsyncIterator[list[tuple[Job, int]]]:
        """Yield jobs with their bytes, in order, as scripts can read them at once."""
        known: dict[int, tuple[Job, int] | None] = {}
        start = 0
        while start < len(job_ids):
            missing = [job_id for job_id in job_ids[start:] if job_id not in known]
            for shard, places in self._by_shard(missing).items():
                ids = [missing[place] for place in places]
                replies = await self._run(shard, "get", *ids)
                for job_id, reply in zip(ids, replies, strict=False):
                    job = _read(job_id, reply) if reply else None
                    known[job_id] = (job, len(reply[0])) if job else None
            part: list[tuple[Job, int]] = []
            while start < len(job_ids) and job_ids[start] in known:
                found = known.pop(job_ids[start])
                part += [found] if found else []
                start += 1
            yield part

    async def page(
        self,
        state: State | None = None,
        type: str | None = None,
        *,
        limit: int = 50,
        cursor: str | None = None,
        skip: int = 0,
        descending: bool = False,
    ) -> Page:
        if not 1 <= limit <= MAX_BATCH:
            raise InvalidCall(f"limit must be from 1 to {MAX_BATCH}, not {limit}")
        if skip < 0:
            raise InvalidCall(f"skip must not be negative, but is {skip}")
        after = read_cursor(cursor)
        if state is None:
            ids = self._live_ids(after[1] if after else None, descending)
        elif state is State.ACTIVE:
            ids = self._active_ids(type, after[1] if after else None, descending)
        else:
            ids = self._ids_in(state, type, after, skip, descending)
            skip = 0
        return await self._collect(ids, state, type, limit, skip)

    async def _collect(
        self,
        batches: AsyncIterator[list[int]],
        state: State | None,
        job_type: str | None,
        limit: int,
        skip: int,
    ) -> Page:
        """Read jobs in the order of their ids until a page is full."""
        jobs: list[Job] = []
        total = 0
        async for ids in batches:
            async for part in self._get_in_parts(ids):
                for job, size in part:
                    # It may have moved on since its id was read.
                    is_fit = (state is None or job.state is state) and (
                        job_type is None or job.type == job_type
                    )
                    if not is_fit:
                        continue
                    if skip:
                        skip -= 1
                        continue
                    total += size
                    if len(jobs) == limit or (jobs and total > MAX_PAGE_BYTES):
                        return Page(jobs, self.cursor_after(jobs[-1], state))
                    jobs.append(job)
        return Page(jobs, None)

    async def _ids_in(
        self,
        state: State,
        job_type: str | None,
        after: tuple[int, int] | None,
        skip: int,
        descending: bool,
    ) -> AsyncIterator[list[int]]:
        """Yield ids of a state that is kept in order, merged over types and shards."""
        size = 100
        while True:
            found: list[tuple[int, int]] = []
            for shard, names in self._homes(
                [job_type] if job_type is not None else await self.types()
            ).items():
                found += await self._range(
                    shard, state, names, after, skip + size, descending
                )
            found.sort(reverse=descending)
            part = found[skip : skip + size]
            if not part:
                return
            yield [job_id for _, job_id in part]
            after, skip = part[-1], 0
            size = MAX_BATCH

    async def _range(
        self,
        shard: int,
        state: State,
        types: list[str],
        after: tuple[int, int] | None,
        limit: int,
        descending: bool,
    ) -> list[tuple[int, int]]:
        score = "" if after is None else str(self._score(state, *after))
        reply = await self._run(
            shard,
            "range",
            state.value,
            score,
            "" if after is None else after[1],
            0,
            limit,
            "desc" if descending else "asc",
            *map(quote, types),
        )
        return [
            (self._key(state, int(reply[index])), int(reply[index + 1]))
            for index in range(0, len(reply), 3)
        ]

    def _score(self, state: State, key: int, job_id: int) -> int:
        """Return the score that a place in the order of a page has in its set."""
        if state is State.WAITING:
            return key * 2**41 + job_id // self._shards
        return job_id if state is State.BLOCKED else key

    def _key(self, state: State, score: int) -> int:
        if state is State.WAITING:
            return score >> 41
        return 0 if state is State.BLOCKED else score

    async def _active_ids(
        self, job_type: str | None, after: int | None, descending: bool
    ) -> AsyncIterator[list[int]]:
        """Yield ids of running jobs; there are never more than slots."""
        types = [job_type] if job_type is not None else await self.types()
        ids: list[int] = []
        for shard, names in self._homes(types).items():
            keys = self._keys[shard]
            replies = await self._read_many(
                shard, [("HKEYS", keys.of_type(name, "active")) for name in names]
            )
            ids += [int(job_id) for reply in replies for job_id in reply]
        ids.sort(reverse=descending)
        if after is not None:
            ids = [i for i in ids if (i < after if descending else i > after)]
        for start in range(0, len(ids), MAX_BATCH):
            yield ids[start : start + MAX_BATCH]

    async def _live_ids(
        self, after: int | None, descending: bool
    ) -> AsyncIterator[list[int]]:
        """Yield the ids of all jobs there are, in order, a few chunks at a time."""
        last = await self._last_chunk()
        first = 0
        if after is not None:
            chunk = after // self._shards // LIVE_CHUNK
            first, last = (0, min(chunk, last)) if descending else (chunk, last)
        # Most readers are content with the first page: begin with little.
        size = 1
        while first <= last:
            stop = last + 1 if descending else min(first + size, last + 1)
            start = max(stop - size, first) if descending else first
            first, last = (first, start - 1) if descending else (stop, last)
            size = min(2 * size, _CHUNKS)
            ids: list[int] = []
            for shard in range(self._shards):
                ids += await self._live_in(shard, start, stop)
            ids.sort(reverse=descending)
            if after is not None:
                ids = [i for i in ids if (i < after if descending else i > after)]
            for at in range(0, len(ids), MAX_BATCH):
                yield ids[at : at + MAX_BATCH]

    async def _last_chunk(self) -> int:
        async def read(shard: int) -> int:
            key = self._keys[shard].of_shard("ids")
            [last] = await self._read_many(shard, [("GET", key)])
            return int(last or 0)

        return max(await self._on_all(read)) // LIVE_CHUNK

    async def _live_in(self, shard: int, first: int, stop: int) -> list[int]:
        """Return the ids that live bitmaps *first* to before *stop* say exist."""
        keys = self._keys[shard]
        bitmaps = await self._read_many(
            shard, [("GET", keys.live(chunk)) for chunk in range(first, stop)]
        )
        ids: list[int] = []
        for chunk, bitmap in enumerate(bitmaps, first):
            base = chunk * LIVE_CHUNK
            ids += (
                (base + offset) * self._shards + shard
                for offset in _bits(bitmap or b"")
            )
        return ids

    async def count(self) -> dict[str, dict[State, int]]:
        replies = await self._on_all(lambda shard: self._run(shard, "count"))
        counts: dict[str, dict[State, int]] = {}
        size = len(_COUNTED) + 1
        for reply in replies:
            for index in range(0, len(reply), size):
                numbers = reply[index + 1 : index + size]
                name = unquote(reply[index].decode())
                counts[name] = dict(zip(_COUNTED, map(int, numbers), strict=True))
        return dict(sorted(counts.items()))

    async def types(self) -> list[str]:
        async def read(shard: int) -> list[bytes]:
            key = self._keys[shard].of_shard("types")
            [names] = await self._read_many(shard, [("SMEMBERS", key)])
            return list(names)

        replies = await self._on_all(read)
        return sorted(unquote(name.decode()) for names in replies for name in names)

    async def logs(self, job_id: int, start: int = 0, stop: int = -1) -> list[LogLine]:
        shard = self._shard_of(job_id)
        [lines] = await self._read_many(
            shard, [("LRANGE", self._keys[shard].log(job_id), start, stop)]
        )
        return [_decode_line(line) for line in lines]

    async def errors(self, type: str | None = None, *, limit: int = 50) -> Errors:
        check_errors(limit)
        if type is None:
            replies = await self._on_all(
                lambda shard: self._run(shard, "errors", limit, "")
            )
        else:
            home = self._home_of(type)
            replies = [await self._run(home, "errors", limit, quote(type))]
        groups: list[ErrorGroup] = []
        for _, *rows in replies:
            groups += map(_read_group, *(rows[column::5] for column in range(5)))
        groups.sort(key=lambda group: -group.count)
        return Errors(groups[:limit], sum(total for total, *_ in replies))


def _read(job_id: int, reply: list[Any]) -> Job | None:
    record, place, where, tries, progress, cancelling, pause = reply
    if place == b"parked":
        return None
    try:
        return read_job(
            job_id,
            record,
            place.decode(),
            where,
            tries=tries,
            progress=progress,
            cancelling=bool(cancelling),
            pause=pause,
        )
    except (ValueError, KueError, RecursionError):
        # Not a job any more; the doctor tells what it was.
        return None


def _bits(bitmap: bytes) -> list[int]:
    """Return the positions of the set bits."""
    return [
        8 * index + bit
        for index, byte in enumerate(bitmap)
        if byte
        for bit in range(8)
        if byte & (128 >> bit)
    ]


def _read_group(
    job_type: bytes, fingerprint: bytes, count: bytes, first: bytes, last: bytes
) -> ErrorGroup:
    last_at, _, rest = last.partition(b"\t")
    job_id, _, cause = rest.partition(b"\t")
    try:
        error = _decode_error(cause)
    except ValueError:
        # The jobs count, whatever became of what they failed of.
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
