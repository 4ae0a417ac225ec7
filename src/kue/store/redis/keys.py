"""
Redis keys: every key of the store is built here and nowhere else.

All keys of a shard begin with its hash tag, ``{kue}`` (``{kue:0}`` … with several
shards), and so live in one slot of a Redis Cluster: that is what lets a script reach a
job's record from an id that it finds in a set.  Scripts build their keys from that tag,
named ``root`` there.  ``<type>`` and ``<group>`` are percent-encoded (`names.quote`).

=============================  ======  ================================================
key, after the tag             type    holds
=============================  ======  ================================================
``:meta``                      hash    schema, shards, id; last pass of maintenance;
                                       number of the last event message
``:ids`` ``:fence``            string  last sequence number; last fence
``:types``                     set     types; forgotten when idle for a day
``:live:<n>``                  string  one bit per existing job, 65,536 to a key
``:job:<id>``                  string  header, body, history: one line per ending
``:job:<id>:log``              list    log lines, JSON
``:job:<id>:after``            set     jobs that a blocked job waits for
``:job:<id>:then``             zset    jobs that wait for this one to succeed
``:job:<id>:finally``          zset    jobs that wait for this one to end
``:<type>:waiting``            zset    score = priority × 2^41 + sequence
``:<type>:delayed``            zset    score = when due, ms
``:<type>:active``             hash    id → token: fence:started:attempt:worker:claim
``:<type>:complete`` ``failed``
``cancelled``                  zset    score = when it ended, ms
``:<type>:blocked``            zset    score = id
``:<type>:held``               zset    waiting jobs set aside by the per-key limit
``:<type>:held:<group>``       zset    the same, by group
``:<type>:parked``             zset    ids without a usable record
``:<type>:tries``              hash    id → attempts:stalls, after a first failure
``:<type>:progress``           hash    id → percent, tab, JSON; while it runs
``:<type>:ttl``                zset    running jobs with a ttl; score = deadline
``:<type>:expires``            zset    unfinished jobs that expire; score = when
``:<type>:retain_<state>``     zset    ended jobs with their own retention; score = when
``:<type>:unique``             hash    unique key → holder:until
``:<type>:lapse``              zset    unique keys that outlast their job; score = until
``:<type>:running``            hash    group → running jobs
``:<type>:rate``               hash    left, at: the rate limit's state
``:<type>:wake``               zset    at most one marker; workers sleep on it
``:<type>:errors``             zset    fingerprints of errors; score = failed jobs
``:<type>:causes``             hash    fingerprint → when the first of them failed;
                                       :last → when the last did, its id, its error
``:workers`` ``:info``         zset,   worker → lease deadline; → its status
                               hash
``:orders``                    hash    worker → its orders, and until when each lasts
``:stacks``                    hash    worker → its stacks; worker:at → when
``:claims:<hour>``             hash    worker:lane → number of its last claim
``:cancelling``                hash    running job asked to stop → type, tab, line for
                                       its history, tab, the reason, JSON
``:paused``                    hash    type, or :worker → until, tab, JSON
``:limits``                    hash    type → limits
``:parents``                   set     jobs that others wait for
``:outbox``                    hash    what maintenance must still do for dependants
``:producers:<hour>``          hash    producer → seq:answer of its last add
``:schedules`` ``:due``        hash,   name → JSON; name → when it fires next
                               zset
``:stats:<minute>``            hash    type:added, :complete, :failed, :run_ms,
                                       :waits, :runs
``:hours:<hour>``              hash    the same, by hour
``:listeners`` ``:watched``    zset    subscribers to all events; watched jobs
``:kept``                      hash    room:name → until, tab, value: small records
``:fading``                    zset    those that expire; score = until
``:acts`` ``:routine``         zset    audit log: time, tab, call, tab, JSON
``:refusals``
``:agenda``                    zset    type, or ":" for the rest of the shard; score =
                                       when maintenance looks at it next, ms
``:search``                    hash    search for runs of lost workers: type:<type> →
                                       where it goes on, ":", when it began;
                                       worker:<worker> → when a run was last found
``:events``                    –       channel (sharded publish)
=============================  ======  ================================================
"""

from __future__ import annotations

import zlib

from kue.model.names import quote

SCHEMA = 1
LIVE_CHUNK = 65_536
#: A score has 41 bits for it.
MAX_SEQUENCE = 2**41 - 1
#: Structures of a type that hold its jobs, and the state that each stands for.
PLACES = {
    "waiting": "waiting",
    "held": "waiting",
    "delayed": "delayed",
    "active": "active",
    "complete": "complete",
    "failed": "failed",
    "cancelled": "cancelled",
    "blocked": "blocked",
}
#: Redis type of each key that begins with ``:<type>:``.
TYPE_KEYS = {
    **dict.fromkeys(PLACES, "zset"),
    "active": "hash",
    "parked": "zset",
    "tries": "hash",
    "progress": "hash",
    "ttl": "zset",
    "expires": "zset",
    "retain_complete": "zset",
    "retain_failed": "zset",
    "retain_cancelled": "zset",
    "unique": "hash",
    "lapse": "zset",
    "running": "hash",
    "rate": "hash",
    "wake": "zset",
    "errors": "zset",
    "causes": "hash",
}
#: Redis type of each key of a shard, by its name after the tag.
SHARD_KEYS = {
    "meta": "hash",
    "ids": "string",
    "fence": "string",
    "types": "set",
    "workers": "zset",
    "info": "hash",
    "orders": "hash",
    "stacks": "hash",
    "cancelling": "hash",
    "paused": "hash",
    "limits": "hash",
    "parents": "set",
    "outbox": "hash",
    "schedules": "hash",
    "due": "zset",
    "listeners": "zset",
    "watched": "zset",
    "kept": "hash",
    "fading": "zset",
    "acts": "zset",
    "routine": "zset",
    "refusals": "zset",
    "agenda": "zset",
    "search": "hash",
}
#: Redis type of each key that begins with ``:job:<id>:``.
JOB_KEYS = {"log": "list", "after": "set", "then": "zset", "finally": "zset"}


def root_of(prefix: str, shard: int, shards: int) -> str:
    """Return the tag of a shard."""
    name = quote(prefix)
    return f"{{{name}}}" if shards == 1 else f"{{{name}:{shard}}}"


def worker_field(worker: str) -> str:
    """Return a worker's field in ``:paused``, which cannot be that of a type."""
    return f":{quote(worker)}"


def shard_of_type(job_type: str, shards: int) -> int:
    """Return the shard a type lives on: the same in every process and release."""
    return zlib.crc32(job_type.encode()) % shards


class Keys:
    """Builds the keys of one shard."""

    def __init__(self, root: str) -> None:
        self.root = root

    def job(self, job_id: int | str) -> str:
        return f"{self.root}:job:{job_id}"

    def log(self, job_id: int) -> str:
        return f"{self.root}:job:{job_id}:log"

    def of_type(self, job_type: str, structure: str) -> str:
        return f"{self.root}:{quote(job_type)}:{structure}"

    def of_shard(self, structure: str) -> str:
        return f"{self.root}:{structure}"

    def live(self, chunk: int) -> str:
        return f"{self.root}:live:{chunk}"

    def stats(self, minute: int) -> str:
        return f"{self.root}:stats:{minute}"

    @property
    def events(self) -> str:
        return f"{self.root}:events"
