"""What `inspect.lua` says of a job, as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kue.store.redis.doctor.keyspace import is_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kue.store.redis.doctor.shard import Seen, Subject

#: What a structure says of a job, by the type (as written in keys) and the structure.
ByStructure = dict[tuple[str, str], str]


class Tie(msgspec.Struct, frozen=True):
    """How a job and one that it may wait for know of each other."""

    parent: int
    #: The job says that it waits.
    awaited: bool = False
    #: The parent lists it among those that wait for it to end well, …
    in_then: bool = False
    #: … and among those that wait for it to end.
    in_finally: bool = False
    #: Upkeep is still to tell those on the parent's lists, …
    is_rest_pending: bool = False
    #: … or this very job, which lives on another shard …
    is_end_pending: bool = False
    #: … or is to tell the parent, which does, that the job waits for it, …
    is_link_pending: bool = False
    #: … or that it waits no longer.
    is_unlink_pending: bool = False
    #: The parent's side is known: it lives here, or its shard was asked.
    is_known: bool = False
    #: The parent lists no other job.
    is_only: bool = False
    #: What was seen, when its shard was asked by itself.
    digest: bytes = b""
    #: Where the parent is; empty when it is gone, "adrift" when nobody can tell.
    standing: str = ""


class Holder(NamedTuple):
    """The job that an entry of the unique keys names."""

    job_id: int | None
    #: Where it is; empty when it is gone, "adrift" when nobody can tell.
    standing: str
    #: It has the key, as far as its own header says.
    has_key: bool


class Facts(msgspec.Struct):
    """What was so of one job at one moment."""

    job_id: int
    digest: bytes
    now: int
    #: None when there is none.
    record: bytes | None = None
    #: The record's key has another Redis type.
    is_no_string: bool = False
    is_live: bool = False
    #: Score, or run, in structures that mean a state (and ``parked``).
    places: ByStructure = {}
    #: Entries in tries, progress, ttl, expires and retain_<state>.
    entries: ByStructure = {}
    #: Score among the held jobs of a group, by type and group.
    held: ByStructure = {}
    #: Which of log, after, then and finally there are.
    parts: set[str] = set()
    is_parent: bool = False
    #: Upkeep is to go on telling its dependants that it ended so.
    rest: str = ""
    #: The type under which it was asked to end; None if it was not.
    cancelling: str | None = None
    #: The worker that runs it has a lease.
    is_leased: bool = False
    #: How many jobs of its group run, as written.
    running: str | None = None
    #: The held job of its group that gets the next slot, and its score.
    next_held: tuple[int, str] | None = None
    #: Its type has a limit for each group.
    is_group_limited: bool = False
    unique: str | None = None
    holder: Holder | None = None
    ties: list[Tie] = []
    #: What it says it waits for and is no job at all.
    odd_parents: list[bytes] = []


def job_subject(
    job_id: int, places: Iterable[str] = (), parents: Iterable[int] = ()
) -> Subject:
    """Return what to look at for a job, besides what its own record names."""
    where = sorted(places)
    return ("job", job_id, len(where), *where, *sorted(parents))


def read_facts(job_id: int, seen: Seen) -> Facts:
    """Read what was seen of a job."""
    facts = Facts(job_id, seen.digest, seen.at)
    holder = Holder(None, "", False)
    for index in range(0, len(seen.facts), 3):
        kind, where, value = seen.facts[index : index + 3]
        if kind == b"record":
            facts.record = value
            continue
        if kind == b"tie" and not is_number(_text(where)):
            facts.odd_parents.append(where)
            continue
        _note(facts, kind.decode(), _text(where), _text(value))
        if kind == b"holder":
            number = int(where) if where else None
            holder = Holder(number, value.decode(), holder.has_key)
        elif kind == b"holds":
            holder = holder._replace(has_key=True)
    if facts.unique is not None:
        facts.holder = holder
    return facts


def read_tie(parent: int, text: str) -> Tie:
    """Read "marks standing"."""
    marks, _, standing = text.partition(" ")
    return Tie(
        parent=parent,
        awaited="a" in marks,
        in_then="t" in marks,
        in_finally="f" in marks,
        is_rest_pending="r" in marks,
        is_end_pending="e" in marks,
        is_link_pending="l" in marks,
        is_unlink_pending="u" in marks,
        is_known="h" in marks,
        is_only="o" in marks,
        standing=standing,
    )


def _note(facts: Facts, kind: str, where: str, value: str) -> None:
    job_type, _, structure = where.partition(":")
    match kind:
        case "in":
            facts.places[job_type, structure] = value
        case "has":
            facts.entries[job_type, structure] = value
        case "held":
            facts.held[job_type, structure.removeprefix("held:")] = value
        case "part":
            facts.parts.add(where)
        case "tie":
            facts.ties.append(read_tie(int(where), value))
        case "next" if is_number(where):
            facts.next_held = (int(where), value)
        case "unread":
            facts.is_no_string = True
        case "live":
            facts.is_live = True
        case "parent":
            facts.is_parent = True
        case "leased":
            facts.is_leased = True
        case "per_key":
            facts.is_group_limited = True
        case "rest":
            facts.rest = value
        case "cancelling":
            facts.cancelling = value
        case "running":
            facts.running = value
        case "unique":
            facts.unique = value


def _text(value: bytes) -> str:
    # Damage need not be text; what is not must still be shown.
    return value.decode("utf-8", "backslashreplace")
