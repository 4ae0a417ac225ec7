"""``kue key``: new, list."""

from __future__ import annotations

import pytest

from kue.model.payload_keys import PayloadKey
from tests.support.command_line import CommandLine


def test_a_new_key_can_be_used_and_another_one_differs(kue: CommandLine) -> None:
    one, two = kue("key", "new", "2026-05"), kue("key", "new", "2026-05")

    assert PayloadKey.read(one.out.strip()).name == "2026-05"
    assert one.out != two.out
    refused = kue("key", "new", "a b")
    assert (refused.code, refused.out) == (2, "")
    assert "up to 40 letters" in refused.err


def test_the_keys_in_use_are_counted_and_not_shown(
    kue: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        "no payload is signed or encrypted"
        in kue("job", "add", "x").err + kue("key", "list").err
    )
    keys = kue("key", "new", "old").out.strip()
    monkeypatch.setenv("KUE_PAYLOAD_PROTECTION", "sign")
    monkeypatch.setenv("KUE_PAYLOAD_KEYS", keys)
    first = kue("job", "add", "email", '{"to": "ann"}').out.strip()
    kue("job", "cancel", first)
    keys = f"{kue('key', 'new', 'new').out.strip()} {keys}"
    monkeypatch.setenv("KUE_PAYLOAD_KEYS", keys)
    second = kue("job", "add", "email", '{"to": "bob"}').out.strip()
    kue("schedule", "add", "daily", "email", "--every", "1d")

    assert kue("key", "list").rows == [
        ["new", "1", "0", "1"],
        ["old", "0", "1", "0"],
    ]
    shown = kue("job", "show", second)
    assert '{"to":"bob"}' in shown.out
    monkeypatch.delenv("KUE_PAYLOAD_KEYS")
    monkeypatch.delenv("KUE_PAYLOAD_PROTECTION")
    assert (
        "signed with key 'new', which this queue does not"
        in kue("job", "show", second).out
    )
    everything = "".join(
        said.out + said.err
        for said in (kue("key", "list", "--json"), kue("job", "list"), shown)
    )
    assert not any(key.partition(":")[2] in everything for key in keys.split())
