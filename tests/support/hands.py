"""
Hands inside a Redis store: what a slip in redis-cli, a bug or a bad restore would do.

And what `check` is to make of it: `repaired` and `left_alone` check it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import redis

from kue.store.contract import Store
from kue.store.redis.keys import (
    JOB_KEYS,
    LIVE_CHUNK,
    TYPE_KEYS,
    Keys,
    root_of,
    shard_of_type,
)
from kue.store.redis.wire.connecting import DRIVER
from kue.store.values import Finding
from tests.support.engines import Engine


class Hands:
    """Commands to the Redis behind an engine, with names for the keys."""

    def __init__(self, engine: Engine) -> None:
        address = urlsplit(engine.settings.url)
        self.redis = redis.Redis(
            host=str(address.hostname), port=address.port or 0, **DRIVER
        )
        self.shards = engine.shards
        self._keys = [
            Keys(root_of(engine.settings.prefix, shard, engine.shards))
            for shard in range(engine.shards)
        ]

    def close(self) -> None:
        self.redis.close()

    def do(self, *command: Any) -> Any:
        """Send a command; the reply is as redis-py reads it."""
        send: Callable[..., Any] = self.redis.execute_command
        return send(*command)

    def commands(self) -> int:
        """Return how many commands the server has run, those of scripts included."""
        stats: dict[str, dict[str, int]] = self.redis.info("commandstats")
        return sum(
            stat["calls"] for name, stat in stats.items() if name != "cmdstat_info"
        )

    def scripts(self) -> int:
        """Return how many scripts the server has run."""
        stats: dict[str, dict[str, int]] = self.redis.info("commandstats")
        names = ("cmdstat_evalsha", "cmdstat_eval", "cmdstat_fcall")
        return sum(stats[name]["calls"] for name in names if name in stats)

    def keys_of(self, job_id: int) -> Keys:
        return self._keys[job_id % self.shards]

    def record(self, job_id: int, part: str = "") -> str:
        """The key of a job's record, or of its log, after, then or finally."""
        name = f"{job_id}:{part}" if part else job_id
        return self.keys_of(job_id).job(name)

    def of_type(self, structure: str, job_type: str = "email") -> str:
        keys = self._keys[shard_of_type(job_type, self.shards)]
        return keys.of_type(job_type, structure)

    def of_shard(self, structure: str, job_id: int = 0) -> str:
        """A key of the shard that a job lives on."""
        return self.keys_of(job_id).of_shard(structure)

    def home(self, structure: str, job_type: str = "email") -> str:
        """A key of the shard that a type lives on."""
        return self._keys[shard_of_type(job_type, self.shards)].of_shard(structure)

    def neighbour(self, job_type: str = "email") -> str:
        """Return another type that lives on the same shard."""
        home = shard_of_type(job_type, self.shards)
        names = (f"{job_type}-{number}" for number in range(1000))
        return next(name for name in names if shard_of_type(name, self.shards) == home)

    def mark_live(self, job_id: int, bit: int) -> None:
        chunk, offset = divmod(job_id // self.shards, LIVE_CHUNK)
        self.do("SETBIT", self.keys_of(job_id).live(chunk), offset, bit)

    def mark_lost(self, job_id: int, bit: int = 1) -> None:
        """Have a job count as removed without success, once it is gone."""
        chunk, offset = divmod(job_id // self.shards, LIVE_CHUNK)
        self.do("SETBIT", self.keys_of(job_id).of_shard(f"lost:{chunk}"), offset, bit)

    def line_score(self, job_id: int, priority: int = 0) -> int:
        return priority * 2**41 + job_id // self.shards

    def rewrite(self, job_id: int, old: bytes, new: bytes) -> None:
        """Replace something in a record that must be there."""
        record = self.do("GET", self.record(job_id))
        assert old in record, record
        self.do("SET", self.record(job_id), record.replace(old, new))

    def everything(self) -> dict[bytes, bytes]:
        """Return all keys of the store with what is in them."""
        found: dict[bytes, bytes] = {}
        for keys in self._keys:
            for name in self.redis.scan_iter(f"{keys.root}:*"):
                found[name] = self.do("DUMP", name)
        return found


async def found(store: Store, *, repair: bool = False) -> list[tuple[str, int | None]]:
    """Check, and return the codes and jobs of all findings."""
    report = await store.check(repair=repair)
    return [(finding.code, finding.job_id) for finding in report.findings]


async def only(store: Store, *, repair: bool = False) -> Finding:
    """Check; there must be one finding, which names the job it is about."""
    report = await store.check(repair=repair)
    [finding] = report.findings
    if finding.job_id is not None:
        assert str(finding.job_id) in finding.message
    name = re.match(r"job (\d+) ", finding.message)
    if name and "there can be no such job" not in finding.message:
        assert finding.job_id == int(name[1])
    return finding


async def repaired(store: Store, code: str, message: str, repair: str) -> None:
    """A check finds this one thing, repairs it if asked, and then finds nothing."""
    finding = await only(store)
    assert (finding.code, finding.message) == (code, message)
    assert (finding.repair, finding.repaired) == (repair, False)

    done = await only(store, repair=True)
    assert (done.code, done.message) == (code, message)
    assert (done.repair, done.repaired) == (repair, True)
    assert (await store.check()).findings == ()


async def left_alone(store: Store, hands: Hands, code: str, message: str) -> None:
    """A check finds this one thing, and a repair leaves it to a person."""
    before = hands.everything()
    finding = await only(store, repair=True)

    assert finding.code == code
    assert finding.message.startswith(message)
    assert (finding.repair, finding.repaired) == ("", False)
    assert hands.everything() == before
    assert (await only(store)).code == code


class Damage(NamedTuple):
    """Damage to a store with a job, what a check finds, and what a repair does."""

    #: What jobs there are, separated by commas: a word, and options.
    jobs: str
    #: Commands, separated by semicolons; for names in braces see `Names`.
    commands: str
    #: What must be so in the end, separated by semicolons: a command, "=" and its
    #: reply, or words that the test knows.
    ends: str
    code: str
    message: str
    #: Empty when a repair leaves it to a person.
    repair: str

    async def check(self, store: Store, hands: Hands, names: Names) -> None:
        """Do the damage, and check that it is found, and repaired or left alone."""
        for command in self.commands.split("; "):
            hands.do(*names.words(command))
        message = self.message.format_map(names)
        if self.repair:
            await repaired(store, self.code, message, self.repair.format_map(names))
        else:
            await left_alone(store, hands, self.code, message)


def check_reply(hands: Hands, names: Names, end: str) -> None:
    """Check "command = reply"."""
    command, _, reply = end.partition(" = ")
    found = hands.do(*names.words(command))
    text = found.decode() if isinstance(found, bytes) else f"{found:.0f}"
    assert text == reply.format_map(names)


def read_damages(table: str) -> list[Damage]:
    """Read rows of "jobs | commands | ends", and below "code: message -> repair"."""
    damages: list[Damage] = []
    for row in re.split(r"\n(?=\S)", table.strip()):
        head, _, rest = row.partition("\n")
        jobs, commands, ends = (cell.strip() for cell in head.split("|"))
        finding, _, repair = " ".join(rest.split()).partition(" -> ")
        code, _, message = finding.partition(": ")
        damages.append(Damage(jobs, commands, ends, code, message, repair))
    return damages


class Names(dict[str, Any]):
    """Keys by the names of structures (of "email"), and what else a job has."""

    def __init__(self, hands: Hands, made: int | dict[str, Any]) -> None:
        super().__init__({"id": made} if isinstance(made, int) else made)
        self._hands = hands

    def __missing__(self, name: str) -> Any:
        hands, job_id = self._hands, self["id"]
        if name in ("record", *JOB_KEYS):
            return hands.record(job_id, "" if name == "record" else name)
        if name == "list":
            return hands.record(self["parent"], "then")
        if name == "live":
            return hands.keys_of(job_id).live(0)
        if name == "sequence":
            return job_id // hands.shards
        return hands.of_type(name) if name in TYPE_KEYS else hands.home(name)

    def words(self, command: str) -> list[str]:
        return shlex.split(command.format_map(self))
