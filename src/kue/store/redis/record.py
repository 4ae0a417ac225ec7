"""
A job's record in Redis: header, body, history.

The header is what scripts may read: priority, creation time and type, tab-separated.  A
star before it means that options follow, which scripts must act on as well::

    0⇥1794722540200⇥email
    *-10⇥1794722540200⇥email⇥unique=hi⇥ttl=30000

The second line is the body (`kue.store.codec`), the others are the history.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from kue.model.errors import StoreCorrupt
from kue.model.job import FINAL, Attempt, Draft, Job, Spec, State, last_progress
from kue.model.named_limits import LimitRule, StoredLimit, read_ref
from kue.model.names import quote, unquote
from kue.store.codec import decode_spec, read_chunk, read_story
from kue.store.redis.keys import PLACES
from kue.store.values import Pause, held_by, held_by_group, held_by_limit

if TYPE_CHECKING:
    from kue.model.stream import Chunk

_ACTIVE = State.ACTIVE


class PauseDetails(msgspec.Struct, omit_defaults=True):
    """When, why and by whom something was paused."""

    at: int = 0
    reason: str = ""
    by: str = ""


_decode_details = msgspec.json.Decoder(PauseDetails).decode


def priority_field(draft: Draft, options: str) -> str:
    """Return the field before the creation time."""
    return f"*{draft.priority}" if options else str(draft.priority)


def options_of(draft: Draft | Job, may_be_blocked: bool = False) -> str:
    """
    Return the fields after the type: empty for most jobs.

    *may_be_blocked* even without parents of its own, because others are added with it
    in `before`.  ``add.lua`` adds ``flow``, and ``after`` where there are references.
    """
    spec = draft.spec
    if not (
        draft.ttl
        or draft.expires
        or draft.once
        or draft.unique
        or draft.group
        or draft.limited_by
        or spec.after
        or may_be_blocked
        or spec.retention is not None
        or spec.quiet
        or draft.on_parent_failure != "block"
    ):
        return ""
    options: dict[str, int | str | None] = {
        "unique": quote(draft.unique) if draft.unique else None,
        "unique_for": draft.unique_for or None,
        "unique_until": "start" if draft.unique_until == "start" else None,
        "unique_at_most": draft.unique_at_most or None,
        "group": quote(draft.group) if draft.group else None,
        "ttl": draft.ttl or None,
        "expires": draft.expires or None,
        "once": 1 if draft.once else None,
        "retention": spec.retention,
        "quiet": 1 if spec.quiet else None,
    }
    if draft.on_parent_failure != "block":
        options["failure"] = draft.on_parent_failure
    if spec.after or may_be_blocked:
        # The script that releases it must know its delay without reading the body.
        options["delay"] = spec.delay or None
        options["at"] = draft.at if isinstance(draft, Draft) else None
    limits = "".join(f"\tlimit={ref}" for ref in draft.limit_refs)
    return "".join(f"\t{k}={v}" for k, v in options.items() if v is not None) + limits


def chunk_at(index: int, text: bytes) -> Chunk:
    """
    Return an item of a stream.

    Raises:
        ValueError: It is damaged.
    """
    head, _, value = text.partition(b"\t")
    run, attempt, at = map(int, head.split(b":"))
    return read_chunk(run, index, attempt, at, value)


def created_in(record: bytes) -> int:
    """Return when a job was created, from its header."""
    return int(record.split(b"\t", 2)[1])


def with_changes(record: bytes, *, priority: int, body: bytes) -> tuple[bytes, bytes]:
    """Return the first two lines: the old ones and the new ones."""
    header, old_body, _ = _split(record)
    star = b"*" if header.startswith(b"*") else b""
    _, _, rest = header.partition(b"\t")
    new = b"%s%d\t%s\n%s" % (star, priority, rest, body)
    return b"%s\n%s" % (header, old_body), new


def read_claimed(job_id: int, token: str, record: bytes, stalls: int = 0) -> Job:
    """Return a job that was just started."""
    header, body, history = _split(record)
    job_type, priority, created_at, options, after = _read_header(header)
    spec = decode_spec(body)
    if after is not None:
        # The body has references to drafts that were added with it.
        spec = msgspec.structs.replace(spec, after=after)
    job = Job(
        id=job_id,
        type=job_type,
        state=_ACTIVE,
        priority=priority,
        created_at=created_at,
        spec=spec,
        token=token,
        stalls=stalls,
        history=read_story(history) if history else (),
    )
    # Most jobs have none, and are made faster without keywords from a dictionary.
    return msgspec.structs.replace(job, **options) if options else job


def read_job(job_id: int, reply: list[Any]) -> Job:
    """Return a job from the reply of ``get.lua``."""
    record, found, where, tries, progress, cancelling, hindrance = reply
    place = found.decode()
    token = where.decode() if place == "active" else ""
    stalls = int(tries.partition(b":")[2] or 0)
    job = read_claimed(job_id, token, record, stalls)
    if job.history and not tries:
        stalls = stalls_in(job.history)
    changes: dict[str, Any] = {
        "state": State(PLACES[place]),
        "stalls": stalls,
        "cancelling": bool(cancelling),
    }
    if place == "delayed":
        changes["promote_at"] = int(float(where))
    elif place == "held":
        changes |= _hold(job, hindrance.decode())
        changes["rank"] = int(float(where))
    elif place in FINAL:
        changes["progress"], changes["progress_data"] = last_progress(
            State(place), job.history
        )
    elif hindrance:
        changes["held"] = held_by(read_pause(job.type, hindrance))
    if place == "waiting":
        changes["rank"] = int(float(where))
    if progress:
        percent, _, data = progress.partition(b"\t")
        changes["progress"] = int(percent)
        changes["progress_data"] = msgspec.json.decode(data)
    return msgspec.structs.replace(job, **changes)


def _hold(job: Job, limit: str) -> dict[str, Any]:
    """Return why a job is held, and until when: by its group, or a *limit*."""
    if not limit:
        return {"held": held_by_group(job.group)}
    ref, running, opens_at, text = limit.split("\t", 3)
    rule = read_rule(text)
    changes: dict[str, Any] = {"held": held_by_limit(ref, rule, int(running))}
    # A limit that is no longer a rate may have left a time.
    if opens_at and rule is not None and rule.rate is not None:
        changes["held_until"] = int(float(opens_at))
    return changes


def read_rule(text: str) -> LimitRule | None:
    """Return the rule of a named limit; None if there is none that can be read."""
    try:
        return StoredLimit.read(text).rule if text else None
    except (ValueError, TypeError):
        return None


def unreadable(job_id: int, token: str, record: bytes, exc: Exception) -> Job:
    """Return a stand-in for a started job whose body cannot be decoded."""
    fields = record.partition(b"\n")[0].split(b"\t")
    options = _read_options(fields[3:])
    options.pop("after", None)
    # The header was read by the script: it has what must be released with the run.
    return Job(
        id=job_id,
        type=unquote(fields[2].decode()),
        state=_ACTIVE,
        priority=0,
        created_at=0,
        spec=Spec(meta={"unreadable": str(exc)}),
        token=token,
        **options,
    )


def read_paused(target: bytes, text: bytes) -> Pause:
    """Read a pause of *target*: a type, ``:worker``, or (empty) everything."""
    name = target.decode()
    if name.startswith(":"):
        return read_pause(None, text, worker=unquote(name[1:]))
    return read_pause(unquote(name) if name else None, text)


def read_pause(
    job_type: str | None, text: bytes, *, worker: str | None = None
) -> Pause:
    """Read a pause: when it ends (or nothing), a tab, and its details."""
    until, _, encoded = text.partition(b"\t")
    try:
        details = _decode_details(encoded)
    except ValueError:
        # The pause is in force even if its details are damaged.
        details = PauseDetails()
    return Pause(
        type=job_type,
        at=details.at,
        reason=details.reason,
        by=details.by,
        until=int(until) if until.isdigit() else None,
        worker=worker,
    )


def stalls_in(history: tuple[Attempt, ...]) -> int:
    """Count the workers lost since it was last restarted by hand, or replaced."""
    count = 0
    for attempt in reversed(history):
        if attempt.is_fresh_start:
            break
        count += attempt.outcome == "stalled"
    return count


@lru_cache(maxsize=512)
def _read_header(
    header: bytes,
) -> tuple[str, int, int, dict[str, Any], tuple[int, ...] | None]:
    """Read a header; cached, because jobs added by one call have the same one."""
    fields = header.split(b"\t")
    job_type = unquote(fields[2].decode())
    priority = int(fields[0].removeprefix(b"*"))
    options = _read_options(fields[3:])
    return job_type, priority, int(fields[1]), options, options.pop("after", None)


def _split(record: bytes) -> tuple[bytes, bytes, bytes]:
    header, _, rest = record.partition(b"\n")
    body, _, history = rest.partition(b"\n")
    if not body:
        raise StoreCorrupt(f"a record has no body: {record[:80]!r}")
    return header, body, history


def _read_options(fields: list[bytes]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for field in fields:
        name, _, value = field.decode().partition("=")
        if name in ("unique_for", "unique_at_most", "ttl", "expires", "flow"):
            options[name] = int(value)
        elif name == "unique_until":
            options[name] = value
        elif name in ("unique", "group"):
            options[name] = unquote(value)
        elif name == "once":
            options[name] = True
        elif name == "failure":
            options["on_parent_failure"] = value
        elif name == "after":
            options["after"] = tuple(map(int, value.split(",")))
        elif name == "limit":
            options["limited_by"] = (*options.get("limited_by", ()), read_ref(value))
    return options
