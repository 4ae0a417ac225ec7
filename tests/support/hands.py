"""
Hands inside a Redis store: what a slip in redis-cli, a bug or a bad restore would do.

And what `check` is to make of it: `mended` and `left_alone` say so in one line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import redis

from kue.store.contract import Store
from kue.store.redis.keys import LIVE_CHUNK, Keys, root_of, shard_of_type
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
    return finding


async def mended(store: Store, code: str, message: str, repair: str) -> None:
    """A check finds this one thing, says so, mends it if asked, and then is content."""
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
