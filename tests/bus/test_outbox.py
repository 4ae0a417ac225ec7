"""What waits for one node: batches, bounds, and what a dead one never saw."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kue.bus.wire import Batch, Frame, unpack
from kue.cluster.redis import outbox as module
from kue.cluster.redis.outbox import Outbox
from kue.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def frame(body: bytes) -> Frame:
    return Frame("", body, "bytes", True)


class Channel:
    """Takes batches, and answers as it is told: how many heard it, or an error."""

    def __init__(self, answer: Callable[[], int] = lambda: 1) -> None:
        self.answer = answer
        self.batches: list[Batch] = []
        self.tries = 0
        self.tried = asyncio.Event()

    async def __call__(self, batch: bytes) -> int:
        await asyncio.sleep(0)
        self.tries += 1
        self.tried.set()
        heard = self.answer()
        if heard:
            self.batches.append(unpack(batch))
        return heard

    @property
    def bodies(self) -> list[bytes]:
        return [frame.body for batch in self.batches for frame in batch.frames]


async def test_what_is_posted_meanwhile_makes_the_next_batch() -> None:
    channel = Channel()
    outbox = Outbox("a", "b", channel)
    outbox.put(frame(b"0"))
    # The first is on its way now.
    await asyncio.sleep(0)
    for number in range(1, 5):
        outbox.put(frame(b"%d" % number))
    await outbox.flush()

    assert [len(batch.frames) for batch in channel.batches] == [1, 4]
    assert [batch.number for batch in channel.batches] == [1, 2]
    assert channel.bodies == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_batch_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_BYTES", 10)
    channel = Channel()
    outbox = Outbox("a", "b", channel)
    for size in (4, 4, 4, 50, 1):
        outbox.put(frame(bytes(size)))
    await outbox.flush()

    sizes = [[len(it.body) for it in batch.frames] for batch in channel.batches]
    assert sizes == [[4, 4], [4], [50], [1]]


async def test_a_batch_that_nobody_heard_is_sent_again() -> None:
    channel = Channel(lambda: int(channel.tries > 2))
    outbox = Outbox("a", "b", channel)
    outbox.put(frame(b"0"))
    await outbox.flush()

    assert channel.tries == 3
    assert channel.bodies == [b"0"]


async def test_a_closed_outbox_gives_back_what_nobody_heard() -> None:
    channel = Channel(lambda: 0)
    outbox = Outbox("a", "b", channel)
    outbox.put(frame(b"0"))
    await channel.tried.wait()
    outbox.put(frame(b"1"))

    unseen = await outbox.close()

    assert [it.body for it in unseen] == [b"0", b"1"]


async def test_what_may_have_been_heard_is_not_given_back() -> None:
    """Sent to another as well, it would be handled twice."""

    def away() -> int:
        raise StoreUnavailable("on purpose")

    channel = Channel(away)
    outbox = Outbox("a", "b", channel)
    outbox.put(frame(b"0"))
    await channel.tried.wait()
    outbox.put(frame(b"1"))

    unseen = await outbox.close()

    assert [it.body for it in unseen] == [b"1"]


async def test_there_is_room_for_so_much_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FRAMES", 3)
    monkeypatch.setattr(module, "MAX_BYTES", 10)
    outbox = Outbox("a", "b", Channel())

    assert outbox.put(frame(bytes(8)))
    assert not outbox.put(frame(bytes(3)))
    assert outbox.put(frame(b""))
    assert outbox.put(frame(b""))
    assert not outbox.put(frame(b""))
    await outbox.flush()
    assert outbox.put(frame(bytes(10)))
    await outbox.flush()


async def test_a_stream_begins_anew_with_each_outbox() -> None:
    channel = Channel()
    for _ in range(2):
        outbox = Outbox("a", "b", channel)
        outbox.put(frame(b"0"))
        await outbox.flush()

    first, second = channel.batches
    assert first.number == second.number == 1
    assert first.stream != second.stream
