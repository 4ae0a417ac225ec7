"""Circuits in the store: small records, changed by compare-and-set."""

from __future__ import annotations

import asyncio
import random
import secrets
from typing import TYPE_CHECKING

import msgspec

from kue.model.circuit import CircuitRecord
from kue.model.errors import StoreUnavailable
from kue.store.values import KeepRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.store.contract import Store

ROOM = "circuits"
#: Attempts to change a record that others change at the same time.
TRIES = 10
#: The longest pause before another attempt, in seconds.
PAUSE_SECONDS = 0.02

_decode = msgspec.json.Decoder(CircuitRecord).decode


class CircuitRecords:
    """The circuits of a store, by name; one that is not there is closed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def all(self) -> dict[str, CircuitRecord]:
        texts = await self._store.all_kept(ROOM)
        return {name: _read(text) for name, text in texts.items()}

    async def change(
        self, name: str, edit: Callable[[CircuitRecord], CircuitRecord], now: int
    ) -> CircuitRecord:
        """
        Edit a circuit despite concurrent edits, and return it.

        An *edit* that returns the same record writes nothing.

        Raises:
            StoreUnavailable: Others changed it each time, or the store is away.
        """
        for _ in range(TRIES):
            text = await self._store.kept(ROOM, name)
            record = _read(text)
            edited = edit(record)
            if edited == record:
                return record
            if await self._write(name, edited, was=text, now=now):
                return edited
            await asyncio.sleep(random.uniform(0, PAUSE_SECONDS))
        raise StoreUnavailable(
            f"too many workers are changing circuit {name!r} at once; try again"
        )

    async def _write(
        self, name: str, record: CircuitRecord, *, was: str | None, now: int
    ) -> bool:
        # Two workers that write the same at the same moment are told apart by it.
        marked = msgspec.structs.replace(record, mark=secrets.token_hex(4))
        text = msgspec.json.encode(marked).decode()
        request = KeepRequest(ROOM, name, text, was=was, until=record.expires_at(now))
        return await self._store.keep(request)


def _read(text: str | None) -> CircuitRecord:
    try:
        return CircuitRecord() if text is None else _decode(text)
    except (msgspec.ValidationError, msgspec.DecodeError):
        # Damaged, or of another version: jobs run rather than wait forever.
        return CircuitRecord()
