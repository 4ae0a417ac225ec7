"""Adding jobs, with idempotent calls: the verb `add`, one script call per shard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kue.model.errors import DurabilityUnknown, StoreUnavailable
from kue.model.names import quote
from kue.store.batches import bytes_of_draft, producer_of_part, split
from kue.store.codec import body_of
from kue.store.redis.record import options_of, priority_field
from kue.store.validation import InvalidCall, check_batch
from kue.store.values import REFUSED, Added

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.model.job import Draft
    from kue.store.redis.sharding import Shards

#: How many schedules an add fires, for ``add.lua``.
NO_SCHEDULES = 0
#: Producers whose last sequence number is remembered, with several shards.
MAX_SEQS = 10_000
#: Calls of ``drop_oldest.lua`` after one add; if a cap was lowered, the next continues.
MAX_DROP_CALLS = 10
#: How long a `durable` add waits for a replica.
DURABLE_WAIT_MS = 2000


class _AddCall(NamedTuple):
    """Parameters that all parts of one call to `add` share."""

    producer: str
    seq: int
    durable: bool
    now: int | None
    #: What was added so far, part by part.
    parts: list[list[Added]]


async def add(
    db: Shards,
    drafts: Sequence[Draft],
    *,
    producer: str,
    seq: int,
    durable: bool = False,
    now: int | None = None,
) -> list[Added]:
    check_batch(drafts, "drafts")
    _check_seq(db, producer, seq)
    call = _AddCall(producer, seq, durable, now, [])
    try:
        if db.count == 1:
            confirmed, added = await _add_at(db, 0, drafts, call)
        else:
            confirmed, added = await _add_at_homes(db, drafts, call)
            await _link_across(db, drafts, added, now=now)
    except StoreUnavailable as exc:
        exc.is_unknown = exc.is_unknown or bool(call.parts)
        raise
    if not confirmed and (stored := [one.id for one in added if not one.is_refused]):
        raise DurabilityUnknown(stored)
    return added


async def _add_at_homes(
    db: Shards, drafts: Sequence[Draft], call: _AddCall
) -> tuple[bool, list[Added]]:
    """Add each draft on the shard of its type; return whether all are confirmed."""
    homes: dict[int, list[int]] = {}
    for position, draft in enumerate(drafts):
        homes.setdefault(db.home_of(draft.type), []).append(position)
    found: dict[int, Added] = {}
    all_confirmed = True
    for shard, positions in homes.items():
        chosen = [drafts[position] for position in positions]
        confirmed, added = await _add_at(db, shard, chosen, call)
        all_confirmed = all_confirmed and confirmed
        found.update(zip(positions, added, strict=True))
    return all_confirmed, [found[position] for position in range(len(drafts))]


async def _add_at(
    db: Shards, shard: int, drafts: Sequence[Draft], call: _AddCall
) -> tuple[bool, list[Added]]:
    """Add drafts on one shard, in as many scripts as their size requires."""
    added: list[Added] = []
    all_confirmed = True
    for number, part in enumerate(split(drafts, bytes_of_draft)):
        name = producer_of_part(call.producer, number)
        args = (name, call.seq, NO_SCHEDULES, *arguments(part))
        if call.durable:
            reply, confirmed = await _add_durably(db, shard, args, now=call.now)
            all_confirmed = all_confirmed and confirmed
        else:
            reply = await db.run(shard, "add", *args, now=call.now)
        if reply[0] != b"OK":
            raise _behind(name, call.seq)
        call.parts.append(read_added(reply[1]))
        added += call.parts[-1]
        await drop_oldest(db, shard, reply[2:], now=call.now)
    return all_confirmed, added


async def drop_oldest(
    db: Shards, shard: int, types: Sequence[bytes], *, now: int | None
) -> None:
    """Cancel jobs of types that have more waiting than their caps allow."""
    for job_type in types:
        for _ in range(MAX_DROP_CALLS):
            if not await db.run(shard, "drop_oldest", job_type, now=now):
                break


async def _add_durably(
    db: Shards, shard: int, args: tuple[Any, ...], *, now: int | None
) -> tuple[list[bytes], bool]:
    """Return the reply of the script, and whether a replica has the jobs."""
    await db.open()
    root = db.keys[shard].root
    head = ("" if now is None else now, db.count, shard)
    return await db.client.run_durably(
        "add", root, *head, *args, wait_ms=DURABLE_WAIT_MS
    )


def _check_seq(db: Shards, producer: str, seq: int) -> None:
    """Reject a call older than the last; a shard knows only the calls it got."""
    if db.count == 1:
        return
    if seq < db.last_seqs.get(producer, seq):
        raise _behind(producer, seq)
    db.last_seqs[producer] = seq
    if len(db.last_seqs) > MAX_SEQS:
        del db.last_seqs[next(iter(db.last_seqs))]


async def _link_across(
    db: Shards, drafts: Sequence[Draft], added: list[Added], *, now: int | None
) -> None:
    """Register the new jobs with the parents they wait for on other shards."""
    for draft, one in zip(drafts, added, strict=True):
        for parent in draft.spec.after:
            if one.new and db.shard_of(parent) != db.shard_of(one.id):
                await link_to_parent(db, one.id, parent, now=now)


async def link_to_parent(
    db: Shards, job_id: int, parent: int, *, now: int | None
) -> int:
    """
    Process one "link" of the outbox: *job_id* waits for *parent* elsewhere.

    Each step is idempotent; the entry is deleted only when all are done.
    """
    home = db.shard_of(job_id)
    entry = f"link:{job_id}:{parent}"
    root = db.keys[home].root
    outbox = db.keys[home].of_shard("outbox")
    any_end = await db.client.read(root, "HGET", outbox, entry)
    if any_end is None:
        return 0
    word = await db.run(db.shard_of(parent), "link", parent, job_id, any_end, now=now)
    released = 0
    if word != b"linked":
        released = await db.run(home, "unblock", job_id, parent, word, any_end, now=now)
    await db.client.read(root, "HDEL", outbox, entry)
    return int(released)


def _behind(producer: str, seq: int) -> InvalidCall:
    return InvalidCall(
        f"seq {seq} of producer {producer!r} is behind its last call; "
        "a producer makes one call at a time, with increasing numbers"
    )


def arguments(drafts: Sequence[Draft]) -> list[Any]:
    """Return drafts as ``add.lua`` takes them: grouped by header, in the same order."""
    args: list[Any] = []
    group: tuple[str, int, str, bool] | None = None
    count_at = 0
    for draft in drafts:
        spec = draft.spec
        options = options_of(draft)
        is_plain = not (options or draft.at or spec.delay or spec.after)
        key = (draft.type, draft.priority, options, is_plain)
        if key != group:
            group = key
            form = "plain" if is_plain else "full"
            args += (
                priority_field(draft, options),
                quote(draft.type),
                options,
                form,
                0,
            )
            count_at = len(args) - 1
        args[count_at] += 1
        args.append(body_of(spec))
        if not is_plain:
            args += _full_fields(draft)
    return args


def _full_fields(draft: Draft) -> tuple[Any, ...]:
    return (
        draft.spec.delay,
        "" if draft.at is None else draft.at,
        quote(draft.unique) if draft.unique else "",
        draft.unique_for,
        draft.unique_at_most,
        draft.debounce_max if draft.on_conflict == "replace" else "",
        draft.expires,
        ",".join(map(str, draft.spec.after)),
        1 if draft.after_any else 0,
    )


def read_added(reply: bytes) -> list[Added]:
    """Parse the reply of ``add.lua``: a time, and the ids of the jobs."""
    time, _, ids = reply.partition(b" ")
    created_at = int(time)
    first, dash, last = ids.partition(b"-")
    if dash:
        jobs = range(int(first), int(last) + 1)
        return [Added(job_id, True, created_at) for job_id in jobs]
    parts = ids.split(b",") if ids else ()
    return [_read_one(part, created_at) for part in parts]


def _read_one(part: bytes, created_at: int) -> Added:
    mark = part[:1]
    if mark.isdigit():
        return Added(int(part), True, created_at)
    if mark == b"#":
        return REFUSED
    holder, _, time = part[1:].partition(b"@")
    return Added(int(holder), False, int(time), replaced=mark == b"~")
