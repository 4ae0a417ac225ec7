"""What managers and monitors know of each other, kept in the store."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import msgspec

from kue.km.queue_names import SAFE
from kue.model.errors import ConfigError
from kue.store.values import KeepRequest

if TYPE_CHECKING:
    from kue.client.queue import Kue
    from kue.model.job import Job

#: Declared queues, by the name of their group.
QUEUES = "kmqueues"
#: Failed tasks that a monitor is handing to its pipeline.
HANDED = "kmhanded"
#: How long a monitor that is lost in the meantime keeps others from it, in ms.
HANDED_MS = 300_000

_modes = msgspec.json.Decoder(dict[str, str]).decode


async def declare(q: Kue, group: str, modes: dict[str, str]) -> None:
    """Write which queues a group has; the newest declaration counts."""
    text = msgspec.json.encode(modes).decode()
    await q.store.keep(KeepRequest(QUEUES, group, text))


async def safe_queues(q: Kue, group: str) -> list[str]:
    """
    Return the safe queues of a group.

    Raises:
        ConfigError: No manager has declared it.
    """
    text = await q.store.kept(QUEUES, group)
    if text is None:
        raise ConfigError(
            f"no KMQueueManager has declared the queues of {group!r}: call its init() "
            "first, and name the same queues in the same order"
        )
    return [name for name, mode in _modes(text).items() if mode == SAFE]


async def begin_handing(q: Kue, job: Job) -> bool:
    """Return whether this monitor, and no other, may hand over a failed task."""
    until = await q.store.now() + HANDED_MS
    # A value of its own: writing the same again would succeed.
    mark = secrets.token_hex(8)
    request = KeepRequest(HANDED, _handing(job), mark, was=None, until=until)
    return await q.store.keep(request)


async def end_handing(q: Kue, job: Job) -> None:
    """Let another pass try again."""
    await q.store.forget(HANDED, _handing(job))


def _handing(job: Job) -> str:
    # With the time of its end: it may be retried by hand, and fail again.
    return f"{job.id}-{job.ended_at}"
