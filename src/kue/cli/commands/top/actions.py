"""Changes that ``kue top`` makes, with their entries in the audit log."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kue.cli.audit import entry_of, login
from kue.cli.commands.failed import summary_text
from kue.cli.commands.top.state import Verb
from kue.cli.output.text import json_text
from kue.client.selection import Selection
from kue.model.errors import KueError, StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.cli.commands.top.state import Order
    from kue.client.queue import Kue

#: Distinguishes these entries from those of commands.
DETAIL = json_text({"by": "kue top"})


async def carry_out(q: Kue, order: Order, on_progress: Callable[[int], None]) -> str:
    """
    Carry out *order*, note it, and return what was done.

    Raises:
        KueError, ValueError: It was not done, or only in part.
    """
    try:
        message = await _change(q, order, on_progress)
    except StoreUnavailable:
        # Nor would the store take a note.
        raise
    except (KueError, ValueError, asyncio.CancelledError):
        await _note(q, order, is_done=False)
        raise
    return message + await _note(q, order, is_done=True)


async def _note(q: Kue, order: Order, *, is_done: bool) -> str:
    """Write the entry; return the end of the message if that failed."""
    target = order.name or ""
    try:
        await q.store.note(entry_of(order.verb, target, is_done=is_done, detail=DETAIL))
    except StoreError as exc:
        return f"; not in the audit log: {exc}"
    return ""


async def _change(q: Kue, order: Order, on_progress: Callable[[int], None]) -> str:
    name = order.name
    match order.verb:
        case Verb.PAUSE:
            await q.pause(name, by=login())
            what, key = ("every queue", "P") if name is None else (name, "p")
            return f"paused {what}; {key} resumes it"
        case Verb.RESUME:
            return await _resume(q, name)
        case Verb.PAUSE_WORKER:
            await q.pause(worker=name, by=login())
            return f"paused worker {name}; p resumes it"
        case Verb.RESUME_WORKER:
            was_paused = await q.resume(worker=name)
            return f"resumed {name}" if was_paused else f"{name} was not paused"
        case Verb.RETRY:
            wanted = Selection(type=name)
            summary = await q.retry_all(wanted, on_progress=on_progress)
            return f"{name}: {summary_text('retried', summary)}"


async def _resume(q: Kue, type: str | None) -> str:
    was_paused = await q.resume(type)
    left = [pause.type for pause in await q.paused() if pause.worker is None]
    what = type or "every queue"
    if not was_paused:
        return f"{what} was not paused"
    if type is not None and None in left:
        return f"resumed {what}, but every queue is paused; P resumes them"
    if type is None and left:
        return f"resumed {what}; {len(left):,} of them stay paused by name"
    return f"resumed {what}"
