"""Options of alerts, and the rule that is made of them: every value is checked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypedDict, Unpack

from kue.model.alerts import (
    LEAST_JOBS,
    MAX_WITHIN_MS,
    MINUTE_MS,
    REMIND_MS,
    WITHIN_MS,
    AlertRule,
)
from kue.model.duration import milliseconds

if TYPE_CHECKING:
    from kue.model.duration import Duration

MAX_URL = 2_000
MAX_JOBS = 1_000_000_000
#: Scheme, host and port; then the rest.
_URL = re.compile(
    r"(https?://(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?)((?:[/?].*)?)"
)


class AlertOptions(TypedDict, total=False):
    """What `kue.Kue.alert` and `kue.Kue.set_alert` take."""

    oldest: Duration | None
    backlog: int | None
    failures: float | str | None
    within: Duration
    least: int
    no_worker: Duration | None
    remind: Duration
    webhook: str | None


def rule_of(**options: Unpack[AlertOptions]) -> AlertRule:
    """
    Return the rule of *options*.

    Raises:
        ValueError, TypeError: An option makes no sense; the message names it.
    """
    failures, webhook = options.get("failures"), options.get("webhook")
    return AlertRule(
        oldest=_span("oldest", options.get("oldest")),
        backlog=_number("backlog", options.get("backlog")),
        failures=None if failures is None else _share(failures),
        within=_within(options.get("within", WITHIN_MS / 1000)),
        least=_number("least", options.get("least", LEAST_JOBS)) or LEAST_JOBS,
        no_worker=_span("no_worker", options.get("no_worker")),
        remind=milliseconds(options.get("remind", REMIND_MS / 1000), field="remind"),
        webhook=None if webhook is None else checked_url(webhook),
    )


def checked_url(url: object) -> str:
    """
    Return *url* if a webhook can be sent there.

    Raises:
        TypeError, ValueError: It is not an http or https URL, or has a password.  The
            message does not repeat it: its path may be a secret.
    """
    if not isinstance(url, str):
        raise TypeError("webhook must be text, a URL")
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError(
            f"webhook must have at most {MAX_URL} characters, printable ASCII ones"
        )
    if _URL.fullmatch(url) is None:
        raise ValueError(
            "webhook must be a URL that begins with https:// or http://, and has no "
            "user name or password"
        )
    return url


def shown_url(url: str) -> str:
    """Return a webhook's URL as it is shown: without its path, which may be secret."""
    match = _URL.fullmatch(url)
    return f"{match[1]}/…" if match and match[2].strip("/") else url


def _span(name: str, given: Duration | None) -> int | None:
    if given is None:
        return None
    length = milliseconds(given, field=name)
    if length < 1:
        raise ValueError(
            f"{name} must be longer than 0, not {given!r}; or leave it out"
        )
    return length


def _within(given: Duration) -> int:
    length = milliseconds(given, field="within")
    if not MINUTE_MS <= length <= MAX_WITHIN_MS:
        raise ValueError(f"within must be from 1m to 1h, not {given!r}")
    return length


def _number(name: str, given: int | None) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"{name} must be a whole number, not {given!r}")
    if not 1 <= given <= MAX_JOBS:
        raise ValueError(f"{name} must be from 1 to {MAX_JOBS:,}, not {given}")
    return given


def _share(given: float | str) -> float:
    """Return a share: a number up to 1, or text such as "20%"."""
    value = given
    if isinstance(given, str):
        try:
            value = float(given.removesuffix("%")) / (100 if "%" in given else 1)
        except ValueError:
            raise ValueError(
                f'failures must be a share such as 0.2 or "20%", not {given!r}'
            ) from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f'failures must be a share such as 0.2 or "20%", not {given!r}')
    if not 0 < value <= 1:
        raise ValueError(
            f"failures must be above 0 and at most 1 (100%), not {given!r}"
        )
    return float(value)
