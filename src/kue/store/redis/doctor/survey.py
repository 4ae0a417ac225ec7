"""
The first pass over a shard: everything there is, and what of it needs a closer look.

Jobs move while this goes on, so what it finds are suspicions, no more.  Memory is a few
bits a job and what is suspicious; everything else streams by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kue.model.names import unquote
from kue.store.redis.doctor import shardwide
from kue.store.redis.doctor.bits import Bits
from kue.store.redis.doctor.errors import ErrorsCase, Tally
from kue.store.redis.doctor.jobs import MAX_LOOKS, Examiner, Sighting
from kue.store.redis.doctor.keyspace import Key, read_key
from kue.store.redis.keys import JOB_KEYS, MAX_SEQUENCE, shard_of_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.store.redis.doctor.case import PlainCase
    from kue.store.redis.doctor.layout import Layout

#: Live bitmaps read in one go: half a megabyte.
_BITMAPS = 64


class Survey:
    """What one shard has, as far as it was seen."""

    def __init__(
        self, examiner: Examiner, layout: Layout, on_steps: Callable[[int], None]
    ) -> None:
        self.shard = examiner.shard
        self.examiner = examiner
        self.layout = layout
        self.on_steps = on_steps
        #: The last sequence number when this began; younger jobs are left alone.
        self.last = 0
        #: Jobs that have a record, and those that have a log and so on.
        self.recorded = Bits()
        self.parts = {name: Bits() for name in JOB_KEYS}
        #: Jobs that were looked at closely, and that in each type.
        self.looked = Bits()
        self._looked_in: dict[str, Bits] = {}
        #: Structures to walk; a scan may find a key twice.
        self.structures: dict[str, Key] = {}
        self.types: set[str] = set()
        #: Suspicious jobs, and suspicious everything else.
        self.jobs: dict[int, Sighting] = {}
        self.cases: list[PlainCase] = []
        #: What failed jobs failed of.
        self.errors = Tally()
        self._bitmaps: set[int] = set()
        self._pending: dict[int, Sighting] = {}
        self._weight = 0

    async def begin(self) -> None:
        """Find out how far ids go."""
        self.last = await self._last_id()

    async def catch_up(self) -> None:
        """Leave no job out for being young if it is the counter that is damaged."""
        if self.recorded.highest > max(self.last, await self._last_id()):
            self.last = self.recorded.highest

    async def live(self) -> Bits:
        """Read which jobs are marked as living."""
        live = Bits()
        chunks = sorted(self._bitmaps)
        for start in range(0, len(chunks), _BITMAPS):
            part = chunks[start : start + _BITMAPS]
            bitmaps = await self._values([f"live:{chunk}" for chunk in part])
            for chunk, bitmap in zip(part, bitmaps, strict=True):
                live.load(chunk, bitmap)
        return live

    async def _last_id(self) -> int:
        [last] = await self._values(["ids"])
        return int(last) if last.isdigit() else 0

    async def _values(self, names: list[str]) -> list[bytes]:
        """Read strings; what is none, or of another Redis type, counts as empty."""
        seen = await self.shard.inspect([("value", name) for name in names])
        return [b"".join(one.facts) for one in seen]

    async def take_keys(self, texts: list[bytes]) -> None:
        """Sort keys that were found, given without their tag, by what they are."""
        known: list[Key] = []
        for text in texts:
            key = self._place(text)
            if key is not None:
                known.append(key)
        subject: list[Any] = ["keys"]
        for key in known:
            subject += (key.text, key.redis_type)
        [odd] = await self.shard.inspect([tuple(subject)])
        wrong = self._judge_keys(known, odd.facts)
        for key in known:
            if key.text not in wrong:
                self._file(key)

    def _place(self, text: bytes) -> Key | None:
        """Return what a key is; suspect it when it should not be here."""
        try:
            key = read_key(text.decode())
        except UnicodeDecodeError:
            key = None
        why = ""
        if key is None:
            why = "is none of Kue's"
        elif key.job_type:
            home = shard_of_type(unquote(key.job_type), self.layout.shards)
            if home != self.shard.number:
                why = f"is of a type that lives on shard {home}"
        elif key.kind in ("record", "part"):
            why = self._misplaced(key.number)
        if why:
            self.cases.append(shardwide.unknown_key(self.shard, text, why))
            return None
        return key

    def _misplaced(self, job_id: int) -> str:
        """Return why a job cannot be here; nothing if it can."""
        if self.layout.sequence_of(job_id) > MAX_SEQUENCE:
            return "is of a job with a number that none can have"
        home = self.layout.shard_of(job_id)
        is_here = home == self.shard.number
        return "" if is_here else f"is of a job that lives on shard {home}"

    def _judge_keys(self, known: list[Key], odd: list[bytes]) -> set[str]:
        """Suspect keys that are not as they should be; return those to stay off."""
        by_text = {key.text: key for key in known}
        wrong: set[str] = set()
        for text, kind in zip(odd[::3], odd[1::3], strict=True):
            key = by_text[text.decode()]
            is_wrong = kind.decode() != key.redis_type
            if is_wrong:
                wrong.add(key.text)
            if is_wrong or not key.may_expire:
                self.cases.append(shardwide.known_key(self.shard, key))
        return wrong

    def _file(self, key: Key) -> None:
        match key.kind:
            case "record":
                self.recorded.add(self.layout.sequence_of(key.number))
            case "part":
                self.parts[key.name].add(self.layout.sequence_of(key.number))
            case "live":
                self._bitmaps.add(key.number)
            case "type" | "held":
                self.structures[key.text] = key
                self.types.add(key.job_type)
            case _:
                self.structures[key.text] = key

    async def sight_in(self, job_id: int, job_type: str, size: int = 0) -> None:
        """Have a job that a type knows of looked at, unless it was there before."""
        looked = self._looked_in.setdefault(job_type, Bits())
        if looked.add(self.layout.sequence_of(job_id)):
            await self.sight(job_id, Sighting({job_type}, size=size))

    async def sight(self, job_id: int, sighting: Sighting | None = None) -> None:
        """Have a job looked at closely, soon."""
        pending = self._pending.get(job_id)
        before = 0 if pending is None else pending.weight
        pending = self._pending.setdefault(job_id, Sighting())
        pending.merge(sighting or Sighting())
        self.looked.add(self.layout.sequence_of(job_id))
        # A job with many parents is sighted many times before it is looked at.
        self._weight += pending.weight - before
        if self._weight >= MAX_LOOKS:
            await self.look()

    async def look(self) -> None:
        """Look at the jobs that were sighted; remember those that something ails."""
        sightings, self._pending, self._weight = self._pending, {}, 0
        for job_id, look in (await self.examiner.look(sightings)).items():
            if look.troubles:
                self.jobs.setdefault(job_id, Sighting()).merge(sightings[job_id])

    async def miscounted(self) -> list[ErrorsCase]:
        """Return the types whose errors are not as their failed jobs were met."""
        suspects: list[ErrorsCase] = []
        cases = self.error_cases()
        for start in range(0, len(cases), MAX_LOOKS):
            part = cases[start : start + MAX_LOOKS]
            seen = await self.shard.inspect([case.subject for case in part])
            suspects += (
                case
                for case, one in zip(part, seen, strict=True)
                if not self.errors.agrees(case.job_type, one)
            )
        return suspects

    def error_cases(self) -> list[ErrorsCase]:
        """Return the errors of all types."""
        return [
            ErrorsCase(self.shard, self.layout, name) for name in sorted(self.types)
        ]

    async def sift(self, cases: list[PlainCase]) -> None:
        """Look at things that are no jobs; remember those that something ails."""
        for start in range(0, len(cases), MAX_LOOKS):
            part = cases[start : start + MAX_LOOKS]
            seen = await self.shard.inspect([case.subject for case in part])
            self.cases += (
                case for case, one in zip(part, seen, strict=True) if case.judge(one)
            )
