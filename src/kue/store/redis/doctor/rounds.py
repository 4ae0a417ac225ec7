"""Going through every structure of a shard, a piece at a time."""

from __future__ import annotations

import re
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from kue.store.redis.doctor import shardwide, timetable
from kue.store.redis.doctor.bits import Bits
from kue.store.redis.doctor.forms import Form, form_of, is_log_line, odd_entry
from kue.store.redis.doctor.jobs import Sighting
from kue.store.redis.doctor.keyspace import Key, is_number
from kue.store.redis.doctor.screening import is_unremarkable, parents_of
from kue.store.redis.keys import JOB_KEYS, PLACES
from kue.store.redis.wire.client import pairs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from kue.store.redis.doctor.case import PlainCase
    from kue.store.redis.doctor.shard import Command
    from kue.store.redis.doctor.survey import Survey

#: Entries asked for in one reply of one structure.
_COUNT = 500
#: Structures read at once.
_AT_ONCE = 16
#: Records read at once; most are a few hundred bytes.
_RECORDS = 200
_FENCE = re.compile(rb"([1-8]\d{15}):")
#: Whom a job tells of its end.
_LISTS = ("then", "finally")
_SCANS = {"zset": "ZSCAN", "hash": "HSCAN", "set": "SSCAN"}
#: Sums of what other structures hold: counted again, not gone through.
_SUMS = frozenset({"errors", "running"})
#: Logs read at once, and lines of each.
_LOGS, _LINES = 20, 100


class Entry(NamedTuple):
    """What a structure says of one member."""

    member: bytes
    #: A score, a hash's value, or nothing.
    value: bytes | float


class Met(NamedTuple):
    """A job that was met in a structure that means a state."""

    job_id: int
    key: Key
    value: bytes | float


class Rounds:
    """Walks one shard; `Survey` remembers what is suspicious."""

    def __init__(self, survey: Survey, elsewhere: Callable[[int], Survey]) -> None:
        self._survey = survey
        self._shard = survey.shard
        self._layout = survey.layout
        #: Gives the survey of the shard that a job lives on.
        self._elsewhere = elsewhere
        self._seen = Bits()
        self._fence = 0

    async def walk(self) -> None:
        """Go through everything that the survey has found keys of."""
        await self._walk_structures()
        await self._walk_ties()
        await self._walk_logs()
        await self._compare()
        await self._judge_the_rest()

    async def _walk_structures(self) -> None:
        async for key, entries in self._read(self._survey.structures.values()):
            form = form_of(key)
            if form is not None:
                self._compare_with(form, key, entries)
            match key.kind, key.name:
                case "type", name if name in PLACES:
                    await self._meet(key, entries)
                case "type", "unique":
                    judged = partial(shardwide.unique_key, self._shard, key.job_type)
                    await self._sift(judged, entries)
                case "type", "lapse":
                    judged = partial(shardwide.lapsing_key, self._shard, key.job_type)
                    await self._sift(judged, entries)
                case "shard", "outbox":
                    judged = partial(shardwide.outbox_entry, self._shard)
                    await self._sift(judged, entries)
                case "shard", "schedules" | "due":
                    judged = partial(timetable.schedule, self._shard)
                    await self._sift(judged, entries)
                case "shard", "kept" | "fading":
                    judged = partial(shardwide.fading_record, self._shard)
                    await self._sift(judged, entries)
                case "shard", "agenda":
                    types = self._survey.types
                    judged = partial(shardwide.next_look, self._shard, types)
                    await self._sift(judged, entries)
                case _, "progress":
                    await self._sight(key, entries)
                case _ if form is None:
                    await self._sight(key, entries)

    def _compare_with(self, form: Form, key: Key, entries: list[Entry]) -> None:
        """Suspect entries that are not as Kue writes them."""
        self._survey.cases += (
            odd_entry(self._shard, key, form, entry.member)
            for entry in entries
            if not form.is_sound(entry.member, entry.value)
        )

    async def _read(
        self, keys: Iterable[Key]
    ) -> AsyncIterator[tuple[Key, list[Entry]]]:
        """Yield what structures hold, piece by piece, several at a time."""
        waiting = filter(_is_walked, keys)
        under_way: list[tuple[Key, int]] = []
        while True:
            under_way += [
                (key, 0) for key in islice(waiting, _AT_ONCE - len(under_way))
            ]
            if not under_way:
                return
            commands: list[Command] = [
                (_SCANS[key.redis_type], self._name(key), cursor, "COUNT", _COUNT)
                for key, cursor in under_way
            ]
            replies = await self._shard.read(commands)
            unfinished: list[tuple[Key, int]] = []
            for (key, _), (cursor, found) in zip(under_way, replies, strict=True):
                if int(cursor):
                    unfinished.append((key, int(cursor)))
                if found:
                    yield key, _entries(key, found)
            under_way = unfinished

    def _name(self, key: Key) -> str:
        return f"{self._shard.keys.root}:{key.text}"

    def _id_of(self, key: Key, member: bytes) -> int | None:
        """Return the job that a member is; suspect one that cannot be."""
        text = member.decode("ascii", "replace")
        if is_number(text) and self._layout.is_at_home(int(text), self._shard.number):
            return int(text)
        self._survey.cases.append(shardwide.odd_member(self._shard, key, member))
        return None

    async def _meet(self, key: Key, entries: list[Entry]) -> None:
        """Compare jobs in a structure that means a state with their records."""
        met: list[Met] = []
        for entry in entries:
            job_id = self._id_of(key, entry.member)
            if job_id is not None:
                met.append(Met(job_id, key, entry.value))
        for start in range(0, len(met), _RECORDS):
            part = met[start : start + _RECORDS]
            names = [self._shard.keys.job(one.job_id) for one in part]
            [records] = await self._shard.read([("MGET", *names)])
            for one, record in zip(part, records, strict=True):
                await self._screen(one, record)
        self._survey.on_steps(len(entries))

    async def _screen(self, met: Met, record: bytes | None) -> None:
        job_id, key = met.job_id, met.key
        sequence = self._layout.sequence_of(job_id)
        is_new = self._seen.add(sequence)
        if is_new and key.name == "failed":
            self._survey.errors.note(key.job_type, record)
        if isinstance(met.value, bytes):
            run = _FENCE.match(met.value)
            self._fence = max(self._fence, int(run[1]) if run else 0)
        elif is_new and is_unremarkable(
            job_id, sequence, key.job_type.encode(), key.name, met.value, record
        ):
            return
        size = len(record or b"")
        if key.name == "blocked":
            sighting = Sighting({key.job_type}, parents_of(job_id, record), size)
            await self._survey.sight(job_id, sighting)
        else:
            await self._survey.sight_in(job_id, key.job_type, size)

    async def _sight(self, key: Key, entries: list[Entry]) -> None:
        """Look at jobs that a structure other than a state's knows of."""
        for entry in entries:
            job_id = self._id_of(key, entry.member)
            if job_id is None:
                continue
            if key.kind == "type":
                await self._survey.sight_in(job_id, key.job_type)
            else:
                places = {key.text} if key.job_type else set()
                await self._survey.sight(job_id, Sighting(places))

    async def _sift(
        self, judged: Callable[[bytes], PlainCase], entries: list[Entry]
    ) -> None:
        """Look at members of a structure that are no jobs."""
        await self._survey.sift([judged(entry.member) for entry in entries])

    async def _walk_ties(self) -> None:
        """Look at every job that others wait for, and at all on its lists."""
        survey = self._survey
        for sequence in survey.parts["after"].without(survey.looked):
            await survey.sight(self._id(sequence))
        async for key, entries in self._read(self._lists()):
            for entry in entries:
                text = entry.member.decode("ascii", "replace")
                if is_number(text) and self._layout.is_at_home(int(text)):
                    child = int(text)
                    if entry.value != child:
                        case = shardwide.listed_dependant(self._shard, key, child)
                        survey.cases.append(case)
                    tied = Sighting(parents={key.number})
                    await self._elsewhere(child).sight(child, tied)
                else:
                    odd = shardwide.odd_member(self._shard, key, entry.member)
                    survey.cases.append(odd)
        for name in _LISTS:
            for sequence in survey.parts[name].without(survey.looked):
                await survey.sight(self._id(sequence))

    def _lists(self) -> Iterable[Key]:
        for name in _LISTS:
            for sequence in self._survey.parts[name]:
                job_id = self._id(sequence)
                text = f"job:{job_id}:{name}"
                yield Key(text, JOB_KEYS[name], "part", name, number=job_id)

    async def _walk_logs(self) -> None:
        """Read every line of every log, a few at a time."""
        waiting = iter(self._survey.parts["log"])
        under_way: list[tuple[int, int]] = []
        while True:
            room = _LOGS - len(under_way)
            under_way += [(self._id(sequence), 0) for sequence in islice(waiting, room)]
            if not under_way:
                return
            replies = await self._shard.read(
                [
                    ("LRANGE", self._shard.keys.log(job_id), at, at + _LINES - 1)
                    for job_id, at in under_way
                ]
            )
            unfinished: list[tuple[int, int]] = []
            for (job_id, at), lines in zip(under_way, replies, strict=True):
                self._survey.cases += (
                    shardwide.log_line(self._shard, job_id, line)
                    for line in lines
                    if not is_log_line(line)
                )
                if len(lines) == _LINES:
                    unfinished.append((job_id, at + _LINES))
            under_way = unfinished

    def _id(self, sequence: int) -> int:
        return sequence * self._layout.shards + self._shard.number

    async def _compare(self) -> None:
        """Look at jobs that one place knows of and another does not."""
        survey = self._survey
        await survey.catch_up()
        live = await survey.live()
        for known, other in (
            (survey.recorded, self._seen),
            (live, self._seen),
            (self._seen, live),
            (survey.parts["log"], survey.recorded),
        ):
            for sequence in known.without(other):
                if sequence <= survey.last and sequence not in survey.looked:
                    await survey.sight(self._id(sequence))

    async def _judge_the_rest(self) -> None:
        survey, shard = self._survey, self._shard
        types = sorted(survey.types)
        cases = [shardwide.type_known(shard, name) for name in types]
        cases += (shardwide.type_looked_at(shard, name) for name in types)
        counted = {
            key.job_type
            for key in survey.structures.values()
            if key.kind == "type" and key.name in ("active", "running")
        }
        cases += (shardwide.groups(shard, name) for name in sorted(counted))
        highest = survey.recorded.highest
        cases.append(shardwide.counter(shard, "ids", highest, "a job"))
        cases.append(shardwide.counter(shard, "fence", self._fence, "a run"))
        await survey.sift(cases)


def _is_walked(key: Key) -> bool:
    match key.kind:
        case "shard" | "type":
            return key.redis_type in _SCANS and key.name not in _SUMS
        case _:
            return True


def _entries(key: Key, found: Any) -> list[Entry]:
    if key.redis_type == "set":
        return [Entry(member, b"") for member in found]
    if key.redis_type == "zset":
        return [Entry(member, float(score)) for member, score in pairs(found)]
    return [Entry(member, value) for member, value in pairs(found)]
