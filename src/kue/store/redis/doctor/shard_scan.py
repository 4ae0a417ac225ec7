"""
Survey of a shard, the first pass of a check: read everything, and note suspects.

Jobs move in the meantime, so that its results are only suspects, which are checked
again.  Memory is a few bits per job and the suspects; everything else is streamed.
"""

from __future__ import annotations

import re
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from kue.model.names import unquote
from kue.store.redis.doctor.bitset import Bitset
from kue.store.redis.doctor.error_counts import ErrorCounts, has_errors
from kue.store.redis.doctor.flow_rules import FlowIndex
from kue.store.redis.doctor.job_facts import JobHints, read_jobs
from kue.store.redis.doctor.job_record import is_sound, parents_of
from kue.store.redis.doctor.job_rules import check_job
from kue.store.redis.doctor.key_parsing import KnownKey, is_number, parse_key, shard_key
from kue.store.redis.doctor.shard_access import MAX_SUBJECTS, text_of
from kue.store.redis.doctor.structure_rules import INSPECTED, Entry
from kue.store.redis.doctor.value_rules import LIST_ITEMS, value_rule_of
from kue.store.redis.keys import JOB_KEYS, MAX_SEQUENCE, PLACES, shard_of_type
from kue.store.redis.wire.client import pairs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

    from kue.store.redis.doctor.shard_access import RedisCommand, Shard
    from kue.store.redis.doctor.value_rules import Value

    #: Member and score, value, or nothing.
    _Entries = list[tuple[bytes, Value]]

#: Entries read from one structure at once, and structures read at once.
_ENTRIES, _STRUCTURES = 500, 16
#: Steps of a job read at once: each may have a result of 64 KiB.
_STEPS = 50
#: Items of a list read at once.
_LINES = 100
#: Records read at once; most are a few hundred bytes.
_RECORDS = 200
_FENCE = re.compile(rb"([1-8]\d{15}):")
_SCANS = {"zset": "ZSCAN", "hash": "HSCAN", "set": "SSCAN"}
#: Sums over other structures: recomputed, not read entry by entry.
_SUMS = frozenset({"errors", "running"})


class Survey:
    """Everything that one shard has, and what of it is suspect."""

    def __init__(
        self, shard: Shard, surveys: Sequence[Survey], on_steps: Callable[[int], None]
    ) -> None:
        self.shard = shard
        #: Suspect jobs, and everything else that is suspect.
        self.jobs: dict[int, JobHints] = {}
        self.entries: list[Entry] = []
        #: Jobs that have a record.
        self.recorded = Bitset()
        #: Of all shards.
        self._surveys = surveys
        self._on_steps = on_steps
        #: The last sequence number when this began; younger jobs are left alone.
        self._last = 0
        self._fence = 0
        #: Jobs that have a log and so on.
        self._parts = {name: Bitset() for name in JOB_KEYS}
        #: Structures to read; a scan may return a key twice.
        self._structures: dict[str, KnownKey] = {}
        self._types: set[str] = set()
        self._bitmaps: set[int] = set()
        self._lost: dict[int, KnownKey] = {}
        self._flows: set[int] = set()
        #: Jobs that wait for very many others.
        self._many: set[int] = set()
        #: Jobs that are in a state; that were inspected; that were, for each type.
        self._placed = Bitset()
        self._inspected = Bitset()
        self._inspected_in: dict[str, Bitset] = {}
        self._pending: dict[int, JobHints] = {}

    async def begin(self) -> None:
        self._last = await self._last_id()

    async def _last_id(self) -> int:
        [last] = await self._values(["ids"])
        return int(last) if last.isdigit() else 0

    async def _values(self, names: list[str]) -> list[bytes]:
        """Read strings; a key that is missing or has another type counts as empty."""
        found = await self.shard.inspect([("value", name) for name in names])
        return [b"".join(inspection.facts) for inspection in found]

    # -- keys ------------------------------------------------------------------

    async def take_keys(self, texts: list[bytes]) -> None:
        """Sort keys, without their tag, by what they are."""
        known = {key.text: key for text in texts if (key := self._known(text))}
        subject: list[str] = ["keys"]
        for key in known.values():
            subject += (key.text, key.redis_type)
        [odd] = await self.shard.inspect([tuple(subject)])
        for text, kind in zip(odd.facts[::3], odd.facts[1::3], strict=True):
            key = known[text.decode()]
            is_wrong = kind.decode() != key.redis_type
            if is_wrong or not key.may_expire:
                self._suspect("key", key)
            if is_wrong:
                del known[key.text]
        for key in known.values():
            self._take_key(key)

    def _known(self, text: bytes) -> KnownKey | None:
        """Return which key it is; a key that should not be here is suspect."""
        try:
            key = parse_key(text.decode())
        except UnicodeDecodeError:
            key = None
        shards, why = len(self._surveys), "is not a key of Kue"
        home = self.shard.number
        if key is not None and key.job_type:
            home = shard_of_type(unquote(key.job_type), shards)
            why = f"is of a type that lives on shard {home}"
        elif key is not None and key.kind in ("record", "part"):
            home = self.shard.home_of(key.number).number
            why = f"is of a job that lives on shard {home}"
            if self.shard.sequence_of(key.number) > MAX_SEQUENCE:
                key, why = None, "is of a job with a number that none can have"
        if key is not None and home == self.shard.number:
            return key
        unknown = KnownKey(text_of(text), "none", "unknown")
        self._suspect("unknown key", unknown, text, why)
        return None

    def _take_key(self, key: KnownKey) -> None:
        if key.kind == "record":
            self.recorded.add(self.shard.sequence_of(key.number))
        elif key.kind == "part":
            self._parts[key.name].add(self.shard.sequence_of(key.number))
        elif key.kind == "live":
            self._bitmaps.add(key.number)
        elif key.kind == "lost":
            self._lost[key.number] = key
        else:
            self._structures[key.text] = key
            self._types |= {key.job_type} if key.job_type else set()
            self._flows |= {key.number} if key.kind in ("flow", "members") else set()

    # -- structures ------------------------------------------------------------

    async def run(self) -> None:
        """Read everything that keys were found of."""
        structures = filter(_is_read, self._structures.values())
        async for key, entries in self._read(chain(structures, self._part_keys())):
            await self._check_entries(key, entries)
        for name in ("after", "then", "finally", "left"):
            for sequence in self._parts[name].without(self._inspected):
                await self.inspect(self.shard.id_of(sequence))
        await self._compare()
        await self._check_shard()

    def _part_keys(self) -> Iterator[KnownKey]:
        """Yield what belongs to jobs: logs, steps, streams, lists of other jobs."""
        for name in ("then", "finally", "left", "log", "steps", "stream"):
            for sequence in self._parts[name]:
                job_id = self.shard.id_of(sequence)
                text = f"job:{job_id}:{name}"
                yield KnownKey(text, JOB_KEYS[name], "part", name, number=job_id)

    async def _read(
        self, keys: Iterable[KnownKey]
    ) -> AsyncIterator[tuple[KnownKey, _Entries]]:
        """Yield the entries of structures, piece by piece, several at a time."""
        waiting, cursors = iter(keys), dict[KnownKey, int]()
        while True:
            cursors |= dict.fromkeys(islice(waiting, _STRUCTURES - len(cursors)), 0)
            if not cursors:
                return
            scans = [self._scan(key, cursor) for key, cursor in cursors.items()]
            replies = zip(cursors, await self.shard.read(scans), strict=True)
            for key, reply in list(replies):
                if key.redis_type == "list":
                    entries, is_over = reply, len(reply) < _LINES
                    cursors[key] += _LINES
                else:
                    cursors[key], entries = int(reply[0]), reply[1]
                    is_over = cursors[key] == 0
                if is_over:
                    del cursors[key]
                if entries:
                    yield key, _entries_of(key, entries)

    def _scan(self, key: KnownKey, cursor: int) -> RedisCommand:
        name = self.shard.keys.of_shard(key.text)
        if key.redis_type == "list":
            return ("LRANGE", name, cursor, cursor + _LINES - 1)
        count = _STEPS if key.name == "steps" else _ENTRIES
        return (_SCANS[key.redis_type], name, cursor, "COUNT", count)

    async def _check_entries(self, key: KnownKey, entries: _Entries) -> None:
        rule, is_own = value_rule_of(key), key.kind in ("shard", "type")
        if rule is not None:
            for member, value in entries:
                if not rule.is_valid(member, value):
                    self._suspect("value", key, member)
        if key.kind == "type" and key.name in PLACES:
            await self._check_placed(key, entries)
        elif is_own and key.name in INSPECTED:
            await self._check_suspects(
                [
                    Entry(self.shard, key.name, key, member, self._types)
                    for member, _ in entries
                ]
            )
        elif key.kind == "limit keys":
            await self._check_suspects(
                [Entry(self.shard, key.kind, key, member) for member, _ in entries]
            )
        elif key.kind == "part" and key.name in LIST_ITEMS:
            for item, _ in entries:
                if not LIST_ITEMS[key.name](item):
                    self._suspect("item", key, item)
        elif rule is None or key.name == "progress":
            for member, score in entries:
                job_id = self._job_of(key, member)
                if job_id is not None:
                    await self._inspect_member(key, job_id, score)

    def _suspect(
        self, checked_as: str, key: KnownKey, member: bytes = b"", expected: Any = None
    ) -> None:
        self.entries.append(Entry(self.shard, checked_as, key, member, expected))

    def _job_of(self, key: KnownKey, member: bytes) -> int | None:
        """Return the job that a member is; one that cannot be a job is suspect."""
        text = member.decode("ascii", "replace")
        number = int(text) if is_number(text) else -1
        # Lists of dependants have jobs of all shards.
        is_here = key.kind == "part" or self.shard.home_of(number) is self.shard
        if is_here and 0 <= self.shard.sequence_of(number) <= MAX_SEQUENCE:
            return number
        self._suspect("not a job", key, member)
        return None

    async def _inspect_member(self, key: KnownKey, job_id: int, score: Value) -> None:
        """Inspect a job, with a hint at the structure that it was found in."""
        if key.kind == "type":
            await self._inspect_in(job_id, key.job_type)
        elif key.name == "left":
            await self.inspect(key.number, JobHints(parents={job_id}))
        elif key.kind == "part":
            if score != job_id:
                self._suspect("dependant", key, b"%d" % job_id)
            home = self._surveys[self.shard.home_of(job_id).number]
            await home.inspect(job_id, JobHints(parents={key.number}))
        elif key.kind == "members":
            if score != job_id:
                self._suspect("dependant", key, b"%d" % job_id)
            await self.inspect(job_id, JobHints({f"::{key.number}"}))
        else:
            is_place = key.job_type or key.kind in ("limit held", "limit running")
            places = {key.text} if is_place else set()
            await self.inspect(job_id, JobHints(places))

    async def _check_placed(self, key: KnownKey, entries: _Entries) -> None:
        """Compare jobs in a structure that means a state with their records."""
        found = [(self._job_of(key, member), value) for member, value in entries]
        placed = [(job_id, value) for job_id, value in found if job_id is not None]
        for start in range(0, len(placed), _RECORDS):
            part = placed[start : start + _RECORDS]
            names = [self.shard.keys.job(job_id) for job_id, _ in part]
            [records] = await self.shard.read([("MGET", *names)])
            for (job_id, value), record in zip(part, records, strict=True):
                await self._check_record(key, job_id, value, record)
        self._on_steps(len(entries))

    async def _check_record(
        self, key: KnownKey, job_id: int, value: Value, record: bytes | None
    ) -> None:
        sequence = self.shard.sequence_of(job_id)
        is_new = self._placed.add(sequence)
        if isinstance(value, bytes):
            run = _FENCE.match(value)
            self._fence = max(self._fence, int(run[1]) if run else 0)
        elif is_new and is_sound(
            job_id, sequence, key.job_type.encode(), key.name, value, record
        ):
            return
        size = len(record or b"")
        if key.name == "blocked":
            parents = parents_of(job_id, record)
            await self.inspect(job_id, JobHints({key.job_type}, parents, size))
        else:
            await self._inspect_in(job_id, key.job_type, size)

    # -- comparisons -----------------------------------------------------------

    async def _compare(self) -> None:
        """Inspect jobs that are in one structure and not in another."""
        highest = self.recorded.highest
        if highest > self._last and highest > await self._last_id():
            # The counter is damaged: these jobs are not younger than the survey.
            self._last = highest
        live = await self._live()
        for known, other in (
            (self.recorded, self._placed),
            (live, self._placed),
            (self._placed, live),
            (self._parts["log"], self.recorded),
            (self._parts["steps"], self.recorded),
            (self._parts["stream"], self.recorded),
        ):
            for sequence in known.without(other):
                if sequence <= self._last and sequence not in self._inspected:
                    await self.inspect(self.shard.id_of(sequence))
        for sequence in await self._marked("lost", self._lost):
            if sequence in self.recorded and sequence not in self._inspected:
                await self.inspect(self.shard.id_of(sequence))

    async def _live(self) -> Bitset:
        """Read which jobs are marked as existing."""
        return await self._marked("live", self._bitmaps)

    async def _marked(self, name: str, bitmaps: Iterable[int]) -> Bitset:
        marked, chunks = Bitset(), sorted(bitmaps)
        values = await self._values([f"{name}:{chunk}" for chunk in chunks])
        for chunk, bitmap in zip(chunks, values, strict=True):
            marked.load(chunk, bitmap)
        return marked

    async def _check_shard(self) -> None:
        """Check types, groups and counters."""
        shard = self.shard
        suspects: list[Entry] = []
        for name in sorted(self._types):
            types, agenda = shard_key("types"), shard_key("agenda")
            suspects.append(Entry(shard, "listed type", types, name.encode()))
            suspects.append(Entry(shard, "visited type", agenda, name.encode()))
        grouped = {
            key.job_type
            for key in self._structures.values()
            if key.kind == "type" and key.name in ("active", "running")
        }
        for name in sorted(grouped):
            key = KnownKey(name, "hash", "type", job_type=name)
            suspects.append(Entry(shard, "groups", key))
        suspects += [
            Entry(shard, key.kind, key)
            for key in self._structures.values()
            if key.kind == "limit rate"
        ]
        if self._lost:
            last = max(self._last, await self._last_id())
            suspects += [
                Entry(shard, "lost", key, expected=last) for key in self._lost.values()
            ]
        for name, highest in ("ids", self.recorded.highest), ("fence", self._fence):
            suspects.append(Entry(shard, name, shard_key(name), expected=highest))
        await self._check_suspects(suspects)

    async def _check_suspects(self, suspects: list[Entry]) -> None:
        found = await self.shard.inspect([suspect.subject for suspect in suspects])
        for suspect, inspection in zip(suspects, found, strict=True):
            if suspect.findings(inspection):
                self.entries.append(suspect)

    # -- jobs ------------------------------------------------------------------

    async def _inspect_in(self, job_id: int, job_type: str, size: int = 0) -> None:
        """Inspect a job in a type, unless that was done before."""
        inspected = self._inspected_in.setdefault(job_type, Bitset())
        if inspected.add(self.shard.sequence_of(job_id)):
            await self.inspect(job_id, JobHints({job_type}, size=size))

    async def inspect(self, job_id: int, hint: JobHints | None = None) -> None:
        """Inspect a job, soon: one with many parents comes many times before."""
        self._inspected.add(self.shard.sequence_of(job_id))
        pending = self._pending.setdefault(job_id, JobHints())
        pending.merge(hint or JobHints())
        if len(self._pending) >= MAX_SUBJECTS or pending.weight >= MAX_SUBJECTS:
            await self.flush()

    async def flush(self) -> None:
        """Inspect the jobs that are pending; remember the suspects."""
        hints, self._pending = self._pending, {}
        async for facts in read_jobs(self.shard, hints):
            job_id = facts.job_id
            if "many" in facts.marks:
                self._many.add(job_id)
            if check_job(facts):
                suspect = self.jobs.setdefault(job_id, JobHints())
                # Of one with more than that, the next check finds the rest.
                if suspect.weight < MAX_SUBJECTS:
                    suspect.merge(hints[job_id])

    async def inspect_many(self) -> None:
        """Inspect the parents of jobs with very many, some at a time."""
        for job_id in sorted(self._many):
            key = KnownKey(f"job:{job_id}:after", "set", "part", "after", number=job_id)
            async for _, parents in self._read([key]):
                found = {int(member) for member, _ in parents if member.isdigit()}
                await self.inspect(job_id, JobHints(parents=found))
        await self.flush()

    # -- errors ----------------------------------------------------------------

    async def error_counts(self) -> list[ErrorCounts]:
        """Return the error counts of the types that have failed jobs, or counts."""
        counts = [ErrorCounts(self.shard, name) for name in sorted(self._types)]
        found = await self.shard.inspect([one.subject for one in counts])
        pairs_of = zip(counts, found, strict=True)
        return [one for one, inspection in pairs_of if has_errors(inspection)]

    def flow_indexes(self) -> list[FlowIndex]:
        """Return the indexes of all flows."""
        return [FlowIndex(self.shard, flow) for flow in sorted(self._flows)]


def _is_read(key: KnownKey) -> bool:
    is_sum = key.kind == "type" and key.name in _SUMS
    return key.redis_type in _SCANS and not is_sum


def _entries_of(key: KnownKey, found: Any) -> _Entries:
    if key.redis_type in ("set", "list"):
        return [(member, b"") for member in found]
    if key.redis_type == "zset":
        return [(member, float(score)) for member, score in pairs(found)]
    return list(pairs(found))
