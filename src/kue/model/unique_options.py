"""Options about a unique key: how long it is held, and what a second add does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from kue.model.duration import milliseconds, optional_ms
from kue.model.job import OnConflict, UniqueUntil

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Those that make no sense without a key, and what each is.
_NEED_KEY = {
    "unique_for": "is how long a unique key is held",
    "unique_until": "says when a unique key is freed",
    "unique_at_most": "is how long a unique key is held at most",
    "on_conflict": "says what happens while another job has the unique key",
    "throttle": "is how often a job with a unique key is added",
    "debounce": "waits for the last add with a unique key",
    "debounce_max": "is the longest wait for the last add with a unique key",
}
#: All options about a unique key.
NAMES = frozenset({"unique", *_NEED_KEY})
#: What a debounce decides by itself.
_NOT_WITH_DEBOUNCE = ("throttle", "unique_for", "unique_at_most")


class KeyRules(NamedTuple):
    """The options about a unique key, as a draft has them; durations in ms."""

    unique_for: int = 0
    unique_until: UniqueUntil = "end"
    unique_at_most: int = 0
    on_conflict: OnConflict = "existing"
    debounce: int = 0
    debounce_max: int = 0

    def delay(self, at: int | None, delay: int) -> int:
        """
        Return the delay of the job: a debounced one has that of its debounce.

        Raises:
            ValueError: Another time was given as well.
        """
        if not self.debounce:
            return delay
        if at is not None or delay not in (0, self.debounce):
            raise ValueError("give debounce or a time (delay or at), not both")
        return self.debounce

    def check_parents(self, after: tuple[int, ...]) -> None:
        """Raise `ValueError` for a job that replaces another and waits for others."""
        if after and self.on_conflict == "replace":
            raise ValueError(
                "a job that replaces another cannot wait for others; leave out after, "
                "or on_conflict='replace' and debounce"
            )


_NO_RULES = KeyRules()


def read(options: Mapping[str, Any]) -> KeyRules:
    """
    Return the rules in *options*; None stands for an option that is left out.

    Raises:
        ValueError, TypeError: One of them makes no sense; the message names it.
    """
    if not options.keys() & NAMES:
        return _NO_RULES
    given = {name: options.get(name) for name in NAMES}
    least, most = _window(given)
    rules = KeyRules(
        unique_for=least,
        unique_until=_choice(given, "unique_until", UniqueUntil) or "end",
        unique_at_most=most,
        on_conflict=_choice(given, "on_conflict", OnConflict) or "existing",
    )
    rules = _debounced(given, rules)
    if given["unique"] is None:
        _refuse_without_key(given)
    return rules


def _refuse_without_key(given: Mapping[str, Any]) -> None:
    for name, what in _NEED_KEY.items():
        if given[name] not in (None, 0, "end", "existing"):
            raise ValueError(f"{name} {what}; give unique= too")


def _window(given: Mapping[str, Any]) -> tuple[int, int]:
    """Return how long the key is held, at least and at most; 0 for no limit."""
    least = milliseconds(given["unique_for"] or 0, field="unique_for")
    most = optional_ms(given["unique_at_most"], "unique_at_most")
    throttle = optional_ms(given["throttle"], "throttle")
    if throttle and (least or most):
        raise ValueError(
            "throttle holds the key for exactly that time; leave out unique_for and "
            "unique_at_most"
        )
    if 0 < most < least:
        raise ValueError(
            "unique_at_most must not be less than unique_for, the least time"
        )
    return throttle or least, throttle or most


def _debounced(given: Mapping[str, Any], rules: KeyRules) -> KeyRules:
    wait = optional_ms(given["debounce"], "debounce")
    longest = optional_ms(given["debounce_max"], "debounce_max")
    if not wait:
        if longest:
            raise ValueError("debounce_max is the longest wait; give debounce= too")
        return rules
    if 0 < longest < wait:
        raise ValueError("debounce_max must not be less than debounce")
    for name in _NOT_WITH_DEBOUNCE:
        if given[name]:
            raise ValueError(f"give debounce or {name}, not both")
    if given["on_conflict"] not in (None, "replace"):
        raise ValueError("debounce replaces the job that waits; leave out on_conflict")
    if given["unique_until"] not in (None, "start"):
        raise ValueError("debounce frees the key at the start; leave out unique_until")
    return rules._replace(
        unique_until="start",
        on_conflict="replace",
        debounce=wait,
        debounce_max=longest,
    )


def _choice(given: Mapping[str, Any], name: str, choices: Any) -> Any:
    value = given[name]
    if value is not None and value not in get_args(choices):
        words = ", ".join(map(repr, get_args(choices)))
        raise ValueError(f"{name} is one of {words}, not {value!r}")
    return value
