"""Friction 16: stores that differ in their database differ in their names."""

from __future__ import annotations

import pytest

from kue.store.redis.wire.url import read_url


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("redis://h:1", "redis://h:1"),
        ("redis://h:1/0", "redis://h:1"),
        ("redis://u:pw@h:1/3", "redis://h:1/3"),
        ("redis://h:1?db=3", "redis://h:1/3"),
        ("unix:///run/redis.sock?db=2", "unix:///run/redis.sock?db=2"),
        ("redis+sentinel://a,b/mymaster/4", "redis+sentinel://a,b/mymaster/4"),
        ("redis+sentinel://a,b/mymaster", "redis+sentinel://a,b/mymaster"),
    ],
)
def test_a_name_has_the_database_and_no_password(url: str, name: str) -> None:
    assert read_url(url).name == name
