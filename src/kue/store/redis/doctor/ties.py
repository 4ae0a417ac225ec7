"""
Whether jobs that wait for others, and those others, know of each other.

A blocked job lists its parents (``:after``), and each of them lists it (``:then`` when
it waits for a good end, ``:finally`` when any end will do).  When a parent has ended,
upkeep may still be about to tell; what stands in the outbox is no damage.  A repair
leaves the telling to upkeep too, which does it as for any other end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.redis.doctor.chart import FINAL_PLACES
from kue.store.redis.doctor.mending import put_in_line
from kue.store.redis.doctor.trouble import Guard, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kue.store.redis.doctor.chart import Chart
    from kue.store.redis.doctor.facts import Facts, Tie
    from kue.store.redis.doctor.layout import Layout
    from kue.store.redis.doctor.shard import Command


def judge(chart: Chart) -> Iterator[Trouble]:
    """Yield what is wrong between a job in one state and those it is tied to."""
    if "blocked" in chart.places:
        yield from _blocked(chart)
    else:
        yield from _not_blocked(chart)
    yield from _as_parent(chart)


def judge_gone(facts: Facts, layout: Layout) -> Iterator[Trouble]:
    """Yield what is still there of a job that is gone."""
    job_id, name = facts.job_id, f"job {facts.job_id}"
    keys = layout.keys_of(job_id)
    # Those that wait for it are still to be told: upkeep is on its way.
    kept = {"then", "finally"} if facts.rest else set()
    for part in sorted(facts.parts - kept):
        message = f"{name} is gone, but its {part} is still there"
        out: Command = ("DEL", keys.job(f"{job_id}:{part}"))
        yield Trouble("stray-log", message, job_id, "delete it", (out,))
    if facts.is_parent and not facts.rest:
        message = f"{name} is gone, but counts as one that others wait for"
        out = ("SREM", keys.of_shard("parents"), job_id)
        yield Trouble("stray-link", message, job_id, "forget that", (out,))
    for tie in facts.ties:
        if tie.in_then or tie.in_finally:
            message = f"{name} is gone, but job {tie.parent} is still to tell it"
            yield _unlinked(tie, job_id, layout, message)


def _blocked(chart: Chart) -> Iterator[Trouble]:
    for odd in chart.facts.odd_parents:
        shown = odd.decode("utf-8", "backslashreplace")
        message = f"waits for {shown!r}, which is no job"
        out: Command = ("SREM", _after(chart), odd)
        yield chart.trouble("stuck-blocked", message, "wait no longer", (out,))
    for tie in chart.facts.ties:
        if tie.awaited:
            yield from _awaiting(chart, tie)
        elif _is_listed(chart, tie):
            yield _wait_again(chart, tie)
    is_free = not any(tie.awaited or _is_listed(chart, tie) for tie in chart.facts.ties)
    if is_free and not chart.facts.odd_parents:
        yield _blocked_by_nothing(chart)


def _awaiting(chart: Chart, tie: Tie) -> Iterator[Trouble]:
    wrong = "then" if chart.job.after_any else "finally"
    if tie.in_then if chart.job.after_any else tie.in_finally:
        message = f"job {chart.job_id} is on the wrong list of job {tie.parent}"
        yield _unlinked(tie, chart.job_id, chart.layout, message, wrong)
    if not tie.is_known or tie.is_link_pending or tie.is_end_pending:
        return
    outcome = _outcome(chart, tie)
    if _is_listed(chart, tie) and (outcome is None or tie.is_rest_pending):
        return
    commands = _asked_elsewhere(chart, tie)
    if chart.layout.shard_of(tie.parent) == chart.layout.shard_of(chart.job_id):
        commands = _told_here(chart, tie, outcome)
    problem, repair = _problem(tie, outcome), _repair(chart, outcome)
    yield chart.trouble("stuck-blocked", problem, repair, commands)


def _is_listed(chart: Chart, tie: Tie) -> bool:
    """Tell whether the parent has the job on the list where it belongs."""
    return tie.in_finally if chart.job.after_any else tie.in_then


def _outcome(chart: Chart, tie: Tie) -> str | None:
    """How the parent ended, as its dependants are told; None while there is hope."""
    if not tie.standing:
        return "removed"
    if tie.standing not in FINAL_PLACES:
        return None
    # A failed job may be retried by hand: those who need a good end go on waiting.
    is_hopeful = tie.standing == "failed" and not chart.job.after_any
    return None if is_hopeful else tie.standing


def _problem(tie: Tie, outcome: str | None) -> str:
    if outcome is None:
        return f"waits for job {tie.parent}, which does not know of it"
    how = "gone" if outcome == "removed" else outcome
    return f"waits for job {tie.parent}, which is {how}"


def _repair(chart: Chart, outcome: str | None) -> str:
    if outcome is None:
        return "have that one know of it"
    if chart.job.after_any or outcome == "complete":
        return "have upkeep release it"
    return "have upkeep cancel it, as its parent cannot end well any more"


def _told_here(chart: Chart, tie: Tie, outcome: str | None) -> tuple[Command, ...]:
    keys, parent = chart.keys, tie.parent
    part = "finally" if chart.job.after_any else "then"
    link: Command = ("ZADD", keys.job(f"{parent}:{part}"), chart.job_id, chart.job_id)
    count: Command = ("SADD", keys.of_shard("parents"), parent)
    if outcome is None:
        return (link, count)
    note: Command = ("HSET", keys.of_shard("outbox"), f"rest:{parent}", outcome)
    return (link, count, note)


def _asked_elsewhere(chart: Chart, tie: Tie) -> tuple[Command, ...]:
    # Asked anew, the parent's shard links the two or says how the parent ended.
    any_end = "1" if chart.job.after_any else "0"
    field = f"link:{chart.job_id}:{tie.parent}"
    return (("HSET", chart.keys.of_shard("outbox"), field, any_end),)


def _wait_again(chart: Chart, tie: Tie) -> Trouble:
    return chart.trouble(
        "stuck-blocked",
        f"is blocked and on the list of job {tie.parent}, but does not say that it "
        "waits for that one",
        f"have it wait for job {tie.parent}",
        (("SADD", _after(chart), tie.parent),),
    )


def _blocked_by_nothing(chart: Chart) -> Trouble:
    options, now = chart.options, chart.facts.now
    due = int(options.get("at", now + int(options.get("delay", 0))))
    put = put_in_line(chart)
    if due > now:
        put = (("ZADD", chart.key("delayed"), due, chart.job_id), *put[1:])
    out: Command = ("ZREM", chart.key("blocked"), chart.job_id)
    message = "is blocked, but there is nothing that it waits for"
    return chart.trouble("stuck-blocked", message, "release it", (*put, out))


def _not_blocked(chart: Chart) -> Iterator[Trouble]:
    [place] = chart.places
    if "after" in chart.facts.parts:
        message = f"is in {place}, but still says what it waits for"
        out: Command = ("DEL", _after(chart))
        yield chart.trouble("stray-link", message, "forget that", (out,))
    for tie in chart.facts.ties:
        if tie.in_then or tie.in_finally:
            message = f"job {chart.job_id} is in {place}, but job {tie.parent} is "
            message += "still to tell it"
            yield _unlinked(tie, chart.job_id, chart.layout, message)


def _unlinked(
    tie: Tie, job_id: int, layout: Layout, message: str, only: str = ""
) -> Trouble:
    """Return the trouble of a parent that lists a job which does not wait for it."""
    keys = layout.keys_of(tie.parent)
    parts = {"then": tie.in_then, "finally": tie.in_finally}
    commands: list[Command] = [
        ("ZREM", keys.job(f"{tie.parent}:{part}"), job_id)
        for part, is_in in parts.items()
        if is_in and only in ("", part)
    ]
    if tie.is_only and not only:
        commands.append(("SREM", keys.of_shard("parents"), tie.parent))
    guard = None
    if layout.shard_of(tie.parent) != layout.shard_of(job_id):
        subject = ("tie", tie.parent, job_id)
        guard = Guard(layout.shard_of(tie.parent), subject, tie.digest)
    return Trouble(
        "stray-link", message, job_id, "take it off the list", tuple(commands), guard
    )


def _as_parent(chart: Chart) -> Iterator[Trouble]:
    facts, parents = chart.facts, chart.keys.of_shard("parents")
    has_lists = bool(facts.parts & {"then", "finally"})
    if has_lists and not facts.is_parent:
        message = "has jobs that wait for it, but does not count as one with such"
        count: Command = ("SADD", parents, chart.job_id)
        yield chart.trouble("stray-link", message, "count it", (count,))
    elif facts.is_parent and not has_lists:
        message = "counts as one that others wait for, but nobody does"
        forget: Command = ("SREM", parents, chart.job_id)
        yield chart.trouble("stray-link", message, "forget that", (forget,))


def _after(chart: Chart) -> str:
    return chart.keys.job(f"{chart.job_id}:after")
