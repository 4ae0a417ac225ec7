"""What comes from other nodes: once, with losses told, and senders told in turn."""

from __future__ import annotations

import pytest

from kue.bus.frames import Batch, Frame
from kue.bus.redis import inbox as module
from kue.bus.redis.inbox import NodeInbox
from kue.bus.redis.outbox import WINDOW_BYTES, WINDOW_FRAMES

FRAME = Frame("news", b"1", "json", True)


def batch(
    number: int,
    frames: int = 1,
    *,
    sender: str = "a",
    stream: str = "s1",
    before: tuple[str, int] | None = None,
) -> Batch:
    return Batch(sender, stream, number, [FRAME] * frames, previous=before)


def test_losses_are_counted_in_messages() -> None:
    inbox = NodeInbox()

    inbox.take(batch(1, 10), 100)
    inbox.take(batch(31, 5), 100)

    assert inbox.lost == 20


def test_a_batch_without_frames_tells_of_a_loss_before_the_next_message_does() -> None:
    inbox = NodeInbox()
    inbox.take(batch(1, 10), 100)

    for _ in range(2):
        inbox.take(batch(16, 0), 10)
    assert inbox.lost == 5

    assert len(inbox.take(batch(16, 1), 10)) == 1
    assert inbox.lost == 5


def test_the_end_of_a_stream_is_told_with_the_next_stream() -> None:
    inbox = NodeInbox()
    inbox.take(batch(1, 10), 100)

    for number, frames in ((1, 0), (1, 1)):
        inbox.take(batch(number, frames, stream="s2", before=("s1", 13)), 10)

    assert inbox.lost == 3


def test_an_end_of_a_stream_that_was_not_heard_means_nothing() -> None:
    inbox = NodeInbox()
    inbox.take(batch(1, 1, before=("s0", 50)), 10)
    inbox.take(batch(1, 1, stream="s2", before=("s0", 50)), 10)

    assert inbox.lost == 0


def test_a_sender_is_told_after_a_quarter_of_a_window() -> None:
    inbox = NodeInbox()
    quarter = WINDOW_FRAMES // 4
    assert inbox.ack("a") is None

    inbox.take(batch(1, quarter - 1), 10)
    assert not inbox.is_ack_due("a")
    inbox.take(batch(quarter, 1), 10)
    assert inbox.is_ack_due("a")
    assert inbox.ack("a") == ("s1", quarter)
    assert not inbox.is_ack_due("a")
    inbox.take(batch(quarter + 1, 1), WINDOW_BYTES // 4)
    assert inbox.is_ack_due("a")


def test_senders_are_forgotten_before_they_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_SENDERS", 2)
    inbox = NodeInbox()

    for sender in ("a", "b", "c"):
        inbox.take(batch(1, sender=sender), 10)

    assert inbox.ack("a") is None
    assert inbox.ack("b") == inbox.ack("c") == ("s1", 1)
