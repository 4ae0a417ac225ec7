"""
Repairs of jobs, as Redis commands for `repair.lua`.

Commands that add something come first: Redis may refuse those, and nothing has been
removed by then.  Each repair leaves the job in one state.  What its new state requires
is found and repaired when the job is checked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.job import Error, Failed
from kue.model.names import unquote
from kue.store.codec import line_of, tail_of
from kue.store.redis.doctor.key_table import is_number
from kue.store.redis.keys import LIVE_CHUNK

if TYPE_CHECKING:
    from kue.store.redis.doctor.job_facts import JobFacts
    from kue.store.redis.doctor.job_record import JobRecord
    from kue.store.redis.doctor.shard import RedisCommand
    from kue.store.redis.keys import Keys

_Commands = tuple["RedisCommand", ...]
#: A repair in words, and its commands.
_Repair = tuple[str, _Commands]
#: Structures that are hashes; all others are sorted sets.
_HASHES = frozenset({"active", "tries", "progress"})


def restore(job: JobRecord) -> _Repair:
    """Return what puts a job that is in no state where it belongs."""
    text, commands = _restore(job)
    # Maintenance must visit the type, which may have been lost with everything else.
    known: RedisCommand = ("SADD", job.keys.of_shard("types"), job.type)
    return text, (*commands, known, visit_type(job.keys, job.type))


def _restore(job: JobRecord) -> _Repair:
    if job.last_final is not None:
        place, at = job.last_final
        put: RedisCommand = ("ZADD", job.key(place), at, job.job_id)
        text = f"put it among the {place} jobs, as its history ends"
        return text, (put, *_free_unique(job))
    if "after" in job.facts.parts:
        put = ("ZADD", job.key("blocked"), job.job_id, job.job_id)
        return "block it again, as it waits for others", (put,)
    has_run = job.job.once and _may_have_run(job)
    if job.due > job.facts.now and not has_run:
        put = ("ZADD", job.key("delayed"), job.due, job.job_id)
        return "delay it again until it is due", (put, _wake(job))
    return rerun(job)


def rerun(job: JobRecord) -> _Repair:
    """
    Return what becomes of a job whose run, if it had one, is lost.

    It is worse to lose a job than to run it twice, unless it runs at most once.
    """
    if job.job.once and _may_have_run(job):
        return "fail it: it runs at most once, and may have", _fail(job)
    return "requeue it", requeue(job)


def requeue(job: JobRecord) -> _Commands:
    """Return what makes the job waiting, with its priority."""
    put: RedisCommand = ("ZADD", job.key("waiting"), job.waiting_score, job.job_id)
    return (put, visit_type(job.keys, job.type), _wake(job))


def visit_type(keys: Keys, job_type: str) -> RedisCommand:
    """Return what makes maintenance visit a type at once."""
    return ("ZADD", keys.of_shard("agenda"), "LT", 0, job_type)


def leave_groups(facts: JobFacts) -> _Commands:
    """Return what removes a job from the held jobs of every group."""
    return tuple(
        ("ZREM", facts.keys.of_type(unquote(job_type), f"held:{group}"), facts.job_id)
        for job_type, group in facts.held
    )


def leave(job: JobRecord, job_type: str, place: str) -> _Commands:
    """Return what removes a job from one structure, and releases what it had there."""
    out = remove_entry(job.facts, job_type, place)
    if job_type == job.type and place == "active":
        return (out, *_free_slot(job))
    return (out, *leave_groups(job.facts)) if place == "held" else (out,)


def remove_traces(facts: JobFacts) -> _Commands:
    """Return what removes every trace of a job without a record."""
    job_id, keys = facts.job_id, facts.keys
    commands: list[RedisCommand] = [
        remove_entry(facts, job_type, structure)
        for job_type, structure in (*facts.places, *facts.entries)
    ]
    commands += leave_groups(facts)
    if facts.cancelling is not None:
        commands.append(("HDEL", keys.of_shard("cancelling"), job_id))
    if facts.is_live:
        commands.append(mark_live(facts, 0))
    return tuple(commands)


def remove_entry(facts: JobFacts, job_type: str, structure: str) -> RedisCommand:
    verb = "HDEL" if structure in _HASHES else "ZREM"
    return (verb, facts.keys.of_type(unquote(job_type), structure), facts.job_id)


def mark_live(facts: JobFacts, bit: int) -> RedisCommand:
    chunk, offset = divmod(facts.homes.sequence_of(facts.job_id), LIVE_CHUNK)
    return ("SETBIT", facts.keys.live(chunk), offset, bit)


def set_running(
    keys: Keys, job_type: str, group: bytes, running: int, held: tuple[int, str] | None
) -> _Commands:
    """Return what sets a group's count of running jobs, and gives *held* a slot."""
    name = unquote(job_type)
    counter = keys.of_type(name, "running")
    commands: list[RedisCommand] = []
    if held is not None:
        job_id, score = held
        commands += [
            ("ZADD", keys.of_type(name, "waiting"), score, job_id),
            ("ZREM", keys.of_type(name, "held"), job_id),
            ("ZREM", keys.of_type(name, "held:").encode() + group, job_id),
        ]
    if running > 0:
        commands.append(("HSET", counter, group, running))
    else:
        commands.append(("HDEL", counter, group))
    return tuple(commands)


def _wake(job: JobRecord) -> RedisCommand:
    return ("ZADD", job.key("wake"), 0, "0")


def _free_slot(job: JobRecord) -> _Commands:
    group, running = job.options.get("group"), job.facts.running
    if group is None or running is None or not is_number(running):
        return ()
    left = int(running) - 1
    return set_running(job.keys, job.type, group.encode(), left, job.facts.next_held)


def _may_have_run(job: JobRecord) -> bool:
    facts = job.facts
    if any(name in ("progress", "ttl") for _, name in facts.entries):
        return True
    if facts.cancelling is not None or (job.type, "active") in facts.places:
        return True
    history = job.job.history
    return bool(history) and history[-1].outcome != "restarted"


def _fail(job: JobRecord) -> _Commands:
    error = Error("RunLost", "the state of its run was lost")
    now = job.facts.now
    line = b"\n" + line_of("", now, tail_of(Failed(error)))
    return (
        ("ZADD", job.key("failed"), now, job.job_id),
        ("APPEND", job.keys.job(job.job_id), line),
        *_free_unique(job),
    )


def _free_unique(job: JobRecord) -> _Commands:
    """Return what happens to the unique key of a job that has ended."""
    facts, key = job.facts, job.options.get("unique")
    if key is None or facts.holder is None or facts.holder.job_id != job.job_id:
        return ()
    until = int((facts.unique or "").partition(":")[2])
    if until > facts.now:
        return (("ZADD", job.key("lapse"), until, key),)
    return (("HDEL", job.key("unique"), key),)
