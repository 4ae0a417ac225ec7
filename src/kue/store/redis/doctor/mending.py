"""
What mends a job, as plain Redis commands for `mend.lua`.

Commands that put something somewhere come first: those are what Redis may refuse, and
then nothing has been taken away yet.  Each repair leaves the job in one state; what its
new state must or must not have besides is found and mended by the next look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.job import Error, Failed
from kue.model.names import unquote
from kue.store.codec import line_of, tail_of
from kue.store.redis.doctor.keyspace import is_number
from kue.store.redis.keys import LIVE_CHUNK

if TYPE_CHECKING:
    from kue.store.redis.doctor.chart import Chart
    from kue.store.redis.doctor.facts import Facts
    from kue.store.redis.doctor.layout import Layout
    from kue.store.redis.doctor.shard import Command
    from kue.store.redis.keys import Keys

_Commands = tuple["Command", ...]
#: Structures that are hashes; all others are sorted sets.
_HASHES = frozenset({"active", "tries", "progress"})


def home_of(chart: Chart) -> tuple[str, _Commands]:
    """Return where a job that is nowhere belongs, in words, and what puts it there."""
    words, commands = _home_of(chart)
    # Nobody looks for jobs of a type that was lost with everything else.
    known: Command = ("SADD", chart.keys.of_shard("types"), chart.type)
    return words, (*commands, known, looked_at(chart.keys, chart.type))


def _home_of(chart: Chart) -> tuple[str, _Commands]:
    if chart.last_final is not None:
        place, at = chart.last_final
        put: Command = ("ZADD", chart.key(place), at, chart.job_id)
        words = f"put it among the {place} jobs, as its story ends"
        return words, (put, *_unique_freed(chart))
    if "after" in chart.facts.parts:
        put = ("ZADD", chart.key("blocked"), chart.job_id, chart.job_id)
        return "block it again, as it waits for others", (put,)
    has_run = chart.job.once and _may_have_run(chart)
    if chart.due > chart.facts.now and not has_run:
        put = ("ZADD", chart.key("delayed"), chart.due, chart.job_id)
        return "delay it again until it is due", (put, _wake(chart))
    return run_again(chart)


def run_again(chart: Chart) -> tuple[str, _Commands]:
    """
    Return what becomes of a job whose run, if it had one, nobody holds any more.

    It is worse to lose a job than to run it twice, unless it asked for at most once.
    """
    if chart.job.once and _may_have_run(chart):
        return "fail it: it runs at most once, and may have", _failed(chart)
    return "put it back in line", put_in_line(chart)


def put_in_line(chart: Chart) -> _Commands:
    """Return what makes a worker take the job next, in its turn."""
    put: Command = ("ZADD", chart.key("waiting"), chart.line_score, chart.job_id)
    return (put, looked_at(chart.keys, chart.type), _wake(chart))


def looked_at(keys: Keys, job_type: str) -> Command:
    """Return what makes maintenance look at a type at once."""
    return ("ZADD", keys.of_shard("agenda"), "LT", 0, job_type)


def unlisted(chart: Chart) -> _Commands:
    """Return what takes a job from the held jobs of every group."""
    return tuple(
        ("ZREM", chart.keys.of_type(unquote(job_type), f"held:{group}"), chart.job_id)
        for job_type, group in chart.facts.held
    )


def leave(chart: Chart, job_type: str, place: str) -> _Commands:
    """Return what takes a job out of one structure and gives back what it had."""
    out = taken_out(chart.keys, job_type, place, chart.job_id)
    if job_type == chart.type and place == "active":
        return (out, *_slot_freed(chart))
    return (out, *unlisted(chart)) if place == "held" else (out,)


def take_out_everywhere(facts: Facts, layout: Layout) -> _Commands:
    """Return what removes every trace of a job that has no record."""
    job_id, keys = facts.job_id, layout.keys_of(facts.job_id)
    commands: list[Command] = [
        taken_out(keys, job_type, structure, job_id)
        for job_type, structure in (*facts.places, *facts.entries)
    ]
    commands += (
        ("ZREM", keys.of_type(unquote(job_type), f"held:{group}"), job_id)
        for job_type, group in facts.held
    )
    if facts.cancelling is not None:
        commands.append(("HDEL", keys.of_shard("cancelling"), job_id))
    if facts.is_live:
        commands.append(live_bit(keys, layout.sequence_of(job_id), 0))
    return tuple(commands)


def taken_out(keys: Keys, job_type: str, structure: str, job_id: int) -> Command:
    verb = "HDEL" if structure in _HASHES else "ZREM"
    return (verb, keys.of_type(unquote(job_type), structure), job_id)


def live_bit(keys: Keys, sequence: int, bit: int) -> Command:
    chunk, offset = divmod(sequence, LIVE_CHUNK)
    return ("SETBIT", keys.live(chunk), offset, bit)


def freed_for(
    keys: Keys, job_type: str, group: bytes, running: int, held: tuple[int, str] | None
) -> _Commands:
    """Return what sets a group's running jobs, and lets the next one into the slot."""
    counter = keys.of_type(unquote(job_type), "running")
    commands: list[Command] = []
    if held is not None:
        job_id, score = held
        listed_in = keys.of_type(unquote(job_type), "held:").encode() + group
        commands += [
            ("ZADD", keys.of_type(unquote(job_type), "waiting"), score, job_id),
            ("ZREM", keys.of_type(unquote(job_type), "held"), job_id),
            ("ZREM", listed_in, job_id),
        ]
    if running > 0:
        commands.append(("HSET", counter, group, running))
    else:
        commands.append(("HDEL", counter, group))
    return tuple(commands)


def _wake(chart: Chart) -> Command:
    return ("ZADD", chart.key("wake"), 0, "0")


def _slot_freed(chart: Chart) -> _Commands:
    group, running = chart.options.get("group"), chart.facts.running
    if group is None or running is None or not is_number(running):
        return ()
    return freed_for(
        chart.keys, chart.type, group.encode(), int(running) - 1, chart.facts.next_held
    )


def _may_have_run(chart: Chart) -> bool:
    facts = chart.facts
    if any(name in ("progress", "ttl") for _, name in facts.entries):
        return True
    if facts.cancelling is not None or (chart.type, "active") in facts.places:
        return True
    history = chart.job.history
    return bool(history) and history[-1].outcome != "restarted"


def _failed(chart: Chart) -> _Commands:
    error = Error("RunLost", "what was known of its run was lost")
    now = chart.facts.now
    line = b"\n" + line_of("", now, tail_of(Failed(error)))
    return (
        ("ZADD", chart.key("failed"), now, chart.job_id),
        ("APPEND", chart.keys.job(chart.job_id), line),
        *_unique_freed(chart),
    )


def _unique_freed(chart: Chart) -> _Commands:
    """Return what an ended job does with its unique key, as the engine would."""
    facts, key = chart.facts, chart.options.get("unique")
    if key is None or facts.holder is None or facts.holder.job_id != chart.job_id:
        return ()
    until = int((facts.unique or "").partition(":")[2])
    if until > facts.now:
        return (("ZADD", chart.key("lapse"), until, key),)
    return (("HDEL", chart.key("unique"), key),)
