"""Beats for another process: while it lives, and through outages of its store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kue.aio.retry import StoreRetry
from kue.supervisor.child_lease_renewal import LeaseRenewal
from tests.support.flaky import Wire
from tests.support.patience import until

LEASE_MS = 150


class Patient:
    """A worker in another process, as far as beats are concerned."""

    def __init__(self, wire: Wire) -> None:
        self.is_frozen = False
        self.pulse = LeaseRenewal(
            wire.store,
            "patient",
            LEASE_MS,
            store_retry=StoreRetry("the store"),
            is_alive=lambda: not self.is_frozen,
        )

    @asynccontextmanager
    async def beaten_for(self) -> AsyncIterator[None]:
        beating = asyncio.create_task(self.pulse.run())
        try:
            yield
        finally:
            beating.cancel()


async def test_a_lease_is_renewed_again_and_again(wire: Wire) -> None:
    patient = Patient(wire)

    async with patient.beaten_for():
        await wire.until_answered("renew", 3)
        [known] = await wire.store.workers()

    assert (known.name, known.alive) == ("patient", True)
    assert wire.last_request("renew").lease == LEASE_MS


async def test_an_outage_is_waited_out_and_seen_by_health_checks(wire: Wire) -> None:
    patient = Patient(wire)
    assert not patient.pulse.has_answer

    async with patient.beaten_for():
        await until(lambda: patient.pulse.has_answer)
        [known] = await wire.store.workers()
        assert known.name == "patient"
        wire.is_cut = True
        await until(lambda: not patient.pulse.has_answer)
        wire.is_cut = False
        await until(lambda: patient.pulse.has_answer)


async def test_a_frozen_worker_is_not_beaten_for_until_it_thaws(wire: Wire) -> None:
    patient = Patient(wire)
    patient.is_frozen = True

    async with patient.beaten_for():
        # Longer than its lease, so beats were due.
        await asyncio.sleep(LEASE_MS / 1000 * 1.5)
        while_frozen = wire.times("renew")
        is_well = patient.pulse.has_answer
        patient.is_frozen = False
        await wire.until_answered("renew")

    assert while_frozen == 0
    # The store is not to blame.
    assert is_well
