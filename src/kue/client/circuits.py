"""Circuits of a queue: listed, and opened or closed by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.client.circuit_records import CircuitRecords
from kue.model import circuit
from kue.model.names import check_path_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.client.connection import Connection
    from kue.model.circuit import Circuit, CircuitRecord
    from kue.model.duration import Duration


class Circuits:
    """The methods of a queue for circuit breakers."""

    _connection: Connection

    async def circuits(self) -> list[Circuit]:
        """
        Return the circuits that opened, or had a failure, in the last day, by name.

        All others are closed: the store does not know them.
        """
        store = self._connection.store
        records = await CircuitRecords(store).all()
        now = await store.now()
        return [circuit.seen(name, records[name], now) for name in sorted(records)]

    async def open_circuit(
        self, name: str, *, for_: Duration = "5m", reason: str = "", by: str = ""
    ) -> Circuit:
        """
        Open a circuit: its jobs wait for that long; then one of them is the probe.

        Workers learn of it within about a second; running jobs go on.  It may have any
        name: one that no task uses has no effect.

        Raises:
            ValueError, TypeError: The name or the duration makes no sense.
        """
        length = circuit.open_length(for_, "for_")
        opened, now = await self._change_circuit(
            name, lambda one, now: circuit.opened_by_hand(one, length, by, reason, now)
        )
        return circuit.seen(name, opened, now)

    async def close_circuit(self, name: str, *, by: str = "") -> bool:
        """
        Close a circuit; return whether it was open or half-open.

        Jobs run, and failures are counted from 0.  Those that were released run when
        they are due; `promote_many` brings them sooner.

        Raises:
            ValueError, TypeError: The name makes no sense.
        """
        was_closed = True

        def close(record: CircuitRecord, now: int) -> CircuitRecord:
            nonlocal was_closed
            was_closed = record.is_closed
            return circuit.closed_by_hand(record, by, now)

        await self._change_circuit(name, close)
        return not was_closed

    async def _change_circuit(
        self, name: str, change: Callable[[CircuitRecord, int], CircuitRecord]
    ) -> tuple[CircuitRecord, int]:
        check_path_name(name, what="circuit name")
        store = self._connection.store
        now = await store.now()
        records = CircuitRecords(store)
        return await records.change(name, lambda one: change(one, now), now), now
