"""
Survey of a shard, the first pass of a check: read everything, and note suspects.

Jobs move in the meantime, so that its results are only suspects, which are checked
again.  Memory is a few bits per job and the suspects; everything else is streamed.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any

from kue.model.names import unquote
from kue.store.redis.doctor import entry_rules
from kue.store.redis.doctor.bitset import Bitset
from kue.store.redis.doctor.entry_rules import INSPECTED, Entry, EntrySuspect
from kue.store.redis.doctor.error_counts import ErrorCounts, ErrorTally
from kue.store.redis.doctor.job_facts import MAX_JOBS, JobHints, JobInspector
from kue.store.redis.doctor.job_record import is_sound, parents_of
from kue.store.redis.doctor.job_rules import check_job
from kue.store.redis.doctor.key_table import KnownKey, is_number, parse_key
from kue.store.redis.doctor.value_rules import is_log_line, value_rule_of
from kue.store.redis.keys import JOB_KEYS, MAX_SEQUENCE, PLACES, shard_of_type
from kue.store.redis.wire.client import pairs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from kue.store.redis.doctor.shard import RedisCommand, ShardMap
    from kue.store.redis.doctor.value_rules import Value

    #: Member and score, value, or nothing.
    _Entries = list[tuple[bytes, Value]]

#: Entries read from one structure at once, and structures read at once.
_ENTRIES, _STRUCTURES = 500, 16
#: Records read at once; most are a few hundred bytes.
_RECORDS = 200
#: Logs read at once, and lines of each.
_LOGS, _LINES = 20, 100
#: Live bitmaps read at once: half a megabyte.
_BITMAPS = 64
_FENCE = re.compile(rb"([1-8]\d{15}):")
_SCANS = {"zset": "ZSCAN", "hash": "HSCAN", "set": "SSCAN"}
#: Lists of the jobs that wait for a job.
_LISTS = ("then", "finally")
#: Sums over other structures: recomputed, not read entry by entry.
_SUMS = frozenset({"errors", "running"})


class Survey:
    """Everything that one shard has, and what of it is suspect."""

    def __init__(
        self,
        inspector: JobInspector,
        homes: ShardMap,
        on_steps: Callable[[int], None],
        survey_of: Callable[[int], Survey],
    ) -> None:
        self.shard = inspector.shard
        self.inspector = inspector
        #: Suspect jobs, and everything else that is suspect.
        self.jobs: dict[int, JobHints] = {}
        self.entries: list[EntrySuspect] = []
        #: Jobs that have a record.
        self.recorded = Bitset()
        self._homes = homes
        self._on_steps = on_steps
        #: Returns the survey of the shard that a job lives on.
        self._survey_of = survey_of
        #: The last sequence number when this began; younger jobs are left alone.
        self._last = 0
        self._fence = 0
        #: Jobs that have a log and so on.
        self._parts = {name: Bitset() for name in JOB_KEYS}
        #: Structures to read; a scan may return a key twice.
        self._structures: dict[str, KnownKey] = {}
        self._types: set[str] = set()
        self._bitmaps: set[int] = set()
        self._errors = ErrorTally()
        #: Jobs that are in a state; that were inspected; that were, for each type.
        self._placed = Bitset()
        self._inspected = Bitset()
        self._inspected_in: dict[str, Bitset] = {}
        self._pending: dict[int, JobHints] = {}
        self._weight = 0

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
                self.entries.append(entry_rules.key_suspect(self.shard, key))
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
        home, why = self.shard.number, "is not a key of Kue"
        if key is not None and key.job_type:
            home = shard_of_type(unquote(key.job_type), self._homes.shards)
            why = f"is of a type that lives on shard {home}"
        elif key is not None and key.kind in ("record", "part"):
            home = self._homes.shard_of(key.number)
            why = f"is of a job that lives on shard {home}"
            if self._homes.sequence_of(key.number) > MAX_SEQUENCE:
                key, why = None, "is of a job with a number that none can have"
        if key is not None and home == self.shard.number:
            return key
        self.entries.append(entry_rules.unknown_key(self.shard, text, why))
        return None

    def _take_key(self, key: KnownKey) -> None:
        if key.kind == "record":
            self.recorded.add(self._homes.sequence_of(key.number))
        elif key.kind == "part":
            self._parts[key.name].add(self._homes.sequence_of(key.number))
        elif key.kind == "live":
            self._bitmaps.add(key.number)
        else:
            self._structures[key.text] = key
            self._types |= {key.job_type} if key.job_type else set()

    # -- structures ------------------------------------------------------------

    async def run(self) -> None:
        """Read everything that keys were found of."""
        structures = filter(_is_read, self._structures.values())
        async for key, entries in self._read(structures):
            await self._check_entries(key, entries)
        await self._read_dependencies()
        await self._read_logs()
        await self._compare()
        await self._check_shard()

    async def _read(
        self, keys: Iterable[KnownKey]
    ) -> AsyncIterator[tuple[KnownKey, _Entries]]:
        """Yield the entries of structures, piece by piece, several at a time."""
        waiting, open_scans = iter(keys), dict[KnownKey, int]()
        while True:
            more = islice(waiting, _STRUCTURES - len(open_scans))
            open_scans |= dict.fromkeys(more, 0)
            if not open_scans:
                return
            commands: list[RedisCommand] = [
                (_SCANS[key.redis_type], self._name(key), cursor, "COUNT", _ENTRIES)
                for key, cursor in open_scans.items()
            ]
            replies = await self.shard.read(commands)
            found = list(zip(open_scans, replies, strict=True))
            open_scans = {key: int(at) for key, (at, _) in found if int(at)}
            for key, (_, entries) in found:
                if entries:
                    yield key, _entries_of(key, entries)

    def _name(self, key: KnownKey) -> str:
        return f"{self.shard.keys.root}:{key.text}"

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
                    entry_rules.inspected_entry(self.shard, key, member, self._types)
                    for member, _ in entries
                ]
            )
        elif rule is None or key.name == "progress":
            for member, _ in entries:
                job_id = self._job_of(key, member)
                if job_id is not None and key.kind == "type":
                    await self._inspect_in(job_id, key.job_type)
                elif job_id is not None:
                    places = {key.text} if key.job_type else set()
                    await self.inspect(job_id, JobHints(places))

    def _suspect(self, checked_as: str, key: KnownKey, member: bytes) -> None:
        self.entries.append(EntrySuspect(Entry(self.shard, checked_as, key, member)))

    def _job_of(self, key: KnownKey, member: bytes) -> int | None:
        """Return the job that a member is; one that cannot be a job is suspect."""
        text = member.decode("ascii", "replace")
        # Lists of dependants have jobs of all shards.
        shard = None if key.kind == "part" else self.shard.number
        if is_number(text) and self._homes.is_possible(int(text), shard):
            return int(text)
        self._suspect("not a job", key, member)
        return None

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
        sequence = self._homes.sequence_of(job_id)
        is_new = self._placed.add(sequence)
        if is_new and key.name == "failed":
            self._errors.add(key.job_type, record)
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

    # -- parts of jobs ---------------------------------------------------------

    async def _read_dependencies(self) -> None:
        """Inspect every job that others wait for, and all on its lists."""
        await self._inspect_rest(self._parts["after"])
        async for key, entries in self._read(self._lists()):
            for member, score in entries:
                child = self._job_of(key, member)
                if child is not None:
                    if score != child:
                        self._suspect("dependant", key, member)
                    hint = JobHints(parents={key.number})
                    await self._survey_of(child).inspect(child, hint)
        for name in _LISTS:
            await self._inspect_rest(self._parts[name])

    async def _inspect_rest(self, jobs: Bitset) -> None:
        for sequence in jobs.without(self._inspected):
            await self.inspect(self._id(sequence))

    def _lists(self) -> Iterable[KnownKey]:
        return (self._part(name, job) for name in _LISTS for job in self._parts[name])

    def _part(self, name: str, sequence: int) -> KnownKey:
        job_id = self._id(sequence)
        text = f"job:{job_id}:{name}"
        return KnownKey(text, JOB_KEYS[name], "part", name, number=job_id)

    def _id(self, sequence: int) -> int:
        return sequence * self._homes.shards + self.shard.number

    async def _read_logs(self) -> None:
        """Read every line of every log, several logs at a time."""
        waiting, logs = iter(self._parts["log"]), dict[KnownKey, int]()
        while True:
            more = islice(waiting, _LOGS - len(logs))
            logs |= {self._part("log", sequence): 0 for sequence in more}
            if not logs:
                return
            replies = await self.shard.read(
                [
                    ("LRANGE", self._name(key), at, at + _LINES - 1)
                    for key, at in logs.items()
                ]
            )
            found = list(zip(logs.items(), replies, strict=True))
            logs = {key: at + _LINES for (key, at), got in found if len(got) == _LINES}
            for (key, _), lines in found:
                for line in lines:
                    if not is_log_line(line):
                        self._suspect("log line", key, line)

    # -- comparisons -----------------------------------------------------------

    async def _compare(self) -> None:
        """Inspect jobs that are in one structure and not in another."""
        highest = self.recorded.highest
        if highest > max(self._last, await self._last_id()):
            # The counter is damaged: these jobs are not younger than the survey.
            self._last = highest
        live = await self._live()
        for known, other in (
            (self.recorded, self._placed),
            (live, self._placed),
            (self._placed, live),
            (self._parts["log"], self.recorded),
        ):
            for sequence in known.without(other):
                if sequence <= self._last and sequence not in self._inspected:
                    await self.inspect(self._id(sequence))

    async def _live(self) -> Bitset:
        """Read which jobs are marked as existing."""
        live, chunks = Bitset(), sorted(self._bitmaps)
        for start in range(0, len(chunks), _BITMAPS):
            part = chunks[start : start + _BITMAPS]
            bitmaps = await self._values([f"live:{chunk}" for chunk in part])
            for chunk, bitmap in zip(part, bitmaps, strict=True):
                live.load(chunk, bitmap)
        return live

    async def _check_shard(self) -> None:
        """Check types, groups and counters."""
        shard = self.shard
        suspects = [
            suspect
            for name in sorted(self._types)
            for suspect in entry_rules.type_suspects(shard, name)
        ]
        grouped = {
            key.job_type
            for key in self._structures.values()
            if key.kind == "type" and key.name in ("active", "running")
        }
        suspects += (
            entry_rules.groups_suspect(shard, name) for name in sorted(grouped)
        )
        highest = self.recorded.highest
        suspects.append(entry_rules.counter_suspect(shard, "ids", highest))
        suspects.append(entry_rules.counter_suspect(shard, "fence", self._fence))
        await self._check_suspects(suspects)

    async def _check_suspects(self, suspects: list[EntrySuspect]) -> None:
        for start in range(0, len(suspects), MAX_JOBS):
            part = suspects[start : start + MAX_JOBS]
            found = await self.shard.inspect([suspect.subject for suspect in part])
            for suspect, inspection in zip(part, found, strict=True):
                if suspect.findings(inspection):
                    self.entries.append(suspect)

    # -- jobs ------------------------------------------------------------------

    async def _inspect_in(self, job_id: int, job_type: str, size: int = 0) -> None:
        """Inspect a job in a type, unless that was done before."""
        inspected = self._inspected_in.setdefault(job_type, Bitset())
        if inspected.add(self._homes.sequence_of(job_id)):
            await self.inspect(job_id, JobHints({job_type}, size=size))

    async def inspect(self, job_id: int, hint: JobHints | None = None) -> None:
        """Inspect a job, soon."""
        pending = self._pending.get(job_id)
        before = 0 if pending is None else pending.weight
        pending = self._pending.setdefault(job_id, JobHints())
        pending.merge(hint or JobHints())
        self._inspected.add(self._homes.sequence_of(job_id))
        # A job with many parents comes many times before it is inspected.
        self._weight += pending.weight - before
        if self._weight >= MAX_JOBS:
            await self.flush()

    async def flush(self) -> None:
        """Inspect the jobs that are pending; remember the suspects."""
        hints, self._pending, self._weight = self._pending, {}, 0
        for facts in await self.inspector.read(hints):
            if check_job(facts):
                job_id = facts.job_id
                self.jobs.setdefault(job_id, JobHints()).merge(hints[job_id])

    # -- errors ----------------------------------------------------------------

    def error_counts(self) -> list[ErrorCounts]:
        """Return the error counts of all types."""
        names = sorted(self._types)
        return [ErrorCounts(self.shard, self._homes, name) for name in names]

    async def wrong_error_counts(self) -> list[ErrorCounts]:
        """Return the error counts that differ from the failed jobs that were read."""
        counts, found = self.error_counts(), list[ErrorCounts]()
        for start in range(0, len(counts), MAX_JOBS):
            part = counts[start : start + MAX_JOBS]
            inspections = await self.shard.inspect([one.subject for one in part])
            for one, inspection in zip(part, inspections, strict=True):
                if not self._errors.agrees(one.job_type, inspection):
                    found.append(one)
        return found


def _is_read(key: KnownKey) -> bool:
    is_sum = key.kind == "type" and key.name in _SUMS
    return key.redis_type in _SCANS and not is_sum


def _entries_of(key: KnownKey, found: Any) -> _Entries:
    if key.redis_type == "set":
        return [(member, b"") for member in found]
    if key.redis_type == "zset":
        return [(member, float(score)) for member, score in pairs(found)]
    return list(pairs(found))
