"""What waits for one node: batches, bounds, and what a dead one never saw."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kue.bus.frames import Batch, Frame, unpack
from kue.bus.redis import outbox as module
from kue.bus.redis.outbox import NodeOutbox, NodeOutboxes
from kue.model.errors import StoreUnavailable
from tests.bus.hearing import turns
from tests.support.patience import until

NUMBERS = [b"%d" % number for number in range(10)]
Ack = Callable[[], tuple[str, int] | None]


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


def filled(channel: Channel, *bodies: bytes, ack: Ack = lambda: None) -> NodeOutbox:
    """Return an outbox with frames that have these bodies."""
    outbox = NodeOutbox("a", "b", channel, ack)
    for body in bodies:
        outbox.put(frame(body))
    return outbox


async def test_what_is_posted_meanwhile_makes_the_next_batch() -> None:
    channel = Channel()
    outbox = filled(channel, b"0")
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
    outbox = filled(channel, *map(bytes, (4, 4, 4, 50, 1)))
    await outbox.flush()

    sizes = [[len(it.body) for it in batch.frames] for batch in channel.batches]
    assert sizes == [[4, 4], [4], [50], [1]]


async def test_a_batch_that_nobody_heard_is_sent_again() -> None:
    channel = Channel(lambda: int(channel.tries > 2))
    outbox = filled(channel, b"0")
    await outbox.flush()

    assert channel.tries == 3
    assert channel.bodies == [b"0"]


async def test_a_closed_outbox_gives_back_what_nobody_heard() -> None:
    channel = Channel(lambda: 0)
    outbox = filled(channel, b"0")
    await channel.tried.wait()
    outbox.put(frame(b"1"))

    unseen = await outbox.close()

    assert [it.body for it in unseen] == [b"0", b"1"]


async def test_what_may_have_been_heard_is_not_given_back() -> None:
    """Sent to another as well, it would be handled twice."""

    def away() -> int:
        raise StoreUnavailable("on purpose")

    channel = Channel(away)
    outbox = filled(channel, b"0")
    await channel.tried.wait()
    outbox.put(frame(b"1"))

    unseen = await outbox.close()

    assert [it.body for it in unseen] == [b"1"]


async def test_there_is_room_for_so_much_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FRAMES", 3)
    monkeypatch.setattr(module, "MAX_BYTES", 10)
    outbox = NodeOutbox("a", "b", Channel())

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
        outbox = filled(channel, b"0")
        await outbox.flush()

    first, second = channel.batches
    assert first.number == second.number == 1
    assert first.stream != second.stream


async def test_no_more_than_a_window_is_sent_before_it_was_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WINDOW_FRAMES", 4)
    monkeypatch.setattr(module, "BATCH_FRAMES", 2)
    channel = Channel()
    outbox = filled(channel, *NUMBERS[:10])

    await until(lambda: len(channel.bodies) == 4)
    await turns(10)
    assert len(channel.bodies) == outbox.unacknowledged == 4
    [stream] = {batch.stream for batch in channel.batches}
    outbox.acknowledge("another stream", 4)
    outbox.acknowledge(stream, 2)
    await until(lambda: len(channel.bodies) == 6)
    # Numbers that were never sent, and old ones, mean nothing.
    outbox.acknowledge(stream, 100)
    outbox.acknowledge(stream, 1)
    await turns(10)
    assert len(channel.bodies) == 6
    outbox.acknowledge(stream, 6)
    await until(lambda: len(channel.bodies) == 10)
    await outbox.flush()

    assert channel.bodies == NUMBERS
    assert [batch.number for batch in channel.batches] == [1, 3, 5, 7, 9]


async def test_a_large_frame_waits_until_what_is_on_its_way_was_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WINDOW_BYTES", 100)
    monkeypatch.setattr(module, "BATCH_BYTES", 100)
    channel = Channel()
    outbox = filled(channel, *map(bytes, (90, 5000, 5000)))

    await until(lambda: len(channel.batches) == 1)
    await turns(10)
    stream = channel.batches[0].stream
    assert len(channel.batches) == 1
    outbox.acknowledge(stream, 1)
    await until(lambda: len(channel.batches) == 2)
    await turns(10)
    assert len(channel.batches) == 2
    outbox.acknowledge(stream, 2)
    await outbox.flush()

    assert [len(body) for body in channel.bodies] == [90, 5000, 5000]


async def test_a_node_that_says_nothing_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it said may have been lost."""
    monkeypatch.setattr(module, "WINDOW_FRAMES", 1)
    monkeypatch.setattr(module, "BATCH_FRAMES", 1)
    monkeypatch.setattr(module, "_ASK_SECONDS", 0.05)
    channel = Channel()
    outbox = filled(channel, b"0", b"1", ack=lambda: ("theirs", 7))

    await until(lambda: len(channel.batches) >= 3)
    first, *asking = channel.batches
    flags = [(it.wants_ack, it.number, it.frames) for it in asking[:2]]
    assert flags == [(True, 2, [])] * 2
    assert {it.ack for it in channel.batches} == {("theirs", 7)}
    outbox.acknowledge(first.stream, 1)
    await outbox.flush()

    assert channel.bodies == [b"0", b"1"]


async def test_a_full_window_does_not_keep_a_node_from_saying_what_it_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else two nodes that flood each other would wait for each other."""
    monkeypatch.setattr(module, "WINDOW_FRAMES", 1)
    monkeypatch.setattr(module, "BATCH_FRAMES", 1)
    channel = Channel()
    outbox = filled(channel, b"0", b"1", ack=lambda: ("theirs", 7))
    await until(lambda: len(channel.batches) == 1)
    await turns(10)

    outbox.send_ack()
    await until(lambda: len(channel.batches) == 2)

    assert channel.batches[1].frames == []
    assert [frame.body for frame in await outbox.close()] == [b"1"]


async def test_what_was_heard_is_said_once_where_nobody_listens() -> None:
    channel = Channel(lambda: 0)
    outbox = NodeOutbox("a", "b", channel)

    outbox.send_ack()
    await outbox.flush()

    assert channel.tries == 1


async def test_word_that_comes_twice_in_a_turn_or_too_late_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever hears it would take the batch it came with for unreadable."""
    monkeypatch.setattr(module, "WINDOW_FRAMES", 2)
    monkeypatch.setattr(module, "BATCH_FRAMES", 1)
    channel = Channel()
    outbox = filled(channel, *NUMBERS[:8])
    await until(lambda: outbox._wakeup is not None)
    [stream] = {batch.stream for batch in channel.batches}

    outbox.acknowledge(stream, 1)
    outbox.acknowledge(stream, 2)
    outbox.send_ack()
    await until(lambda: outbox.unacknowledged == 2 and outbox._wakeup is not None)
    assert outbox._wakeup is not None
    # As when the task is cancelled: it hears of it a turn later.
    outbox._wakeup.cancel()
    outbox.acknowledge(stream, 3)
    await outbox.abandon()

    assert channel.bodies == [b"0", b"1", b"2", b"3"]


async def test_a_node_that_is_back_while_a_batch_is_sent_can_count_its_losses() -> None:
    """And no batch to it comes before those that were sent earlier."""
    batches: list[Batch] = []
    go_on = asyncio.Event()

    async def send(node: str, batch: bytes) -> int:
        batches.append(unpack(batch))
        await go_on.wait()
        return 1

    outboxes = NodeOutboxes("a", send, lambda node: None)
    outboxes.put("b", frame(b"0"))
    await until(lambda: len(batches) == 1)
    closing = asyncio.create_task(outboxes.close("b"), name="close")
    await turns()
    outboxes.remind("b")
    await turns()
    before = len(batches)
    go_on.set()
    await closing
    await outboxes.flush()

    assert before == 1
    assert batches[1].previous == (batches[0].stream, 1)
