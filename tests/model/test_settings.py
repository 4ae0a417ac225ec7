"""Settings, from arguments and variables."""

from __future__ import annotations

from typing import Any

import pytest

from kue.model.errors import ConfigError
from kue.model.payload_keys import PayloadKey
from kue.model.settings import DAY_MS, Keep, Settings, load

KEY = f"k:{'A' * 43}="
READ_KEY = PayloadKey.read(KEY)


def test_nothing_said_means_a_file_beside_you() -> None:
    assert load({}) == Settings()
    assert load({}).url == "sqlite:///kue.db"


def test_the_variables_of_this_process_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUE_PREFIX", "shop")

    assert load().prefix == "shop"


def test_an_argument_wins_over_its_variable() -> None:
    environ = {"KUE_URL": "redis://variable", "REDIS_URL": "redis://other"}

    assert load(environ, url="memory://").url == "memory://"
    assert load(environ).url == "redis://variable"
    assert load(environ, url=None).url == "redis://variable"


def test_redis_url_is_the_second_choice() -> None:
    assert load({"REDIS_URL": "redis://other"}).url == "redis://other"


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("KUE_PREFIX", "shop", "prefix", "shop"),
        ("KUE_LEASE", "30s", "lease", 30_000),
        ("KUE_BUDGET", "500ms", "budget", 500),
        ("KUE_MAX_DATA", "1024", "max_data", 1024),
        ("KUE_MAX_CHUNKS", "50000", "max_chunks", 50_000),
        ("KUE_MAX_STREAM", "1024", "max_stream", 1024),
        ("KUE_ALLOW_EVICTION", "yes", "allow_eviction", True),
        ("KUE_KEEP_COMPLETE", "0", "keep_complete", 0),
        ("KUE_KEEP_FAILED", "1d", "keep_failed", DAY_MS),
        ("KUE_BLOCKED", "2s", "blocked", 2_000),
        ("KUE_CAPTURE", "no", "capture", False),
        ("KUE_STRICT_LEASE", "yes", "strict_lease", True),
        ("KUE_JOB_EVENTS", "no", "job_events", False),
        ("KUE_MAX_STALLS", "0", "max_stalls", 0),
        ("KUE_DEAD_LETTER", "dead", "dead_letter", "dead"),
        ("KUE_WEBHOOK_SECRET", "s3", "webhook_secret", "s3"),
        ("KUE_PAYLOAD_KEYS", f"{KEY}  {KEY}", "payload_keys", (READ_KEY, READ_KEY)),
        ("KUE_PAYLOAD_PROTECTION", "sign", "payload_protection", "sign"),
        ("KUE_ACCEPT_PLAIN", "yes", "accept_plain", True),
        ("KUE_COMPRESS_OVER", "4KiB", "compress_over", 4096),
    ],
)
def test_every_setting_has_a_variable(
    variable: str, text: str, field: str, value: object
) -> None:
    assert getattr(load({variable: text}), field) == value


def test_every_setting_is_tried_above() -> None:
    (marker,) = test_every_setting_has_a_variable.pytestmark  # type: ignore[attr-defined]
    tried = {row[2] for row in marker.args[1]}

    assert tried | {"url"} == set(Settings.__struct_fields__)


@pytest.mark.parametrize(
    ("given", "bytes"),
    [(0, 0), (100, 100), ("100", 100), ("1 KiB", 1024), ("2MiB", 2 * 1024 * 1024)],
)
def test_a_size_is_bytes_or_has_a_unit(given: object, bytes: int) -> None:
    assert load({}, compress_over=given).compress_over == bytes


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (
            "compress_over",
            "4KB",
            "a number of bytes, or a text such as 4KiB, not '4KB'",
        ),
        ("compress_over", -1, "compress_over must be at least 0"),
        ("payload_protection", "AES", "must be sign or encrypt, not 'AES'"),
        ("payload_keys", ["k:short"], "kue key new prints one"),
    ],
)
def test_settings_of_payloads_are_checked(
    field: str, value: object, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load({}, **{field: value})


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("1", True),
        (" True ", True),
        ("on", True),
        ("0", False),
        ("no", False),
        ("", False),
        (True, True),
        (False, False),
    ],
)
def test_a_flag_is_yes_or_no(text: object, meant: bool) -> None:
    assert load({}, allow_eviction=text).allow_eviction is meant


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lease": "soon"}, "^lease: lease 'soon' cannot be read"),
        ({"lease": 0.1}, "^lease: lease must be at least 500, not 0.1$"),
        ({"budget": 0}, "^budget: budget must be at least 1, not 0$"),
        ({"budget": -1}, "^budget: budget must not be negative"),
        ({"max_data": 0}, "^max_data: max_data must be at least 1"),
        (
            {"max_data": "much"},
            "^max_data: max_data must be a whole number, not 'much'",
        ),
        ({"max_data": [1]}, "^max_data: max_data must be a whole number"),
        ({"keep_complete": -1}, "^keep_complete: keep_complete must be at least 0"),
        (
            {"allow_eviction": "maybe"},
            "^allow_eviction: must be yes or no, not 'maybe'",
        ),
        ({"prefix": ""}, "^prefix: prefix must have 1 to 200 bytes"),
        ({"colour": 1}, "^unknown setting 'colour'; there are url, prefix, lease"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load({}, **given)


def test_a_bad_variable_is_called_by_its_name() -> None:
    with pytest.raises(ConfigError, match=r"^KUE_LEASE: lease 'x' cannot be read"):
        load({"KUE_LEASE": "x"})


def test_retention_follows_from_the_settings() -> None:
    assert load({}).keep == Keep()
    assert load({}, keep_complete=5, keep_failed="1d").keep == Keep(
        complete_count=5,
        complete_age=None,
        failed_count=None,
        failed_age=DAY_MS,
        cancelled_count=5,
        cancelled_age=DAY_MS,
    )
