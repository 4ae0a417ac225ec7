"""What a job in one state must have besides, and what it must not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from kue.model.retry_policy import after_cancel
from kue.store.codec import tail_of
from kue.store.redis.doctor.chart import FINAL_PLACES, LINE
from kue.store.redis.doctor.mending import (
    leave,
    live_bit,
    put_in_line,
    taken_out,
    unlisted,
)
from kue.store.redis.doctor.trouble import Trouble, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kue.store.redis.doctor.chart import Chart
    from kue.store.redis.doctor.shard import Command

_TRIES = re.compile(r"(\d+):(\d+)", re.ASCII)
_WHOLE = re.compile(r"\d{1,15}", re.ASCII)


def judge(chart: Chart) -> Iterator[Trouble]:
    """Yield what is wrong with the books of a job that is in exactly one state."""
    [(place, where)] = chart.places.items()
    yield from _live(chart)
    yield from _score(chart, place, where)
    yield from _lease(chart, place, where)
    yield from _tries(chart, place)
    yield from _strays(chart, place)
    yield from _missing(chart, place, where)
    yield from _held(chart, place)
    yield from _cancelling(chart, place)
    if place not in FINAL_PLACES:
        yield from _unique(chart)


def _live(chart: Chart) -> Iterator[Trouble]:
    if not chart.facts.is_live:
        message = "is not marked as living, so that pages over all states leave it out"
        commands = (live_bit(chart.keys, chart.sequence, 1),)
        yield chart.trouble("count-drift", message, "mark it", commands)


def _score(chart: Chart, place: str, where: str) -> Iterator[Trouble]:
    if place == "active":
        return
    right: int | None = None
    if place in ("waiting", "held"):
        right = chart.line_score
    elif place == "blocked":
        right = chart.job_id
    elif _WHOLE.fullmatch(where) is None:
        is_final = place in FINAL_PLACES
        right = chart.job.updated_at if is_final else chart.due
    if right is None or where == str(right):
        return
    commands: list[Command] = [("ZADD", chart.key(place), right, chart.job_id)]
    if place == "held":
        group = f"held:{chart.options.get('group', '')}"
        commands.append(("ZADD", chart.key(group), "XX", right, chart.job_id))
    yield chart.trouble(
        "bad-score",
        f"is in {place} with the score {where}, where {right} is right",
        f"set it to {right}",
        tuple(commands),
    )


def _lease(chart: Chart, place: str, where: str) -> Iterator[Trouble]:
    if place != "active" or chart.facts.is_leased:
        return
    worker = where.split(":")[3]
    register: Command = (
        "ZADD",
        chart.keys.of_shard("workers"),
        chart.facts.now,
        worker,
    )
    yield chart.trouble(
        "no-lease",
        f"is run by worker {worker!r}, which has no lease that could end",
        "give it one that is over, so that upkeep takes the run back",
        (register,),
    )


def _tries(chart: Chart, place: str) -> Iterator[Trouble]:
    tries = chart.facts.entries.get((chart.type, "tries"))
    if tries is None or place not in (*LINE, "active"):
        return
    match = _TRIES.fullmatch(tries)
    if match is None:
        told = f"{chart.job.attempts}:{_stalls(chart)}"
        yield chart.trouble(
            "attempts-range",
            f"has tries of {tries!r}, which are no numbers",
            f"set them to {told}, as its story tells",
            (("HSET", chart.key("tries"), chart.job_id, told),),
        )
        return
    made, most = int(match[1]), chart.job.max_attempts
    # An edit may lower the limit, and whoever ends a run may ask for one more: then its
    # story tells of each.
    if place in LINE and made >= most and made != chart.job.attempts:
        yield chart.trouble(
            "attempts-range",
            f"is in {place} with {made} attempts made of {most}, "
            f"and its story tells of {chart.job.attempts}",
        )


def _stalls(chart: Chart) -> int:
    stalls = 0
    for attempt in chart.job.history:
        if attempt.outcome == "restarted":
            stalls = 0
        stalls += attempt.outcome == "stalled"
    return stalls


def _strays(chart: Chart, place: str) -> Iterator[Trouble]:
    allowed = _allowed(chart, place)
    strays = [
        (job_type, name)
        for job_type, name in chart.facts.entries
        if job_type != chart.type or name not in allowed
    ]
    names = [name for _, name in strays]
    commands = [taken_out(chart.keys, *stray, chart.job_id) for stray in strays]
    if chart.facts.cancelling is not None and place != "active":
        names.append("cancelling")
        commands.append(("HDEL", chart.keys.of_shard("cancelling"), chart.job_id))
    if names:
        message = f"is in {place}, but has an entry in {listed(names)}"
        yield chart.trouble("stray-entry", message, "take it out", tuple(commands))


def _allowed(chart: Chart, place: str) -> set[str]:
    """Return the structures that a job in *place* may have an entry in."""
    names: set[str] = set()
    if place in LINE:
        names = {"tries"}
    elif place == "active":
        names = {"tries", "progress"}
    return names | set(_times(chart, place, "0"))


def _times(chart: Chart, place: str, where: str) -> dict[str, int]:
    """Return the structures that must list a job in *place*, and the score in each."""
    options, times = chart.options, {}
    if place == "active":
        if "ttl" in options:
            times["ttl"] = chart.facts.now + int(options["ttl"])
    elif place in FINAL_PLACES:
        if "retention" in options:
            times[f"retain_{place}"] = int(float(where)) + int(options["retention"])
    elif "expires" in options:
        times["expires"] = chart.job.created_at + int(options["expires"])
    return times


def _missing(chart: Chart, place: str, where: str) -> Iterator[Trouble]:
    if _WHOLE.fullmatch(where) is None and place in FINAL_PLACES:
        return  # its score is mended first
    for name, score in _times(chart, place, where).items():
        found = chart.facts.entries.get((chart.type, name))
        if found is None:
            yield chart.trouble(
                "missing-entry",
                f"is in {place} and has a time of its own, but no entry in {name}",
                f"add it to {name}",
                (("ZADD", chart.key(name), score, chart.job_id),),
            )
        elif _WHOLE.fullmatch(found) is None:
            yield chart.trouble(
                "bad-score",
                f"is in {name} with the score {found}, where {score} is right",
                f"set it to {score}",
                (("ZADD", chart.key(name), score, chart.job_id),),
            )


def _held(chart: Chart, place: str) -> Iterator[Trouble]:
    group = chart.options.get("group")
    listed_in = [name for _, name in chart.facts.held]
    if place != "held":
        if listed_in:
            message = f"is in {place}, but among the held jobs of {listed(listed_in)}"
            commands = unlisted(chart)
            yield chart.trouble("held-drift", message, "take it out there", commands)
        return
    if listed_in != [group]:
        problem = "is in held, but not among the held jobs of its group"
    elif not chart.facts.is_group_limited:
        problem = "is held, but its type has no limit for a group"
    else:
        yield from _held_score(chart, f"held:{group}")
        return
    commands = (*put_in_line(chart), *leave(chart, chart.type, "held"))
    yield chart.trouble("held-drift", problem, "put it back in line", commands)


def _held_score(chart: Chart, name: str) -> Iterator[Trouble]:
    [found] = chart.facts.held.values()
    right = chart.line_score
    if found != str(right):
        message = f"is in {name} with the score {found}, where {right} is right"
        commands = (("ZADD", chart.key(name), right, chart.job_id),)
        yield chart.trouble("bad-score", message, f"set it to {right}", commands)


def _cancelling(chart: Chart, place: str) -> Iterator[Trouble]:
    asked = chart.facts.cancelling
    if place != "active" or asked is None or _is_request(chart, asked):
        return
    request = f'{chart.type}\t{tail_of(after_cancel("")).decode()}\t""'
    yield chart.trouble(
        "bad-value",
        f"was asked to end with {asked[:60]!r}, which says nothing",
        "ask it without a reason",
        (("HSET", chart.keys.of_shard("cancelling"), chart.job_id, request),),
    )


def _is_request(chart: Chart, asked: str) -> bool:
    """Return whether a request to end is as ``cancel.lua`` writes it."""
    job_type, _, rest = asked.partition("\t")
    tail, _, reason = rest.partition("\t")
    try:
        msgspec.json.decode("{" + tail)
        msgspec.json.decode(reason, type=str)
    except (ValueError, RecursionError):
        return False
    return job_type == chart.type


def _unique(chart: Chart) -> Iterator[Trouble]:
    key, holder = chart.options.get("unique"), chart.facts.holder
    if key is None or (holder is not None and holder.job_id == chart.job_id):
        return
    standing = "" if holder is None else holder.standing
    if standing == "adrift":
        return  # that one's state is mended first
    shown = chart.job.unique
    if holder is not None and holder.has_key and standing not in (*FINAL_PLACES, ""):
        yield chart.trouble(
            "two-unique",
            f"and job {holder.job_id} both have the unique key {shown!r} and have not "
            "ended; cancel the one that is too many",
        )
        return
    until = 0
    if chart.job.unique_for:
        until = chart.job.created_at + chart.job.unique_for
    take: Command = ("HSET", chart.key("unique"), key, f"{chart.job_id}:{until}")
    yield chart.trouble(
        "unique-drift",
        f"has the unique key {shown!r}, but does not hold it",
        "have it hold the key",
        (take,),
    )
