"""Adding jobs, with idempotent calls: the verb `add`, one script call per shard."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kue.model.errors import DurabilityUnknown, StoreUnavailable
from kue.model.job import State
from kue.store.batches import bytes_of_draft, split
from kue.store.redis.add_script import (
    AddCall,
    add_part,
    arguments,
    behind,
    refusal,
    targets_of,
    tie_of,
    ties_of,
)
from kue.store.redis.links import end_hold, join_target, link_to_parent
from kue.store.redis.verbs.pages import get
from kue.store.validation import check_drafts
from kue.store.values import REFUSED, Added

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kue.model.job import Draft
    from kue.store.redis.sharding import Shards

#: Producers whose last sequence number is remembered, with several shards.
MAX_SEQS = 10_000
#: Links to other shards that are made at the same time.
_AT_ONCE = 16


async def reserve(
    db: Shards, types: Sequence[str], *, now: int | None = None
) -> list[int]:
    homes = [db.home_of(one) for one in types]
    nexts: dict[int, int] = {}
    for shard in dict.fromkeys(homes):
        nexts[shard] = await db.run(shard, "reserve", homes.count(shard), now=now)
    ids: list[int] = []
    for shard in homes:
        ids.append(nexts[shard] * db.count + shard)
        nexts[shard] += 1
    return ids


async def add(
    db: Shards,
    drafts: Sequence[Draft],
    *,
    producer: str,
    seq: int,
    durable: bool = False,
    now: int | None = None,
) -> list[Added]:
    ties = ties_of(drafts) if check_drafts(drafts) else ()
    _check_seq(db, producer, seq)
    call = AddCall(producer, seq, durable, now)
    parts = split(drafts, bytes_of_draft)
    if db.count == 1 and len(parts) == 1:
        confirmed, added = await add_part(db, 0, call, 0, arguments(drafts, ties))
    else:
        adding = _AddInParts(db, drafts, call)
        try:
            confirmed, added = await adding.run()
        except StoreUnavailable as exc:
            exc.is_unknown = exc.is_unknown or adding.has_begun
            raise
    if not confirmed and (stored := [one.id for one in added if not one.is_refused]):
        raise DurabilityUnknown(stored)
    return added


def _check_seq(db: Shards, producer: str, seq: int) -> None:
    """Reject a call older than the last; a shard knows only the calls it got."""
    if db.count == 1:
        return
    if seq < db.last_seqs.get(producer, seq):
        raise behind(producer, seq)
    db.last_seqs[producer] = seq
    if len(db.last_seqs) > MAX_SEQS:
        del db.last_seqs[next(iter(db.last_seqs))]


class _AddInParts:
    """
    Adds the drafts of one call on several shards, or with several scripts.

    A draft that refers to one of another part comes later than that, so that its id is
    known.  The same call has the same parts, and so adds each of them once.
    """

    def __init__(self, db: Shards, drafts: Sequence[Draft], call: AddCall) -> None:
        self._db = db
        self._drafts = drafts
        self._call = call
        self._targets = targets_of(drafts)
        self._added: dict[int, Added] = {}
        #: Of the part that is being added: position in the call → number in the part.
        self._numbers: dict[int, int] = {}
        self._parts = list(self._split())
        self._held = self._named_elsewhere()
        #: Flows whose jobs are gone.
        self._missing: set[int] = set()

    @property
    def has_begun(self) -> bool:
        """Whether a part was added."""
        return bool(self._added)

    async def run(self) -> tuple[bool, list[Added]]:
        """Return whether all is confirmed, and what was added."""
        refused = await self._find_refusal()
        all_confirmed, numbers = True, dict[int, int]()
        for shard, positions in self._parts:
            number = numbers.setdefault(shard, 0)
            numbers[shard] += 1
            args, sent = self._arguments(positions)
            if refused is not None:
                args = [refused[0], "", refused[1], "refuse", 0]
            if sent or refused is not None:
                confirmed, added = await add_part(
                    self._db, shard, self._call, number, args
                )
                all_confirmed = all_confirmed and confirmed
                self._added.update(zip(sent, added, strict=True))
        await self._link()
        return all_confirmed, [self._added[at] for at in range(len(self._drafts))]

    # -- parts -----------------------------------------------------------------

    def _split(self) -> Iterator[tuple[int, list[int]]]:
        """Yield the parts in order: the shard, and positions of drafts."""
        waves: dict[tuple[int, int], list[int]] = {}
        wave_of: list[int] = []
        last: dict[int, int] = {}
        for position, draft in enumerate(self._drafts):
            home = self._home(position)
            wave = last.get(home, 0)
            for other in self._refers_to(draft, position):
                wave = max(wave, wave_of[other] + (self._home(other) != home))
            last[home] = wave
            wave_of.append(wave)
            waves.setdefault((wave, home), []).append(position)
        for (_, shard), positions in sorted(waves.items(), key=lambda item: item[0][0]):
            for part in split(positions, lambda at: bytes_of_draft(self._drafts[at])):
                yield shard, list(part)

    def _refers_to(self, draft: Draft, position: int) -> Iterator[int]:
        flow = () if draft.flow is None else (draft.flow,)
        for ref in (*draft.spec.after, *draft.before, *flow):
            if ref < 0 and -ref - 1 != position:
                yield -ref - 1

    def _home(self, position: int) -> int:
        return self._db.home_of(self._drafts[position].type)

    def _named_elsewhere(self) -> set[int]:
        """Return the targets that drafts of other parts come before."""
        part_of = {
            position: number
            for number, (_, positions) in enumerate(self._parts)
            for position in positions
        }
        return {
            -ref - 1
            for position, draft in enumerate(self._drafts)
            for ref in draft.before
            if ref < 0 and part_of[-ref - 1] != part_of[position]
        }

    def _arguments(self, positions: list[int]) -> tuple[list[Any], list[int]]:
        """Return the arguments of a part, and the positions of what it adds."""
        self._numbers = {}
        ties: list[str] = []
        sent: list[int] = []
        for position in positions:
            draft = self._drafts[position]
            if any(
                self._is_refused(other) for other in self._refers_to(draft, position)
            ):
                self._added[position] = REFUSED
                continue
            self._numbers[position] = len(sent) + 1
            target = "1" if position in self._targets else ""
            target = "2" if position in self._held else target
            ties.append(tie_of(draft, target, self._resolve, self._missing))
            sent.append(position)
        return arguments([self._drafts[at] for at in sent], ties), sent

    def _is_refused(self, position: int) -> bool:
        return position in self._added and self._added[position].is_refused

    def _resolve(self, ref: int) -> str:
        """Return the id of a job; of one in the same part its number there."""
        if ref > 0:
            return str(ref)
        added = self._added.get(-ref - 1)
        return f"-{self._numbers[-ref - 1]}" if added is None else str(added.id)

    # -- what is known before, and done afterwards -------------------------------

    async def _find_refusal(self) -> tuple[int, str] | None:
        """
        Return a job because of which the whole call is refused, and why.

        Looked up before the first part, so that none is added then.  A script does not
        refuse a call that it has answered before.
        """
        parents, targets, flows = self._named()
        lasts = await self._db.read_all("GET", "ids") if parents else []
        for parent in parents:
            sequence, shard = divmod(parent, self._db.count)
            if not 0 < sequence <= int(lasts[shard] or 0):
                return parent, "unknown"
        for target, job in zip(targets, await get(self._db, targets), strict=True):
            if job is None or job.state is not State.BLOCKED:
                return target, "gone" if job is None else job.state.value
        for flow in flows:
            shard = self._db.shard_of(flow)
            key = self._db.keys[shard].job(flow)
            if not await self._db.read(shard, "EXISTS", key):
                self._missing.add(flow)
        return None

    def _named(self) -> tuple[list[int], list[int], list[int]]:
        """Return the stored jobs in `after`, in `before` and in `flow`."""
        drafts = self._drafts
        parents = {ref for draft in drafts for ref in draft.spec.after if ref > 0}
        targets = {ref for draft in drafts for ref in draft.before if ref > 0}
        flows = {draft.flow for draft in drafts if (draft.flow or 0) > 0}
        return sorted(parents), sorted(targets), sorted(filter(None, flows))

    async def _link(self) -> None:
        """Register the new jobs with those on other shards, and end what was held."""
        db, now = self._db, self._call.now
        links, joins = self._across()
        _, named, _ = self._named()
        for start in range(0, len(links), _AT_ONCE):
            part = links[start : start + _AT_ONCE]
            await asyncio.gather(*(link_to_parent(db, *pair, now=now) for pair in part))
        for start in range(0, len(joins), _AT_ONCE):
            part = joins[start : start + _AT_ONCE]
            calls = (join_target(db, *pair, now=now) for pair in part)
            for (target, _), word in zip(
                part, await asyncio.gather(*calls), strict=True
            ):
                # One that a draft refers to need not be blocked.
                if word != "joined" and target in named:
                    raise refusal(target, word)
        for position in sorted(self._held):
            if self._added[position].new:
                await end_hold(db, self._added[position].id, now=now)

    def _across(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return new jobs with parents, and targets with new jobs, of other shards."""
        links: list[tuple[int, int]] = []
        joins: list[tuple[int, int]] = []
        shard_of = self._db.shard_of
        for position, draft in enumerate(self._drafts):
            one = self._added[position]
            if one.new:
                after, before = self._ids(draft.spec.after), self._ids(draft.before)
                links += [(one.id, parent) for parent in after]
                joins += [(target, one.id) for target in before]
        return (
            [pair for pair in links if shard_of(pair[0]) != shard_of(pair[1])],
            [pair for pair in joins if shard_of(pair[0]) != shard_of(pair[1])],
        )

    def _ids(self, refs: Sequence[int]) -> list[int]:
        return [ref if ref > 0 else self._added[-ref - 1].id for ref in refs]
