"""Drafts of jobs: every option is checked and normalised, before any I/O."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Unpack

from msgspec.structs import replace

from kue.model import backoff as backoffs
from kue.model import unique_options
from kue.model.duration import Duration, epoch_ms, milliseconds, optional_ms
from kue.model.job import (
    MAX_HISTORY,
    MAX_PARENTS,
    MAX_TAGS,
    Draft,
    Spec,
    priority_of,
)
from kue.model.named_limits import check_limited_by
from kue.model.names import check_name, check_path_name
from kue.model.options import JobOptions
from kue.model.parent_failure import check_policy
from kue.model.payload import JSON, MAX_DATA, encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kue.model.options import AttemptsGiven, Identified

MAX_ATTEMPTS = 1_000_000
#: The most lost workers that a job may survive.
MAX_STALLS = 1000
UNLIMITED = "unlimited"


def draft(
    type: str,
    data: JSON = None,
    *,
    address_id: str | None = None,
    max_data: int = MAX_DATA,
    **options: Unpack[JobOptions],
) -> Draft:
    """
    Return a valid draft of a job.

    Raises:
        BadPayload: *data* is not JSON, or too much of it.
        ValueError, TypeError: An option makes no sense; the message names it.
    """
    check_options(options)
    key_rules = unique_options.read(options)
    moment, wait = _when(options.get("delay", 0), options.get("at"))
    wait = key_rules.delay(moment, wait)
    unique, group = options.get("unique"), options.get("group")
    delivery = options.get("delivery", "at-least-once")
    if delivery not in ("at-least-once", "at-most-once"):
        raise ValueError(
            f"delivery is 'at-least-once' or 'at-most-once', not {delivery!r}"
        )
    last_retry, retry_for = _retry_until(options.get("retry_until"))
    on_failure = options.get("on_parent_failure", "block")
    if on_failure != "block":
        check_policy(on_failure)
    parent, retention = options.get("parent"), options.get("retention")
    after = _after(options.get("after", ()))
    key_rules.check_parents(after)
    name = check_path_name(type, what="type")
    queue = options.get("queue") or name
    if queue is not name:
        check_path_name(queue, what="queue")
    spec = Spec(
        data=encode(data, field="data", limit=max_data),
        delay=wait,
        at=moment,
        max_attempts=_attempts(options.get("attempts", 1)),
        max_exceptions=_exceptions(options.get("max_exceptions")),
        retry_for=retry_for,
        retry_until=last_retry,
        backoff=backoffs.of(options.get("backoff"), base=wait),
        timeout=optional_ms(options.get("timeout"), "timeout"),
        soft_timeout=optional_ms(options.get("soft_timeout"), "soft_timeout"),
        max_stalls=_stalls(options.get("max_stalls")),
        tags=_tags(options.get("tags", ())),
        parent=None if parent is None else _job_id(parent, "parent"),
        after=after,
        remove_on_complete=options.get("remove_on_complete", False),
        retention=(
            None if retention is None else milliseconds(retention, field="retention")
        ),
        meta=check_meta(options.get("meta")),
        quiet=options.get("events") is False,
        address_id=None if address_id is None else _uuid(address_id),
        task=None if queue == name else name,
    )
    return Draft(
        type=queue,
        spec=spec,
        priority=priority_of(options.get("priority", 0)),
        at=moment,
        unique=None if unique is None else check_name(unique, what="unique key"),
        **key_rules._asdict(),
        group=None if group is None else check_name(group, what="group"),
        limited_by=check_limited_by(options.get("limited_by")),
        ttl=optional_ms(options.get("ttl"), "ttl"),
        expires=optional_ms(options.get("expires"), "expires"),
        once=delivery == "at-most-once",
        on_parent_failure=on_failure,
    )


#: What `draft` takes in addition to type and data.
OPTIONS = frozenset(JobOptions.__annotations__) | {"address_id"}
#: What other queues call them.
_ALIASES = {
    "countdown": "delay",
    "eta": "at",
    "max_retries": "attempts",
    "tries": "attempts",
    "retries": "attempts",
    "time_limit": "timeout",
    "soft_time_limit": "soft_timeout",
}


def check_options(
    options: Iterable[str],
    known: frozenset[str] = OPTIONS,
    *,
    what: str = "a job",
) -> None:
    """Raise `TypeError` for an unknown option; the message suggests the nearest."""
    for name in options:
        if name not in known:
            near = _ALIASES.get(name) or "".join(get_close_matches(name, known, 1))
            hint = f"did you mean {near}? " if near in known else ""
            raise TypeError(
                f"{name} is not an option of {what}; {hint}"
                f"the options are {', '.join(sorted(known))}"
            )


class DraftTemplate:
    """
    A type and options, checked once, for drafts that differ in their data.

    Checking options takes longer than everything else that is done for a draft.
    """

    __slots__ = ("_draft", "_max_data")

    def __init__(
        self, type: str, options: Mapping[str, Any], *, max_data: int = MAX_DATA
    ) -> None:
        """Check the options; raises what `draft` raises."""
        self._draft = draft(type, **options)
        self._max_data = max_data

    def draft(self, data: JSON) -> Draft:
        """Return a draft with this *data*; raises `BadPayload`."""
        encoded = encode(data, field="data", limit=self._max_data)
        return replace(self._draft, spec=replace(self._draft.spec, data=encoded))


def _when(delay: Duration | datetime, at: datetime | None) -> tuple[int | None, int]:
    if at is not None:
        if delay != 0:
            raise ValueError("give delay or at, not both")
        return epoch_ms(at, field="at"), 0
    if isinstance(delay, datetime):
        return epoch_ms(delay, field="delay"), 0
    return None, milliseconds(delay, field="delay")


def _attempts(value: AttemptsGiven) -> int:
    """Return the most attempts, 0 for no limit."""
    if value == UNLIMITED:
        return 0
    return _number(
        value, "attempts", MAX_ATTEMPTS, f'; write "{UNLIMITED}" for no limit'
    )


def _exceptions(value: int | None) -> int:
    if value is None:
        return 0
    # They are counted in the history.
    return _number(value, "max_exceptions", MAX_HISTORY, "; leave it out for no limit")


def _stalls(value: int | None) -> int | None:
    if value is None:
        return None
    return _number(value, "max_stalls", MAX_STALLS, "", least=0)


def _number(value: object, field: str, most: int, hint: str, *, least: int = 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{field} must be a whole number, not {value!r}{hint}")
    if not least <= value <= most:
        raise ValueError(f"{field} must be from {least} to {most:,}, not {value}{hint}")
    return value


def _retry_until(value: Duration | datetime | None) -> tuple[int | None, int]:
    """Return a moment, or how long after the job was added, in ms."""
    if isinstance(value, datetime):
        return epoch_ms(value, field="retry_until"), 0
    return None, optional_ms(value, "retry_until")


def _tags(values: Iterable[str]) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"tags must be a list of texts, not {values!r}")
    tags = tuple(dict.fromkeys(check_name(tag, what="tag") for tag in values))
    if len(tags) > MAX_TAGS:
        raise ValueError(f"a job has at most {MAX_TAGS} tags, not {len(tags)}")
    return tags


def _job_id(job: Identified | int, field: str) -> int:
    value = getattr(job, "id", job)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{field} must be a job or its id, not {job!r}")
    return value


def _after(values: Iterable[Identified | int]) -> tuple[int, ...]:
    if not isinstance(values, Iterable):
        raise TypeError(f"after must be a list of jobs or their ids, not {values!r}")
    ids = tuple(dict.fromkeys(_job_id(value, "after") for value in values))
    if len(ids) > MAX_PARENTS:
        raise ValueError(
            f"a job waits for at most {MAX_PARENTS} others, not {len(ids)}"
        )
    return ids


def _uuid(value: str) -> str:
    try:
        return str(uuid.UUID(value))
    except (ValueError, AttributeError):
        raise ValueError(f"address_id must be a UUID as text, not {value!r}") from None


def check_meta(values: Mapping[str, str] | None) -> dict[str, str]:
    """
    Return the further fields of a job.

    Raises:
        TypeError: A field is not text.
        BadPayload: They are more than 8 KiB.
    """
    meta = dict(values or {})
    for key, value in meta.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"meta maps text to text, but has {key!r}: {value!r}")
    encode(meta, field="meta", limit=8 * 1024)
    return meta
