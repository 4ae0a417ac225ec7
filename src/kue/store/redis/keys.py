"""
Redis keys: every key of the store is built here and nowhere else.

All keys of a shard begin with its hash tag, ``{kue}`` (``{kue:0}`` … with several
shards), and so live in one slot of a Redis Cluster: that is what lets a script reach a
job's record from an id that it finds in a set.  Scripts build their keys from that tag,
named ``root`` there.  ``<type>`` and ``<group>`` are percent-encoded (`names.quote`).
"""

from __future__ import annotations

import zlib

from kue.model.job import State
from kue.model.names import quote

SCHEMA = 1
LIVE_CHUNK = 65_536
#: A score has 41 bits for it.
MAX_SEQUENCE = 2**41 - 1
#: Structures of a type that hold its jobs, and the state that each stands for.
PLACES = {state.value: state.value for state in State} | {"held": "waiting"}
#: Every key: its name after the tag, its Redis type, and what it holds.  The tables in
#: docs/reference/redis-keys.md are made from these.
KEYS = (
    (
        ":meta",
        "hash",
        (
            "schema, shards, id; when the last maintenance pass was; how many "
            "messages were published; how long successful runs took; whether there "
            "may be jobs whose events are off"
        ),
    ),
    (":ids", "string", "last sequence number"),
    (":fence", "string", "last fence"),
    (":types", "set", "types; one that is idle for a day is forgotten"),
    (":live:<n>", "string", "one bit per job, 65,536 per key"),
    (
        ":lost:<n>",
        "string",
        (
            "one bit per job that was removed without having succeeded, of the newest "
            "10 million"
        ),
    ),
    (":job:<id>", "string", "the record: header, body, one history line per ending"),
    (":job:<id>:log", "list", "log lines, JSON"),
    (":job:<id>:steps", "hash", "durable steps and signals: `store/step_record.py`"),
    (
        ":job:<id>:stream",
        "list",
        "chunks of the last run that sent any: fence:attempt:time, tab, JSON",
    ),
    (":job:<id>:after", "set", "jobs that a blocked job waits for"),
    (":job:<id>:then", "zset", "jobs that wait for this one to succeed"),
    (
        ":job:<id>:finally",
        "zset",
        "jobs that wait for this one, and are notified when it fails, too",
    ),
    (
        ":job:<id>:left",
        "set",
        "jobs that it no longer waits for, too many to have them forget it at once",
    ),
    (
        ":flow:<id>",
        "hash",
        (
            "the flow of a job, as far as its members live on this shard: complete, "
            "failed, cancelled; gone_complete … of those removed; at:`<shard>` for all "
            "that have some, on the job's own shard, linked on others"
        ),
    ),
    (":members:<id>", "zset", "ids of the members of a flow; score = id"),
    (
        ":<type>:waiting",
        "zset",
        "ids; score = priority × 2^41 + sequence, or as the order of the type asks for",
    ),
    (
        ":<type>:fair",
        "zset",
        (
            "in a fair type: `priority:group`; score = when it gets its next turn, and "
            "`priority`; score = the current virtual time"
        ),
    ),
    (":<type>:delayed", "zset", "ids; score = when due, ms"),
    (":<type>:active", "hash", "id → token: fence:started:attempt:worker:claim"),
    (":<type>:complete", "zset", "ids; score = when it ended, ms"),
    (":<type>:failed", "zset", "the same"),
    (":<type>:cancelled", "zset", "the same"),
    (":<type>:blocked", "zset", "ids; score = id"),
    (":<type>:held", "zset", "waiting jobs set aside by a limit"),
    (":<type>:held:<group>", "zset", "the same, by group"),
    (":<type>:parked", "zset", "ids without a usable record"),
    (":<type>:tries", "hash", "id → attempts:stalls, after a first failure"),
    (":<type>:progress", "hash", "id → percent, tab, JSON; while it runs"),
    (":<type>:ttl", "zset", "running jobs with a ttl; score = deadline"),
    (":<type>:expires", "zset", "unfinished jobs that expire; score = when"),
    (
        ":<type>:retain_complete",
        "zset",
        "complete jobs with their own retention; score = when",
    ),
    (":<type>:retain_failed", "zset", "failed jobs, the same"),
    (":<type>:retain_cancelled", "zset", "cancelled jobs, the same"),
    (":<type>:unique", "hash", "unique key → holder:least, or holder:least:most"),
    (
        ":<type>:lapse",
        "zset",
        "unique keys that are freed by maintenance; score = when",
    ),
    (":<type>:running", "hash", "group → running jobs"),
    (
        ":<type>:opens",
        "zset",
        "rates that hold jobs of the type, as name:key; score = when one may start",
    ),
    (":<type>:rate", "hash", "left, at: the rate limit's state"),
    (":<type>:wake", "zset", "at most one marker; workers block on it"),
    (":<type>:errors", "zset", "fingerprints of errors; score = jobs that are failed"),
    (
        ":<type>:causes",
        "hash",
        (
            "fingerprint → when the first of them failed; fingerprint`:last` → when"
            " the last did, its id, its error"
        ),
    ),
    (":workers", "zset", "worker; score = lease deadline"),
    (":info", "hash", "worker → its status"),
    (":orders", "hash", "worker → its orders, and until when they hold"),
    (":stacks", "hash", "worker → its stacks; worker:at → when"),
    (":claims:<hour>", "hash", "worker:lane → number of its last claim in that hour"),
    (
        ":cancelling",
        "hash",
        "running job asked to cancel → type, tab, its history line, tab, the reason",
    ),
    (":paused", "hash", "type, or `:worker` → until, tab, JSON"),
    (":limits", "hash", "type → limits, cap and order"),
    (":named_limits", "hash", "name → rule, tab, the rule that programs declare"),
    ("::<name>:keys", "set", "keys of a named limit with running or held jobs"),
    ("::<name>:running:<key>", "zset", "running jobs; score = since when"),
    ("::<name>:held:<key>", "zset", "held jobs of any type; score as in waiting"),
    (
        "::<name>:rate:<key>",
        "string",
        "`w`, starts by part of the window; or `b`, tokens and when; expires",
    ),
    (":parents", "set", "jobs that others wait for, or that have a flow"),
    (
        ":failure_rules",
        "hash",
        "type, or empty for all → JSON: what is done about failed jobs; on all shards",
    ),
    (
        ":failures",
        "zset",
        "jobs that failed, to be reported, as id:type:time:token; score = when",
    ),
    (
        ":outbox",
        "hash",
        "what maintenance must still report to dependants, and to other shards",
    ),
    (":producers:<hour>", "hash", "producer → seq:answer of its last add in that hour"),
    (":schedules", "hash", "name → JSON"),
    (":due", "zset", "schedules; score = when one fires next"),
    (
        ":stats:<minute>",
        "hash",
        "type:added, :complete, :failed, :work_ms, :run_ms, :waits, :runs",
    ),
    (":hours:<hour>", "hash", "the same, by hour"),
    (":listeners", "zset", "subscribers to all jobs"),
    (":watched", "zset", "jobs with subscribers"),
    (
        ":kept",
        "hash",
        "room:name → until, tab, value: small records such as users and sessions",
    ),
    (":fading", "zset", "records that expire; score = until"),
    (":acts", "zset", "the audit log: time, tab, call, tab, JSON; score = its number"),
    (":routine", "zset", "the same, of jobs added and logins; numbered together"),
    (":refusals", "zset", "the same, of what was refused"),
    (
        ":agenda",
        "zset",
        "type, or `:` for what belongs to no type; score = when maintenance is due, ms",
    ),
    (
        ":search",
        "hash",
        (
            "search for runs of lost workers: type:`<type>` → where it continues, "
            "`:`, when it began, ms; worker:`<worker>` → when a run of it was last "
            "found"
        ),
    ),
    (":events", "channel", "events (sharded publish)"),
)


def _names(prefix: str) -> dict[str, str]:
    """Return the keys that begin with *prefix* and then vary no more: name and type."""
    names = (
        (key.removeprefix(prefix), kind)
        for key, kind, _ in KEYS
        if key.startswith(prefix)
    )
    return {name: kind for name, kind in names if "<" not in name and kind != "channel"}


#: Redis type of each key that begins with ``:<type>:``, with ``:job:<id>:``, and of the
#: others of a shard.
TYPE_KEYS = _names(":<type>:")
JOB_KEYS = _names(":job:<id>:")
SHARD_KEYS = _names(":")


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


def offsets_in(bitmap: bytes) -> list[int]:
    """Return the positions of the set bits of a ``:live:<n>``."""
    return [
        8 * index + bit
        # Most of a chunk is yet to be used.
        for index, byte in enumerate(bitmap.rstrip(b"\0"))
        if byte
        for bit in range(8)
        if byte & (128 >> bit)
    ]


class Keys:
    """Builds the keys of one shard."""

    def __init__(self, root: str) -> None:
        self.root = root

    def job(self, job_id: int | str) -> str:
        return f"{self.root}:job:{job_id}"

    def of_type(self, job_type: str, structure: str) -> str:
        return f"{self.root}:{quote(job_type)}:{structure}"

    def of_limit(self, name: str, structure: str) -> str:
        return f"{self.root}::{quote(name)}:{structure}"

    def of_shard(self, structure: str) -> str:
        return f"{self.root}:{structure}"

    def live(self, chunk: int) -> str:
        return f"{self.root}:live:{chunk}"
