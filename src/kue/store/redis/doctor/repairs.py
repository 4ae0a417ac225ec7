"""
Repairs of what is damaged in Redis: the commands of each, and sending them.

Commands that add something come first: Redis may refuse those, and nothing has been
removed by then.  Each repair leaves the job in one state.  What its new state requires
is found and repaired when the job is checked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.job import Error, Failed
from kue.store.codec import line_of, tail_of
from kue.store.redis.doctor.key_parsing import is_number
from kue.store.redis.keys import LIVE_CHUNK

if TYPE_CHECKING:
    from kue.store.redis.doctor.job_facts import JobFacts
    from kue.store.redis.doctor.job_record import JobRecord
    from kue.store.redis.doctor.rule import RedisFinding, Suspect
    from kue.store.redis.doctor.shard_access import RedisCommand
    from kue.store.redis.keys import Keys

_Commands = tuple["RedisCommand", ...]
#: A repair in words, and its commands.
_Repair = tuple[str, _Commands]
#: How often a suspect is checked in addition to once per finding: it may change.
_MORE_CHECKS = 8


async def repair(suspect: Suspect, found: list[RedisFinding]) -> list[RedisFinding]:
    """Repair one thing after another by `doctor_repair.lua`; return what is left."""
    refused: set[tuple[str, str]] = set()
    for _ in range(len(found) + _MORE_CHECKS):
        for one in found:
            if one.commands and one.name not in refused:
                break
        else:
            break
        if await one.inspection.shard.repair(one.inspection, one.commands) == "refused":
            refused.add(one.name)
        found = await suspect.check()
    return found


def restore(job: JobRecord) -> _Repair:
    """Return what puts a job that is in no state where it belongs."""
    if job.last_final is not None:
        place, at = job.last_final
        text = f"put it among the {place} jobs, as its history ends"
        commands = (job.put_in(place, at), *_free_unique(job))
    elif "after" in job.parts:
        text = "block it again, as it waits for others"
        commands = (job.put_in("blocked", job.job_id),)
    elif job.due > job.now and not (job.job.once and _may_have_run(job)):
        text = "delay it again until it is due"
        commands = (job.put_in("delayed", job.due), _wake(job))
    else:
        text, commands = rerun(job)
    # Maintenance must visit the type, which may have been lost with everything else.
    known = ("SADD", job.keys.of_shard("types"), job.type)
    return text, (*commands, known, visit_type(job.keys, job.type))


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
    put = job.put_in("waiting", job.waiting_score)
    return (put, visit_type(job.keys, job.type), _wake(job))


def visit_type(keys: Keys, job_type: str) -> RedisCommand:
    """Return what makes maintenance visit a type at once."""
    return ("ZADD", keys.of_shard("agenda"), "LT", 0, job_type)


def leave_groups(facts: JobFacts) -> _Commands:
    """Return what removes a job from the held jobs of every group and limit."""
    groups = (
        facts.remove_from(job_type, f"held:{group}") for job_type, group in facts.held
    )
    limits = (
        leave_limit(facts, ref, "held") for ref, how in facts.limits.items() if how.held
    )
    return (*groups, *limits)


def leave_limit(facts: JobFacts, ref: str, structure: str) -> RedisCommand:
    """Return what removes a job from the held or the running jobs of a limit."""
    return ("ZREM", limit_key(facts, ref, structure), facts.job_id)


def limit_key(facts: JobFacts, ref: str, structure: str) -> str:
    """Return the key of a structure of a limit, given by name and key."""
    name, _, key = ref.partition(":")
    return facts.keys.of_shard(f":{name}:{structure}:{key}")


def leave_runs(facts: JobFacts) -> _Commands:
    """Return what removes a job from the running jobs of every limit."""
    return tuple(
        leave_limit(facts, ref, "running")
        for ref, how in facts.limits.items()
        if how.is_running
    )


def leave(job: JobRecord, job_type: str, place: str) -> _Commands:
    """Return what removes a job from one structure, and releases what it had there."""
    out = job.remove_from(job_type, place)
    if job_type == job.type and place == "active":
        return (out, *_free_slot(job), *leave_runs(job))
    return (out, *leave_groups(job)) if place == "held" else (out,)


def remove_traces(facts: JobFacts) -> _Commands:
    """Return what removes every trace of a job without a record."""
    places = (*facts.found_in, *facts.entries)
    commands = [*(facts.remove_from(*place) for place in places), *leave_groups(facts)]
    commands += leave_runs(facts)
    if "cancelling" in facts.marks:
        commands.append(forget_cancel(facts))
    if "live" in facts.marks:
        commands.append(mark_live(facts, 0))
    if "unborn" not in facts.marks:
        # It did not succeed, as far as is known: jobs that wait for it must not run.
        commands.append(mark_lost(facts, 1))
    return tuple(commands)


def forget_cancel(facts: JobFacts) -> RedisCommand:
    """Return what removes the request to cancel a run."""
    return ("HDEL", facts.keys.of_shard("cancelling"), facts.job_id)


def mark_live(facts: JobFacts, bit: int) -> RedisCommand:
    chunk, offset = divmod(facts.shard.sequence_of(facts.job_id), LIVE_CHUNK)
    return ("SETBIT", facts.keys.live(chunk), offset, bit)


def mark_lost(facts: JobFacts, bit: int) -> RedisCommand:
    """Return what marks a job as removed without success, or not."""
    chunk, offset = divmod(facts.shard.sequence_of(facts.job_id), LIVE_CHUNK)
    return ("SETBIT", facts.keys.of_shard(f"lost:{chunk}"), offset, bit)


def set_running(
    keys: Keys, job_type: str, group: bytes, running: int, held: tuple[int, str] | None
) -> _Commands:
    """Return what sets a group's count of running jobs, and gives *held* a slot."""
    commands: list[RedisCommand] = []
    if held is not None:
        job_id, score = held
        commands = [
            ("ZADD", keys.of_shard(f"{job_type}:waiting"), score, job_id),
            ("ZREM", keys.of_shard(f"{job_type}:held"), job_id),
            ("ZREM", keys.of_shard(f"{job_type}:held:").encode() + group, job_id),
        ]
    counter = keys.of_shard(f"{job_type}:running")
    is_left = running > 0
    count = ("HSET", counter, group, running) if is_left else ("HDEL", counter, group)
    return (*commands, count)


def _wake(job: JobRecord) -> RedisCommand:
    return ("ZADD", job.key("wake"), 0, "0")


def _free_slot(job: JobRecord) -> _Commands:
    group, running = job.options.get("group"), job.marks.get("running", "")
    if group is None or not is_number(running):
        return ()
    left = int(running) - 1
    return set_running(job.keys, job.type, group.encode(), left, job.next_held)


def _may_have_run(job: JobRecord) -> bool:
    if any(name in ("progress", "ttl") for _, name in job.entries):
        return True
    if "cancelling" in job.marks or "active" in job.places:
        return True
    history = job.job.history
    return bool(history) and not history[-1].is_fresh_start


def _fail(job: JobRecord) -> _Commands:
    error = Error("RunLost", "what was known of its run was lost")
    line = b"\n" + line_of("", job.now, tail_of(Failed(error)))
    append = ("APPEND", job.keys.job(job.job_id), line)
    return (job.put_in("failed", job.now), append, *_free_unique(job))


def _free_unique(job: JobRecord) -> _Commands:
    """Return what happens to the unique key of a job that has ended."""
    key = job.options.get("unique")
    if key is None or job.holder != job.job_id:
        return ()
    until = int(job.marks["unique"].split(":")[1])
    if until > job.now:
        return (("ZADD", job.key("lapse"), until, key),)
    return (("HDEL", job.key("unique"), key),)
