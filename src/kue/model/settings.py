"""
Settings, from arguments and environment variables (KUE_*).

An argument wins over its variable, a variable over the default.  ``KUE_URL`` (then
``REDIS_URL``) names the store; with neither, jobs are kept in ``kue.db`` in the working
folder.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast, get_args

import msgspec

from kue.model.duration import milliseconds
from kue.model.errors import ConfigError
from kue.model.names import check_name
from kue.model.payload import MAX_DATA
from kue.model.payload_keys import PayloadKey, Protection
from kue.model.retry_policy import MAX_STALLS
from kue.model.stream import MAX_CHUNKS, MAX_STREAM

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_URL = "sqlite:///kue.db"
DEFAULT_PREFIX = "kue"
#: How long a run's worker may go without a heartbeat, in ms.
LEASE_MS = 10_000
DAY_MS = 86_400_000


class Keep(msgspec.Struct, frozen=True):
    """How many ended jobs of a type to keep, and how long (ms); None is forever."""

    complete_count: int | None = 10_000
    complete_age: int | None = None
    failed_count: int | None = None
    failed_age: int | None = 7 * DAY_MS
    cancelled_count: int | None = 10_000
    cancelled_age: int | None = 7 * DAY_MS


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a queue; each field has a variable ``KUE_<FIELD>``."""

    #: Where jobs are kept.
    url: str = DEFAULT_URL
    #: What all Redis keys begin with, so that several queues can share a server; for a
    #: file, which is one queue, it is refused.
    prefix: str = DEFAULT_PREFIX
    #: How long a worker may go without a heartbeat before its jobs are reclaimed, ms.
    lease: int = LEASE_MS
    #: How long one call keeps trying to reach the store, ms.
    budget: int = 5_000
    #: Bytes of JSON one job's data may have.
    max_data: int = MAX_DATA
    #: Chunks that a job's stream may have, and bytes of JSON in all of them.
    max_chunks: int = MAX_CHUNKS
    max_stream: int = MAX_STREAM
    #: Accept a Redis that may evict keys, and with them jobs.
    allow_eviction: bool = False
    #: Ended jobs kept of each type.
    keep_complete: int = 10_000
    #: How long failed and cancelled jobs are kept, ms.
    keep_failed: int = 7 * DAY_MS
    #: A handler that blocks the event loop for longer is reported, ms; 0 for never.
    blocked: int = 1_000
    #: Store what jobs log and print with the job.
    capture: bool = True
    #: Cancel runs when the store was out of reach for as long as a lease: another
    #: worker may have them by then.
    strict_lease: bool = False
    #: Publish events of jobs that are added, unless their own option differs.
    job_events: bool = True
    #: How many lost workers a job survives, unless it has its own limit.
    max_stalls: int = MAX_STALLS
    #: The type of jobs that failed ones of this program are forwarded to; empty: none.
    dead_letter: str = ""
    #: Webhooks of alerts and failures are signed with it; empty for no signature.
    webhook_secret: str = ""
    #: Keys that payloads are protected with, ``name:base64``: the first protects, and
    #: all of them open.
    payload_keys: tuple[PayloadKey, ...] = ()
    #: How the payloads of jobs are protected: "sign" or "encrypt"; empty: not at all.
    payload_protection: Protection = ""
    #: Run jobs whose payloads are not protected, too, although they should be.
    accept_plain: bool = False
    #: Payloads with more bytes are compressed; 0 for never.
    compress_over: int = 0

    @property
    def keep(self) -> Keep:
        """The retention rule of these settings."""
        return Keep(
            complete_count=self.keep_complete,
            failed_age=self.keep_failed,
            cancelled_count=self.keep_complete,
            cancelled_age=self.keep_failed,
        )


_DURATIONS = frozenset({"lease", "budget", "keep_failed", "blocked"})
_NUMBERS = frozenset(
    {"max_data", "max_chunks", "max_stream", "keep_complete", "max_stalls"}
)
_FLAGS = frozenset(
    {"allow_eviction", "capture", "strict_lease", "job_events", "accept_plain"}
)
_SIZES = {"KiB": 1024, "MiB": 1024 * 1024, "": 1}
_MINIMUM = {"lease": 500, "budget": 1, "max_data": 1, "keep_complete": 0}


def load(environ: Mapping[str, str] | None = None, **given: Any) -> Settings:
    """
    Return the settings: *given* (None means not given), else KUE_*, else defaults.

    Raises:
        ConfigError: A name is unknown or a value makes no sense; the message names it.
    """
    environ = os.environ if environ is None else environ
    unknown = given.keys() - set(Settings.__struct_fields__)
    if unknown:
        raise ConfigError(
            f"unknown setting {min(unknown)!r}; there are "
            + ", ".join(Settings.__struct_fields__)
        )
    values: dict[str, Any] = {}
    for field in Settings.__struct_fields__:
        value = given.get(field)
        source = field
        if value is None:
            source = f"KUE_{field.upper()}"
            # In a shell, set to nothing means not set.
            value = environ.get(source) or None
        if value is None and field == "url":
            source = "REDIS_URL"
            value = environ.get(source) or None
        if value is not None:
            try:
                values[field] = _parse(field, value)
            except (ValueError, TypeError) as exc:
                raise ConfigError(f"{source}: {exc}") from exc
    return Settings(**values)


def _parse(field: str, value: Any) -> Any:
    if field in _DURATIONS:
        parsed = milliseconds(value, field=field)
    elif field in _NUMBERS:
        parsed = _whole(field, value)
    elif field == "compress_over":
        parsed = _size(field, value)
    elif field in _FLAGS:
        return _flag(value)
    elif field == "payload_keys":
        texts = value.split() if isinstance(value, str) else value
        return tuple(PayloadKey.read(str(text)) for text in texts)
    elif field == "payload_protection":
        return _protection(value)
    elif field == "prefix":
        return check_name(value, what="prefix")
    else:
        return str(value)
    least = _MINIMUM.get(field, 0)
    if parsed < least:
        raise ValueError(f"{field} must be at least {least}, not {value!r}")
    return parsed


def _whole(field: str, value: Any) -> int:
    try:
        return int(value)
    except (ValueError, TypeError):
        raise ValueError(f"{field} must be a whole number, not {value!r}") from None


def _size(field: str, value: Any) -> int:
    """Return a number of bytes, given as such or as ``4KiB``."""
    text = str(value).replace(" ", "")
    unit = next(unit for unit in _SIZES if text.endswith(unit))
    try:
        return int(text.removesuffix(unit)) * _SIZES[unit]
    except ValueError:
        raise ValueError(
            f"{field} must be a number of bytes, or a text such as 4KiB, not {value!r}"
        ) from None


def _protection(value: Any) -> Protection:
    if value not in get_args(Protection):
        raise ValueError(f"must be sign or encrypt, not {value!r}")
    return cast("Protection", value)


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in ("1", "true", "yes", "on"):
        return True
    if text in ("0", "false", "no", "off", ""):
        return False
    raise ValueError(f"must be yes or no, not {value!r}")
