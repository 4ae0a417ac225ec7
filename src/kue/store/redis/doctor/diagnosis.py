"""
What is wrong with one job, from what was seen of it at one moment.

First its record, then its state: while those are in doubt, nothing else can be judged.
Only then what its state must and must not have (`bookkeeping`), and whom it waits for
and who waits for it (`ties`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kue.model.names import unquote
from kue.store.redis.doctor import bookkeeping, ties
from kue.store.redis.doctor.chart import LINE, Chart, Unreadable, open_chart
from kue.store.redis.doctor.mending import (
    home_of,
    leave,
    put_in_line,
    run_again,
    take_out_everywhere,
    unlisted,
)
from kue.store.redis.doctor.trouble import Trouble, listed

if TYPE_CHECKING:
    from kue.store.redis.doctor.facts import Facts
    from kue.store.redis.doctor.layout import Layout

#: fence:started:attempt:worker:claim; scripts rely on the widths of the first two, and
#: a fence past 2^53 would not be exact.
_TOKEN = re.compile(r"[1-8]\d{15}:\d{13}:[1-9]\d*:[^:]+:[^:]+", re.ASCII)
#: Which of several states a job keeps when neither a run nor its story says.
_PREFERENCE = (*LINE, "blocked", "failed", "cancelled", "complete")


def diagnose(facts: Facts, layout: Layout) -> list[Trouble]:
    """Return what is wrong with a job, most urgent first."""
    if facts.is_no_string:
        return []  # reported as a key of the wrong type; nothing is known of the job
    if facts.record is None:
        return _without_record(facts, layout)
    try:
        chart = open_chart(facts, layout)
    except Unreadable as exc:
        return [_unreadable(facts, layout, str(exc))]
    return _state(chart) or [*bookkeeping.judge(chart), *ties.judge(chart)]


def _without_record(facts: Facts, layout: Layout) -> list[Trouble]:
    job_id = facts.job_id
    found: list[Trouble] = []
    commands = take_out_everywhere(facts, layout)
    name = f"job {job_id}"
    if facts.places and {place for _, place in facts.places} == {"parked"}:
        message = f"{name} is parked, and its record is gone"
        found.append(Trouble("parked", message, job_id, "forget it", commands))
    elif facts.places:
        where = listed(_place_names(facts), "and in")
        message = f"{name} is in {where}, but has no record"
        found.append(Trouble("no-record", message, job_id, "take it out", commands))
    elif facts.is_live:
        message = f"{name} is marked as living, but has no record"
        found.append(Trouble("no-record", message, job_id, "unmark it", commands))
    elif commands:
        names = [structure for _, structure in facts.entries]
        names += ["held" for _ in facts.held]
        names += ["cancelling"] if facts.cancelling is not None else []
        message = f"{name} is gone, but has an entry in {listed(names)}"
        found.append(Trouble("stray-entry", message, job_id, "take it out", commands))
    return [*found, *ties.judge_gone(facts, layout)]


def _unreadable(facts: Facts, layout: Layout, why: str) -> Trouble:
    name = f"job {facts.job_id}"
    key = layout.keys_of(facts.job_id).job(facts.job_id)
    if facts.places and {place for _, place in facts.places} == {"parked"}:
        code, message = "parked", f"{name} is parked: its record cannot be read: {why}"
    else:
        code, message = "bad-record", f"{name} has a record that cannot be read: {why}"
    advice = f"; look at it with GET {key}; to give it up, DEL that key and repair"
    return Trouble(code, message + advice, facts.job_id)


def _state(chart: Chart) -> list[Trouble]:
    """Judge where the job is."""
    own, foreign = chart.places, _foreign(chart)
    if not own and foreign:
        return [_of_another_type(chart)]
    if len(own) + len(foreign) > 1:
        return [_in_two_states(chart)]
    if (chart.type, "parked") in chart.facts.places:
        return [_parked(chart)]
    if not own:
        return [_nowhere(chart)]
    if "active" in own and _TOKEN.fullmatch(own["active"]) is None:
        return [_bad_run(chart)]
    return []


def _foreign(chart: Chart) -> list[tuple[str, str]]:
    return [place for place in chart.facts.places if place[0] != chart.type]


def _of_another_type(chart: Chart) -> Trouble:
    where = listed(_place_names(chart.facts, chart.type), "and in")
    return chart.trouble(
        "bad-record",
        f"is in {where}, but its record says that its type is {chart.job.type!r}; "
        f"look at it with GET {chart.keys.job(chart.job_id)}; to give it up, DEL that "
        "key and repair",
    )


def _in_two_states(chart: Chart) -> Trouble:
    kept = _kept(chart)
    commands = tuple(
        command
        for job_type, place in chart.facts.places
        if (job_type, place) != (chart.type, kept)
        for command in leave(chart, job_type, place)
    )
    where = listed(_place_names(chart.facts, chart.type), "and in")
    return chart.trouble(
        "in-two-states", f"is in {where}", f"keep it in {kept}", commands
    )


def _kept(chart: Chart) -> str:
    """Return which of several states a job is to keep."""
    own = chart.places
    run = own.get("active", "")
    # A run that its story tells the end of is over, whoever still lists it.
    is_over = any(attempt.token == run for attempt in chart.job.history)
    if _TOKEN.fullmatch(run) and not is_over:
        return "active"
    if chart.last_final is not None and chart.last_final[0] in own:
        return chart.last_final[0]
    return next((place for place in _PREFERENCE if place in own), "active")


def _parked(chart: Chart) -> Trouble:
    out = leave(chart, chart.type, "parked")
    if chart.places:
        [place] = chart.places
        return chart.trouble(
            "parked", f"is parked and in {place}", f"keep it in {place}", out
        )
    repair, commands = home_of(chart)
    message = "is parked, but its record can be read again"
    return chart.trouble("parked", message, repair, (*commands, *out))


def _nowhere(chart: Chart) -> Trouble:
    if not chart.facts.held:
        repair, commands = home_of(chart)
        return chart.trouble("in-no-state", "is in no state", repair, commands)
    message = "is among the held jobs of its group, but not in held"
    commands = (*put_in_line(chart), *unlisted(chart))
    return chart.trouble("held-drift", message, "put it back in line", commands)


def _bad_run(chart: Chart) -> Trouble:
    run = chart.places["active"]
    repair, commands = run_again(chart)
    out = leave(chart, chart.type, "active")
    message = f"is active with the run {run!r}, which is none that anybody can hold"
    return chart.trouble("bad-run", message, repair, (*commands, *out))


def _place_names(facts: Facts, own: str = "") -> list[str]:
    """Return the structures a job is in, with the type where it is not its own."""
    types = {job_type for job_type, _ in facts.places}
    is_plain = types <= {own} or (not own and len(types) == 1)
    return [
        place if is_plain or job_type == own else f"{place} of {unquote(job_type)!r}"
        for job_type, place in facts.places
    ]
