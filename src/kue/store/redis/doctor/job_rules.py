"""
Rules about jobs, and which of them apply to a job.

A job without a record should leave no trace.  One with a record must first be readable
and in one state; only then is it checked what that state requires, and whether it and
the jobs that it waits for list each other (`dependency_rules`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from kue.model.names import unquote
from kue.model.retry_policy import after_cancel
from kue.store.codec import tail_of
from kue.store.redis.doctor import repairs
from kue.store.redis.doctor.dependency_rules import (
    DEPENDENCY_RULES,
    GONE_DEPENDENCY_RULES,
)
from kue.store.redis.doctor.flow_rules import FLOW_RULES, GONE_FLOW_RULES
from kue.store.redis.doctor.job_facts import JobFacts, LimitFacts
from kue.store.redis.doctor.job_record import (
    FINAL_PLACES,
    QUEUED,
    JobRecord,
    UnreadableRecord,
    read_job_record,
)
from kue.store.redis.doctor.rule import (
    RedisFinding,
    Rule,
    Violation,
    apply_rules,
    listed,
)
from kue.store.redis.keys import PLACES
from kue.store.redis.record import stalls_in
from kue.store.values import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

#: fence:started:attempt:worker:claim; scripts rely on the widths of the first two, and
#: a fence past 2^53 would not be exact.
_TOKEN = re.compile(r"[1-8]\d{15}:\d{13}:[1-9]\d*:[^:]+:[^:]+", re.ASCII)
_TRIES = re.compile(r"(\d+):(\d+)", re.ASCII)
_TIME = re.compile(r"\d{1,15}", re.ASCII)
#: Which of several states a job keeps when neither a run nor its history decides.
_PREFERENCE = (*QUEUED, "blocked", "failed", "cancelled", "complete")
_NOT_ENDED = PLACES.keys() - FINAL_PLACES
_ADVICE = "; look at it with GET {}; to give it up, DEL that key and repair"


def check_job(facts: JobFacts) -> list[RedisFinding]:
    """Return what is wrong with a job, most urgent first."""
    if "unread" in facts.marks:
        return []  # reported as a key of the wrong type; nothing is known of the job
    if facts.record is None:
        return list(apply_rules(GONE_RULES, facts, "gone"))
    try:
        job = read_job_record(facts)
    except UnreadableRecord as exc:
        return [_unreadable(facts, str(exc))]
    for finding in apply_rules(STATE_RULES, job, "any"):
        return [finding]
    return list(apply_rules(JOB_RULES, job, job.place))


# -- jobs without a readable record --------------------------------------------


def _unreadable(facts: JobFacts, why: str) -> RedisFinding:
    code, problem = "bad-record", "has a record that cannot be read"
    if _is_only_parked(facts):
        code, problem = "parked", "is parked: its record cannot be read"
    advice = _ADVICE.format(facts.keys.job(facts.job_id))
    finding = Finding(code, f"{facts.title}{problem}: {why}{advice}", facts.job_id)
    return RedisFinding(finding, (), facts.inspection)


def _is_only_parked(facts: JobFacts) -> bool:
    return {place for _, place in facts.found_in} == {"parked"}


def _parked_and_gone(facts: JobFacts) -> Iterator[Violation]:
    if _is_only_parked(facts):
        commands = repairs.remove_traces(facts)
        yield Violation("is parked, and its record is gone", "forget it", commands)


def _no_record(facts: JobFacts) -> Iterator[Violation]:
    commands = repairs.remove_traces(facts)
    if facts.found_in and not _is_only_parked(facts):
        problem = f"is in {_place_names(facts)}, but has no record"
        yield Violation(problem, "take it out", commands)
    elif "live" in facts.marks and not facts.found_in:
        problem = "is marked as living, but has no record"
        yield Violation(problem, "unmark it", commands)


def _entries_left(facts: JobFacts) -> Iterator[Violation]:
    names = [structure for _, structure in facts.entries]
    names += ["held" for _ in facts.held]
    names += [f"limit {ref}" for ref, how in facts.limits.items() if _is_counted(how)]
    names += ["cancelling"] if "cancelling" in facts.marks else []
    if names and not facts.found_in and "live" not in facts.marks:
        problem = f"is gone, but has an entry in {listed(names)}"
        yield Violation(problem, "take it out", repairs.remove_traces(facts))


def _is_counted(how: LimitFacts) -> bool:
    return bool(how.held) or how.is_running


def _place_names(facts: JobFacts, own: str = "") -> str:
    """Return the structures a job is in, with the type where it is not its own."""
    types = {job_type for job_type, _ in facts.found_in}
    is_plain = types <= {own} or (not own and len(types) == 1)
    names = [
        place if is_plain or job_type == own else f"{place} of {unquote(job_type)!r}"
        for job_type, place in facts.found_in
    ]
    return listed(names, "and in")


# -- the state -----------------------------------------------------------------


def _other_type(job: JobRecord) -> Iterator[Violation]:
    if _foreign_places(job) and not job.places:
        where = _place_names(job, job.type)
        problem = f"is in {where}, but its record says that its type is "
        advice = _ADVICE.format(job.keys.job(job.job_id))
        yield Violation(f"{problem}{job.job.type!r}{advice}")


def _several_states(job: JobRecord) -> Iterator[Violation]:
    if len(job.places) + len(_foreign_places(job)) <= 1:
        return
    kept = _state_to_keep(job)
    commands = tuple(
        command
        for job_type, place in job.found_in
        if (job_type, place) != (job.type, kept)
        for command in repairs.leave(job, job_type, place)
    )
    where = _place_names(job, job.type)
    yield Violation(f"is in {where}", f"keep it in {kept}", commands)


def _foreign_places(job: JobRecord) -> list[tuple[str, str]]:
    return [place for place in job.found_in if place[0] != job.type]


def _state_to_keep(job: JobRecord) -> str:
    run = job.places.get("active", "")
    # A run whose end is in the history is over, even if it is still listed.
    is_over = any(attempt.token == run for attempt in job.job.history)
    if _TOKEN.fullmatch(run) and not is_over:
        return "active"
    if job.last_final is not None and job.last_final[0] in job.places:
        return job.last_final[0]
    return next((place for place in _PREFERENCE if place in job.places), "active")


def _parked(job: JobRecord) -> Iterator[Violation]:
    if (job.type, "parked") not in job.found_in:
        return
    out = job.remove_from(job.type, "parked")
    if job.places:
        problem = f"is parked and in {job.place}"
        yield Violation(problem, f"keep it in {job.place}", (out,))
    else:
        repair, commands = repairs.restore(job)
        problem = "is parked, but its record can be read again"
        yield Violation(problem, repair, (*commands, out))


def _held_by_group_only(job: JobRecord) -> Iterator[Violation]:
    if _holders(job) and not job.places:
        problem = "is among the held jobs of its group or a limit, but not in held"
        commands = (*repairs.requeue(job), *repairs.leave_groups(job))
        yield Violation(problem, "requeue it", commands)


def _no_state(job: JobRecord) -> Iterator[Violation]:
    if not job.places:
        yield Violation("is in no state", *repairs.restore(job))


def _bad_run(job: JobRecord) -> Iterator[Violation]:
    run = job.places.get("active")
    if run is not None and _TOKEN.fullmatch(run) is None:
        repair, commands = repairs.rerun(job)
        problem = f"is active with the run {run!r}, which no worker can hold"
        out = repairs.leave(job, job.type, "active")
        yield Violation(problem, repair, (*commands, *out))


# -- what a state requires -----------------------------------------------------


def _not_live(job: JobRecord) -> Iterator[Violation]:
    if "live" not in job.marks:
        problem = "is not marked as living, so that pages over all states leave it out"
        yield Violation(problem, "mark it", (repairs.mark_live(job, 1),))


def _wrong_score(job: JobRecord) -> Iterator[Violation]:
    right: int | None = None
    if job.place in ("waiting", "held"):
        right = job.waiting_score
    elif job.place == "blocked":
        right = job.job_id
    elif _TIME.fullmatch(job.score) is None:
        right = job.job.updated_at if job.place in FINAL_PLACES else job.due
    if right is not None and job.score != str(right):
        yield _rescore(job, job.place, job.score, right)


def _rescore(job: JobRecord, structure: str, score: str, right: int) -> Violation:
    commands = [job.put_in(structure, right)]
    if structure == "held":
        group = job.key(f"held:{job.options.get('group', '')}")
        limits = (repairs.limit_key(job, ref, "held") for ref in job.job.limit_refs)
        for key in (group, *limits):
            commands.append(("ZADD", key, "XX", right, job.job_id))
    problem = f"is in {structure} with the score {score}, where {right} is right"
    return Violation(problem, f"set it to {right}", tuple(commands))


def _no_lease(job: JobRecord) -> Iterator[Violation]:
    if "leased" not in job.marks:
        worker = job.score.split(":")[3]
        lease = ("ZADD", job.keys.of_shard("workers"), job.now, worker)
        problem = f"is run by worker {worker!r}, which has no lease that could end"
        repair = "give it one that is over, so that maintenance takes the run back"
        yield Violation(problem, repair, (lease,))


def _bad_tries(job: JobRecord) -> Iterator[Violation]:
    tries = job.entries.get((job.type, "tries"))
    if tries is None or _TRIES.fullmatch(tries):
        return
    right = f"{job.job.attempts}:{stalls_in(job.job.history)}"
    problem = f"has tries of {tries!r}, which are not numbers"
    repair = f"set them to {right}, as in its history"
    yield Violation(problem, repair, (job.put_in("tries", right),))


def _too_many_tries(job: JobRecord) -> Iterator[Violation]:
    match = _TRIES.fullmatch(job.entries.get((job.type, "tries"), ""))
    made, most = int(match[1]) if match else 0, job.job.max_attempts
    # An edit may lower the limit, and a run may end with a request for one more: then
    # all of them are in the history.
    if match and 0 < most <= made and made != job.job.attempts:
        problem = f"is in {job.place} with {made} attempts made of {most}, "
        yield Violation(f"{problem}and its history has {job.job.attempts}")


def _stray_entries(job: JobRecord) -> Iterator[Violation]:
    allowed = {name for name, _ in _times(job)}
    allowed |= {"tries"} if job.place in (*QUEUED, "active") else set()
    allowed |= {"progress"} if job.place == "active" else set()
    strays = [
        (job_type, name)
        for job_type, name in job.entries
        if job_type != job.type or name not in allowed
    ]
    names = [name for _, name in strays]
    commands = [job.remove_from(*stray) for stray in strays]
    if "cancelling" in job.marks and job.place != "active":
        names.append("cancelling")
        commands.append(repairs.forget_cancel(job))
    if names:
        problem = f"is in {job.place}, but has an entry in {listed(names)}"
        yield Violation(problem, "take it out", tuple(commands))


def _times(job: JobRecord) -> Iterator[tuple[str, int | None]]:
    """
    Yield the structures that must list a job by time, and its score in each.

    The score is None while the score that it follows from is to be repaired.
    """
    options, place = job.options, job.place
    if place == "active":
        if "ttl" in options:
            yield "ttl", job.now + int(options["ttl"])
    elif place not in FINAL_PLACES:
        if "expires" in options:
            yield "expires", job.job.created_at + int(options["expires"])
    elif "retention" in options:
        is_time = _TIME.fullmatch(job.score)
        until = int(job.score) + int(options["retention"]) if is_time else None
        yield f"retain_{place}", until


def _missing_time(job: JobRecord) -> Iterator[Violation]:
    for name, right in _times(job):
        if right is not None and (job.type, name) not in job.entries:
            problem = f"is in {job.place} and has its own time, but no entry in {name}"
            yield Violation(problem, f"add it to {name}", (job.put_in(name, right),))


def _bad_time(job: JobRecord) -> Iterator[Violation]:
    for name, right in _times(job):
        score = job.entries.get((job.type, name), "0")
        if right is not None and _TIME.fullmatch(score) is None:
            yield _rescore(job, name, score, right)


def _holders(job: JobRecord) -> list[str]:
    """Return what holds a job: groups, and limits by name and key."""
    limits = (ref for ref, how in job.limits.items() if how.held)
    return [*(group for _, group in job.held), *limits]


def _wrongly_held(job: JobRecord) -> Iterator[Violation]:
    if _holders(job):
        groups = listed(_holders(job))
        problem = f"is in {job.place}, but among the held jobs of {groups}"
        yield Violation(problem, "take it out there", repairs.leave_groups(job))


def _held_in_vain(job: JobRecord) -> Iterator[Violation]:
    limit = _holding_limit(job)
    if limit is None and not _is_in_group(job):
        problem = "is in held, but not among those of its group or a limit"
    elif limit is None and "per_key" not in job.marks:
        problem = "is held, but its type has no limit for a group"
    elif limit is not None and job.limits[limit].rule == "none":
        problem = f"is held by limit {limit}, which has no rule"
    else:
        return
    commands = (*repairs.requeue(job), *repairs.leave(job, job.type, "held"))
    yield Violation(problem, "requeue it", commands)


def _is_in_group(job: JobRecord) -> bool:
    return bool(job.held) and _holders(job) == [job.options.get("group")]


def _holding_limit(job: JobRecord) -> str | None:
    """Return the one limit that holds it; None if none, several or another does."""
    holders = _holders(job)
    is_own = not job.held and len(holders) == 1 and holders[0] in job.job.limit_refs
    return holders[0] if is_own else None


def _wrong_limit_score(job: JobRecord) -> Iterator[Violation]:
    limit = _holding_limit(job)
    if limit is not None and job.limits[limit].held != str(job.waiting_score):
        key = repairs.limit_key(job, limit, "held")
        put = ("ZADD", key, job.waiting_score, job.job_id)
        problem = f"is held by limit {limit} with the score {job.limits[limit].held}, "
        problem += f"where {job.waiting_score} is right"
        yield Violation(problem, f"set it to {job.waiting_score}", (put,))


def _no_opening(job: JobRecord) -> Iterator[Violation]:
    limit = _holding_limit(job)
    if limit is None:
        return
    if job.limits[limit].rule == "rate" and not job.limits[limit].opens:
        problem = f"is held by the rate {limit}, but its type has no entry in opens"
        put = ("ZADD", job.key("opens"), job.now, limit)
        yield Violation(problem, "look at the rate again now", (put,))


def _wrong_limit_run(job: JobRecord) -> Iterator[Violation]:
    for ref, how in job.limits.items():
        is_right = job.place == "active" and ref in job.job.limit_refs
        if how.is_running and not is_right:
            problem = f"is in {job.place}, but among the running jobs of limit {ref}"
            out = repairs.leave_limit(job, ref, "running")
            yield Violation(problem, "take it out", (out,))
        elif is_right and not how.is_running:
            problem = f"is active, but not among the running jobs of limit {ref}"
            key = repairs.limit_key(job, ref, "running")
            yield Violation(problem, "add it", (("ZADD", key, job.now, job.job_id),))


def _unlisted_key(job: JobRecord) -> Iterator[Violation]:
    for ref, how in job.limits.items():
        if _is_counted(how) and not how.is_listed:
            name, _, key = ref.partition(":")
            problem = f"counts under limit {ref}, which does not list that key"
            put = ("SADD", job.keys.of_shard(f":{name}:keys"), key)
            yield Violation(problem, "list it", (put,))


def _wrong_group_score(job: JobRecord) -> Iterator[Violation]:
    if _is_in_group(job) and "per_key" in job.marks:
        [((_, group), score)] = job.held.items()
        if score != str(job.waiting_score):
            yield _rescore(job, f"held:{group}", score, job.waiting_score)


def _bad_cancel(job: JobRecord) -> Iterator[Violation]:
    asked = job.marks.get("cancelling")
    if asked is not None and not _is_cancel_request(job, asked):
        request = f'{job.type}\t{tail_of(after_cancel("")).decode()}\t""'
        put = ("HSET", job.keys.of_shard("cancelling"), job.job_id, request)
        problem = f"was asked to end with {asked[:60]!r}, which cannot be read"
        yield Violation(problem, "ask it without a reason", (put,))


def _is_cancel_request(job: JobRecord, asked: str) -> bool:
    """Return whether a request to cancel is as ``cancel.lua`` writes it."""
    job_type, _, rest = asked.partition("\t")
    tail, _, reason = rest.partition("\t")
    try:
        msgspec.json.decode("{" + tail)
        msgspec.json.decode(reason, type=str)
    except (ValueError, RecursionError):
        return False
    return job_type == job.type


def _two_unique(job: JobRecord) -> Iterator[Violation]:
    if _has_rival(job):
        yield Violation(
            f"and job {job.holder} both have the unique key {job.job.unique!r} and "
            "have not ended; cancel the one that is too many"
        )


def _has_rival(job: JobRecord) -> bool:
    """Return whether another unfinished job has, and holds, the unique key."""
    is_other = job.holder != job.job_id and "holds" in job.marks
    is_rival = is_other and job.holder_standing in _NOT_ENDED
    return is_rival and not _may_lack_key(job)


def _may_lack_key(job: JobRecord) -> bool:
    is_started = "active" in job.places and job.job.unique_until == "start"
    return is_started or job.job.may_lack_key


def _lost_unique(job: JobRecord) -> Iterator[Violation]:
    key = job.options.get("unique")
    if key is None or job.holder == job.job_id or _has_rival(job):
        return
    if _may_lack_key(job):
        return
    # A holder that is in no state is repaired first.
    if job.holder_standing != "nowhere":
        until = job.job.created_at + job.job.unique_for if job.job.unique_for else 0
        take = ("HSET", job.key("unique"), key, f"{job.job_id}:{until}")
        problem = f"has the unique key {job.job.unique!r}, but does not hold it"
        yield Violation(problem, "have it hold the key", (take,))


GONE_RULES = (
    Rule[JobFacts]("parked", ("gone",), _parked_and_gone),
    Rule[JobFacts]("no-record", ("gone",), _no_record),
    Rule[JobFacts]("stray-entry", ("gone",), _entries_left),
    *GONE_DEPENDENCY_RULES,
    *GONE_FLOW_RULES,
)
#: The first that finds something counts: while it is so, nothing else can be checked.
STATE_RULES = (
    Rule[JobRecord]("bad-record", ("any",), _other_type),
    Rule[JobRecord]("in-two-states", ("any",), _several_states),
    Rule[JobRecord]("parked", ("any",), _parked),
    Rule[JobRecord]("held-drift", ("any",), _held_by_group_only),
    Rule[JobRecord]("in-no-state", ("any",), _no_state),
    Rule[JobRecord]("bad-run", ("any",), _bad_run),
)
#: About a job in exactly one state.
JOB_RULES = (
    Rule[JobRecord]("count-drift", PLACES, _not_live),
    Rule[JobRecord]("bad-score", PLACES.keys() - {"active"}, _wrong_score),
    Rule[JobRecord]("no-lease", ("active",), _no_lease),
    Rule[JobRecord]("attempts-range", (*QUEUED, "active"), _bad_tries),
    Rule[JobRecord]("attempts-range", QUEUED, _too_many_tries),
    Rule[JobRecord]("stray-entry", PLACES, _stray_entries),
    Rule[JobRecord]("missing-entry", PLACES, _missing_time),
    Rule[JobRecord]("bad-score", PLACES, _bad_time),
    Rule[JobRecord]("held-drift", PLACES.keys() - {"held"}, _wrongly_held),
    Rule[JobRecord]("held-drift", ("held",), _held_in_vain),
    Rule[JobRecord]("bad-score", ("held",), _wrong_group_score),
    Rule[JobRecord]("bad-score", ("held",), _wrong_limit_score),
    Rule[JobRecord]("missing-entry", ("held",), _no_opening),
    Rule[JobRecord]("limit-drift", PLACES, _wrong_limit_run),
    Rule[JobRecord]("limit-drift", PLACES, _unlisted_key),
    Rule[JobRecord]("bad-value", ("active",), _bad_cancel),
    Rule[JobRecord]("two-unique", _NOT_ENDED, _two_unique),
    Rule[JobRecord]("unique-drift", _NOT_ENDED, _lost_unique),
    *DEPENDENCY_RULES,
    *FLOW_RULES,
)
