"""
Rules about dependencies: a job and those it waits for must list each other.

A blocked job lists its parents (``:after``), and each of them lists it (``:then`` if it
goes on waiting when the parent fails, else ``:finally``).  When a parent has ended,
maintenance may still have to notify the job: an entry in the outbox is not damage.  A
repair leaves the notification to maintenance, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.redis.doctor.job_facts import Dependency, JobFacts
from kue.store.redis.doctor.job_record import FINAL_PLACES, JobRecord
from kue.store.redis.doctor.repairs import requeue
from kue.store.redis.doctor.rule import Rule, Violation
from kue.store.redis.doctor.shard_access import text_of
from kue.store.redis.keys import PLACES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kue.store.redis.doctor.shard_access import RedisCommand

_BLOCKED = ("blocked",)
_NOT_BLOCKED = PLACES.keys() - {"blocked"}
_LISTS = ("then", "finally")
#: By what the end of a parent means to a job.
_REPAIRS = {
    "released": "have maintenance release it",
    "cancelled": "have maintenance cancel it, as its parent can no longer succeed",
    "one less": "have maintenance report that",
}


# -- blocked jobs --------------------------------------------------------------


def _odd_parents(job: JobRecord) -> Iterator[Violation]:
    for odd in job.odd_parents:
        problem = f"waits for {text_of(odd)!r}, which is not a job"
        yield Violation(problem, "wait no longer", (("SREM", _after(job), odd),))


def _waits_for_itself(job: JobRecord) -> Iterator[Violation]:
    # Until the call ends that adds the jobs which come before it.
    own = [link for link in job.dependencies if link.parent == job.job_id]
    for link in own if "hold" not in job.marks else []:
        if link.has("awaited"):
            out = ("SREM", _after(job), job.job_id)
            yield Violation("waits for itself", "wait no longer", (out,))


def _on_wrong_list(job: JobRecord) -> Iterator[Violation]:
    wrong = "finally" if _right_list(job) == "then" else "then"
    for link in job.dependencies:
        if link.has("awaited") and link.has(wrong):
            problem = f"is on the wrong list of job {link.parent}"
            yield _unlist(job, link, problem, wrong)


def _stuck(job: JobRecord) -> Iterator[Violation]:
    for link in job.dependencies:
        if not link.has("awaited") or not link.has("known") or link.has("link", "end"):
            continue
        outcome = _outcome(job, link)
        if link.has(_right_list(job)) and (outcome is None or link.has("rest")):
            continue
        if link.parent == job.job_id:
            continue
        problem = f"waits for job {link.parent}, which "
        commands = tuple(_notify(job, link.parent, outcome))
        if outcome is None:
            repair = "have that one know of it"
            yield Violation(f"{problem}does not know of it", repair, commands)
            continue
        problem += f"is {link.standing or 'gone'}"
        yield Violation(problem, _REPAIRS[_reaction(job, outcome)], commands)


def _outcome(job: JobRecord, link: Dependency) -> str | None:
    """Return how a parent ended; None while its dependants go on waiting."""
    if not link.standing:
        return "removed" if link.has("lost") else "complete"
    # A failed job may be restarted by hand, and succeed then.
    may_succeed = link.standing == "failed" and _right_list(job) == "then"
    is_final = link.standing in FINAL_PLACES and not may_succeed
    return link.standing if is_final else None


def _reaction(job: JobRecord, outcome: str) -> str:
    """Return what the end of a parent means to a job."""
    policy, has_failed = job.job.on_parent_failure, outcome == "failed"
    if policy == "only":
        return "released" if has_failed else "one less"
    is_released = outcome == "complete" or policy == "run"
    return "released" if is_released else "cancelled"


def _notify(job: JobRecord, parent: int, outcome: str | None) -> Iterator[RedisCommand]:
    keys, job_id = job.keys, job.job_id
    outbox = keys.of_shard("outbox")
    if job.shard.home_of(parent) is not job.shard:
        # The parent's shard then links the two, or reports how the parent ended.
        any_end = "1" if _right_list(job) == "finally" else "0"
        yield ("HSET", outbox, f"link:{job_id}:{parent}", any_end)
        return
    yield ("ZADD", keys.job(f"{parent}:{_right_list(job)}"), job_id, job_id)
    yield ("SADD", keys.of_shard("parents"), parent)
    if outcome is not None:
        yield ("HSET", outbox, f"rest:{parent}", outcome)


def _not_awaited(job: JobRecord) -> Iterator[Violation]:
    for link in job.dependencies:
        if link.has(_right_list(job)) and not link.has("awaited"):
            problem = f"is blocked and on the list of job {link.parent}, but does not "
            problem += "list that one"
            await_it = ("SADD", _after(job), link.parent)
            yield Violation(problem, f"have it wait for job {link.parent}", (await_it,))


def _waits_for_nothing(job: JobRecord) -> Iterator[Violation]:
    links = job.dependencies
    is_waiting = any(link.has("awaited", _right_list(job)) for link in links)
    if is_waiting or job.odd_parents or "many" in job.marks:
        return
    due = int(job.options.get("at", job.now + int(job.options.get("delay", 0))))
    put, *rest = requeue(job)
    if due > job.now:
        put = job.put_in("delayed", due)
    out = job.remove_from(job.type, "blocked")
    problem = "is blocked, but there is nothing that it waits for"
    yield Violation(problem, "release it", (put, *rest, out))


# -- jobs that are not blocked, or gone ----------------------------------------


def _parents_left(job: JobRecord) -> Iterator[Violation]:
    if "after" in job.parts:
        problem = f"is in {job.place}, but still lists what it waits for"
        yield Violation(problem, "forget that", (("DEL", _after(job)),))


def _still_listed(facts: JobFacts) -> Iterator[Violation]:
    where = f"is in {facts.place}" if isinstance(facts, JobRecord) else "is gone"
    for link in facts.dependencies:
        if link.has(*_LISTS) and not link.has("left"):
            problem = f"{where}, but job {link.parent} still lists it"
            yield _unlist(facts, link, problem)


def _unlist(
    facts: JobFacts, link: Dependency, problem: str, only: str = ""
) -> Violation:
    parent, home = link.parent, facts.shard.home_of(link.parent)
    commands: list[RedisCommand] = [
        ("ZREM", home.keys.job(f"{parent}:{part}"), facts.job_id)
        for part in _LISTS
        if link.has(part) and only in ("", part)
    ]
    if link.has("only") and not only:
        commands.append(("SREM", home.keys.of_shard("parents"), parent))
    repair = "take it off the list"
    return Violation(problem, repair, tuple(commands), link.inspection)


def _parts_left(facts: JobFacts) -> Iterator[Violation]:
    # Maintenance may still have to notify those that wait for it.
    needed = set(_LISTS) if facts.marks.get("rest") else set()
    needed |= {"left"} if "left" in facts.marks else set()
    for part in sorted(facts.parts - needed):
        out = ("DEL", facts.keys.job(f"{facts.job_id}:{part}"))
        yield Violation(f"is gone, but its {part} is still there", "delete it", (out,))


def _unforgotten(job: JobRecord) -> Iterator[Violation]:
    if "left" in job.parts and "left" not in job.marks:
        problem = "no longer waits for jobs that still list it, which are not notified"
        command = ("HSET", job.keys.of_shard("outbox"), f"left:{job.job_id}", "")
        yield Violation(problem, "have maintenance notify them", (command,))


def _gone_parent(facts: JobFacts) -> Iterator[Violation]:
    is_needed = facts.marks.get("rest") or "has_flow" in facts.marks
    if "parent" in facts.marks and not is_needed:
        problem = "is gone, but counts as one that others wait for"
        yield Violation(problem, "forget that", (_mark_parent("SREM", facts),))


# -- jobs that others wait for -------------------------------------------------


def _wrong_parent_mark(job: JobRecord) -> Iterator[Violation]:
    has_lists = not job.parts.isdisjoint(_LISTS) or "has_flow" in job.marks
    is_parent = "parent" in job.marks
    if has_lists and not is_parent:
        problem = "has jobs that wait for it, but does not count as one with such"
        yield Violation(problem, "count it", (_mark_parent("SADD", job),))
    elif is_parent and not has_lists:
        problem = "counts as one that others wait for, but nobody does"
        yield Violation(problem, "forget that", (_mark_parent("SREM", job),))


def _mark_parent(verb: str, facts: JobFacts) -> RedisCommand:
    return (verb, facts.keys.of_shard("parents"), facts.job_id)


def _right_list(job: JobRecord) -> str:
    """Return the list of a parent that the job belongs on."""
    return "then" if job.job.on_parent_failure == "block" else "finally"


def _after(job: JobRecord) -> str:
    return job.keys.job(f"{job.job_id}:after")


#: About a job in exactly one state.
DEPENDENCY_RULES = (
    Rule[JobRecord]("stuck-blocked", _BLOCKED, _odd_parents),
    Rule[JobRecord]("stuck-blocked", _BLOCKED, _waits_for_itself),
    Rule[JobRecord]("stray-link", _BLOCKED, _on_wrong_list),
    Rule[JobRecord]("stuck-blocked", _BLOCKED, _stuck),
    Rule[JobRecord]("stuck-blocked", _BLOCKED, _not_awaited),
    Rule[JobRecord]("stuck-blocked", _BLOCKED, _waits_for_nothing),
    Rule[JobRecord]("stray-link", _NOT_BLOCKED, _parents_left),
    Rule[JobRecord]("stray-link", _NOT_BLOCKED, _still_listed),
    Rule[JobRecord]("stray-link", PLACES, _wrong_parent_mark),
    Rule[JobRecord]("stray-link", PLACES, _unforgotten),
)
#: About a job without a record.
GONE_DEPENDENCY_RULES = (
    Rule[JobFacts]("stray-log", ("gone",), _parts_left),
    Rule[JobFacts]("stray-link", ("gone",), _gone_parent),
    Rule[JobFacts]("stray-link", ("gone",), _still_listed),
)
