"""Which queues a worker serves, and in which order."""

from __future__ import annotations

import pytest

from kue.model.errors import ConfigError
from kue.model.queue_patterns import QueuePatterns

NAMES = ["bulk", "default", "kue.webhook", "mail", "mail-bulk", "mail-eu", "mail-us"]


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        (["mail", "default"], ["mail", "default"]),
        (["default", "mail-*"], ["default", "mail-bulk", "mail-eu", "mail-us"]),
        (["mail-us", "mail-*"], ["mail-us", "mail-bulk", "mail-eu"]),
        (["mail-*", "!mail-bulk"], ["mail-eu", "mail-us"]),
        (["!mail*"], ["bulk", "default"]),
        (["*-eu", "missing"], ["mail-eu"]),
        (["kue.webhook"], ["kue.webhook"]),
        (["mail.*"], []),
    ],
)
def test_queues_match_in_the_order_of_the_entries_and_then_by_name(
    entries: list[str], found: list[str]
) -> None:
    assert QueuePatterns(entries).matching(NAMES) == found


def test_only_a_pattern_may_match_queues_that_do_not_exist_yet() -> None:
    assert QueuePatterns(["mail-*"]).is_open
    assert QueuePatterns(["!mail"]).is_open
    assert not QueuePatterns(["mail", "!mail-*"]).is_open


def test_a_queue_that_is_named_and_excluded_is_excluded() -> None:
    assert QueuePatterns(["mail", "bulk", "!bulk"]).literal == ["mail"]


@pytest.mark.parametrize(
    ("entries", "problem"),
    [([], "no queue is named"), (["!"], "1 to 200 bytes"), ([".."], "a folder")],
)
def test_what_is_not_a_queue_is_refused(entries: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        QueuePatterns(entries)
