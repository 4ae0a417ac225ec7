"""Signals to jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.names import check_name
from kue.model.payload import MAX_RESULT, encode
from kue.model.steps import MAX_SIGNALS, Signal
from kue.store.reply_errors import check_reply
from kue.store.values import Result

if TYPE_CHECKING:
    from kue.client.connection import Connection
    from kue.model.payload import JSON


async def send_signal(
    connection: Connection,
    job_id: int,
    name: str,
    data: JSON,
    *,
    created_at: int | None = None,
) -> None:
    """Send a signal to a job; see `JobHandle.signal`."""
    check_name(name, what="the name of a signal")
    encoded = encode(data, limit=MAX_RESULT)
    reply = await connection.store.signal(
        job_id, Signal(name=name, data=encoded), created_at=created_at
    )
    if reply.word is Result.REFUSED and reply.state is None:
        raise ValueError(
            f"job {job_id} has {MAX_SIGNALS:,} signals, and no more can be kept"
        )
    check_reply(job_id, reply, wanted="be sent a signal")
