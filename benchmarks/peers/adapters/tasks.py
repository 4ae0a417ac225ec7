"""The three tasks that every queue runs, in async and blocking versions."""

from __future__ import annotations

import asyncio
import time

from benchmarks.peers.adapters.tally import NAP_SECONDS, arrived, napped, now, ran


def noop(i: int) -> None:
    ran(i)


def nap(i: int) -> None:
    began = now()
    time.sleep(NAP_SECONDS)
    napped(i, began)


def ping(i: int) -> None:
    arrived(i)


async def anoop(i: int) -> None:
    ran(i)


async def anap(i: int) -> None:
    began = now()
    await asyncio.sleep(NAP_SECONDS)
    napped(i, began)


async def aping(i: int) -> None:
    arrived(i)
