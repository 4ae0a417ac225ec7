"""``kue failed rule``, ``rules`` and ``replay``."""

from __future__ import annotations

from tests.support.command_line import CommandLine

SECRET_URL = "https://chat.example.com/hooks/private"


def test_rules_are_set_listed_and_removed(kue: CommandLine) -> None:
    kue("job", "add", "email")
    none = kue("failed", "rules")
    one = kue("failed", "rule", "email", "--dead-letter", "dead")
    kue("failed", "rule", "--all", "--webhook", SECRET_URL)
    rows = kue("failed", "rules").rows
    [every, email] = kue("failed", "rules", "--json").items
    gone = kue("failed", "rule", "email", "--dead-letter", "none", "--json")

    assert (none.code, none.rows) == (0, [])
    assert "kue failed rule adds some" in none.err
    assert one.rows == [["email", "dead letter dead", "webhook none"]]
    assert rows == [
        ["(all types)", "", "", "https://chat.example.com/…"],
        ["email", "", "dead", ""],
    ]
    assert (every["type"], every["webhook"]) == (None, "https://chat.example.com/…")
    assert (email["type"], email["dead_letter"]) == ("email", "dead")
    assert gone.items[0]["dead_letter"] == ""


def test_misuse_is_explained(kue: CommandLine) -> None:
    kue("job", "add", "email")
    neither = kue("failed", "rule", "--dead-letter", "dead")
    nothing = kue("failed", "rule", "email")
    own = kue("failed", "rule", "dead", "--dead-letter", "dead")

    assert (neither.code, nothing.code, own.code) == (2, 2, 2)
    assert "give a type, or --all" in neither.err
    assert "give --dead-letter, --webhook or both" in nothing.err
    assert "cannot be their own dead letters" in own.err


def test_without_dead_letters_nothing_is_replayed(kue: CommandLine) -> None:
    kue("job", "add", "dead", '{"not": "a letter"}')
    result = kue("failed", "replay", "dead")
    [item] = kue("failed", "replay", "dead", "--json").items

    assert (result.code, result.err) == (1, "kue: replayed 0 dead letters\n")
    assert item == {"replayed": 0}
