"""One call of ``add.lua``: what it is passed for drafts, and what it replies."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from kue.model.errors import InvalidTransition, JobNotFound, UnknownParent
from kue.model.job import State
from kue.model.names import quote
from kue.store.batches import producer_of_part
from kue.store.codec import body_of
from kue.store.redis.record import options_of, priority_field
from kue.store.validation import IdNotReserved, InvalidCall
from kue.store.values import REFUSED, Added

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from kue.model.job import Draft
    from kue.store.redis.sharding import Shards

#: How many schedules an add fires, for ``add.lua``.
NO_SCHEDULES = 0
#: Calls of ``drop_oldest.lua`` after one add; if a cap was lowered, the next continues.
MAX_DROP_CALLS = 10
#: How long a `durable` add waits for a replica.
DURABLE_WAIT_MS = 2000
#: How a draft is one that others come before: see ``add.lua``.
_TARGETS = ("1", "2")
_STATES = frozenset(state.value for state in State)


class AddCall(NamedTuple):
    """Parameters that all parts of one call to `add` share."""

    producer: str
    seq: int
    durable: bool
    now: int | None


async def add_part(
    db: Shards, shard: int, call: AddCall, number: int, drafts: list[Any]
) -> tuple[bool, list[Added]]:
    """Add *drafts*, as `arguments` returns them, with one script."""
    name = producer_of_part(call.producer, number)
    args = (name, call.seq, NO_SCHEDULES, *drafts)
    confirmed = True
    if call.durable:
        reply, confirmed = await _add_durably(db, shard, args, now=call.now)
    else:
        reply = await db.run(shard, "add", *args, now=call.now)
    if reply[0] == b"REFUSED":
        raise refusal(int(reply[1]), reply[2].decode())
    if reply[0] != b"OK":
        raise behind(name, call.seq)
    added = read_added(reply[1])
    await drop_oldest(db, shard, reply[2:], now=call.now)
    return confirmed, added


def refusal(job_id: int, why: str) -> Exception:
    """Return the error for a call that was refused because of another job."""
    if why == "unknown":
        return UnknownParent(job_id)
    if why == "gone":
        return JobNotFound(job_id)
    if why == "unreserved":
        return IdNotReserved(job_id)
    state = State(why) if why in _STATES else None
    wanted = "wait for another job; only blocked jobs can"
    return InvalidTransition(job_id, state, wanted)


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


def behind(producer: str, seq: int) -> InvalidCall:
    return InvalidCall(
        f"seq {seq} of producer {producer!r} is behind its last call; "
        "a producer makes one call at a time, with increasing numbers"
    )


def arguments(drafts: Sequence[Draft], ties: Sequence[str] = ()) -> list[Any]:
    """
    Return drafts as ``add.lua`` takes them: grouped by header, in the same order.

    *ties* are what ties each of them to other jobs, if any are: see `ties_of`.
    """
    args: list[Any] = []
    group: tuple[str, int, str, bool] | None = None
    count_at = 0
    for draft, tie in zip(drafts, ties or repeat(""), strict=False):
        spec = draft.spec
        options = options_of(draft, tie[-1:] in _TARGETS) if tie else options_of(draft)
        is_plain = not (options or draft.at or spec.delay or tie)
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
            args += _full_fields(draft, tie)
    return args


def ties_of(drafts: Sequence[Draft]) -> list[str]:
    """Return what ties drafts to each other, which one script adds, and to others."""
    targets = targets_of(drafts)
    return [
        tie_of(draft, "1" if position in targets else "")
        for position, draft in enumerate(drafts)
    ]


def targets_of(drafts: Sequence[Draft]) -> set[int]:
    """Return the positions of drafts that others of the call come before."""
    return {-ref - 1 for draft in drafts for ref in draft.before if ref < 0}


def tie_of(
    draft: Draft,
    target: str = "",
    resolve: Callable[[int], str] = str,
    missing: Collection[int] = (),
) -> str:
    """
    Return what ties a draft to other jobs or to an id, for ``add.lua``; often nothing.

    *target* is how it is one; the jobs of flows in *missing* are gone.
    """
    after, before, flow = draft.spec.after, draft.before, draft.flow
    if not (after or before or target or flow is not None or draft.id is not None):
        return ""
    mark = "=" if any(ref < 0 for ref in after) else ""
    parents = ",".join(map(resolve, after))
    targets = ",".join("~" * (ref < 0) + resolve(ref) for ref in before)
    root = "" if flow is None else resolve(flow) + ("!" if flow in missing else "")
    return f"{mark}{parents};{targets};{root};{draft.id or ''};{target}"


def _full_fields(draft: Draft, tie: str) -> tuple[Any, ...]:
    return (
        draft.spec.delay,
        "" if draft.at is None else draft.at,
        quote(draft.unique) if draft.unique else "",
        draft.unique_for,
        draft.unique_at_most,
        draft.debounce_max if draft.on_conflict == "replace" else "",
        draft.expires,
        tie,
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
