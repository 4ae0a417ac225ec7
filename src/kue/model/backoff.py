"""
Backoff: how long to wait before the next attempt.

A backoff is data: it is stored with the job as JSON and computed here.  Custom
strategies are functions registered by name in every process that needs them; only the
name is stored, and source text is never evaluated.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from kue.model.duration import MAX_MS, Duration, milliseconds
from kue.model.errors import ConfigError

#: attempt number (1 for the first) → milliseconds
Strategy = Callable[[int], float]
Jitter = Callable[[], float]

_strategies: dict[str, Strategy] = {}


class _Backoff(msgspec.Struct, frozen=True, tag_field="type"):
    """A backoff as it is stored."""


class Fixed(_Backoff, frozen=True, omit_defaults=True, tag="fixed"):
    """The same delay every time."""

    delay: int
    jitter: float = 0.0


class Exponential(_Backoff, frozen=True, omit_defaults=True, tag="exponential"):
    """Half the delay, then 1.5, 3.5, 7.5 … times it, as Kue counts, up to *max*."""

    delay: int
    max: int | None = None
    jitter: float = 0.0


class Listed(_Backoff, frozen=True, tag="list"):
    """One delay per attempt; the last is repeated."""

    delays: tuple[int, ...]


class Named(_Backoff, frozen=True, tag="named"):
    """A strategy registered in code under this name."""

    name: str


Backoff: TypeAlias = Fixed | Exponential | Listed | Named


def fixed(delay: Duration, *, jitter: float = 0.0) -> Fixed:
    """Wait *delay* before every new attempt, scattered by *jitter* (0 to 1) of it."""
    return Fixed(milliseconds(delay, field="delay"), _share(jitter))


def exponential(
    delay: Duration, *, max: Duration | None = None, jitter: float = 0.0
) -> Exponential:
    """Wait 0.5, 1.5, 3.5 … times *delay*, at most *max*, scattered by *jitter*."""
    cap = None if max is None else milliseconds(max, field="max")
    return Exponential(milliseconds(delay, field="delay"), cap, _share(jitter))


def listed(*delays: Duration) -> Listed:
    """Wait for each of *delays* in turn, one per attempt; the last one repeats."""
    if not delays:
        raise ConfigError("a list of delays needs at least one")
    return Listed(tuple(milliseconds(delay, field="delay") for delay in delays))


def named(name: str) -> Named:
    """Wait as long as the strategy registered as *name* returns."""
    return Named(name)


def register(name: str, strategy: Strategy) -> None:
    """Register *strategy* (attempt number → milliseconds) as *name* in this process."""
    _strategies[name] = strategy


def of(value: Any, *, base: int = 0) -> Backoff | None:
    """
    Read a backoff as users and Kue's clients give it.

    ``True`` means the job's own delay (*base*, in ms); a number or duration is fixed; a
    list is a list; a mapping is Kue's ``{"type", "delay", "maxDelay"}``.
    """
    match value:
        case None | False:
            return None
        case Fixed() | Exponential() | Listed() | Named():
            return value
        case True:
            return Fixed(base)
        case dict():
            return _of_mapping(value, base)
        case list() | tuple():
            return listed(*value)
    return fixed(value)


def delay_ms(
    backoff: Backoff | None, attempt: int, *, jitter: Jitter = random.random
) -> int:
    """
    Return how many milliseconds to wait after attempt number *attempt* failed.

    Raises:
        ConfigError: The strategy's name is not registered in this process.
    """
    match backoff:
        case None:
            return 0
        case Fixed():
            return _scatter(backoff.delay, backoff.jitter, jitter)
        case Exponential():
            return _scatter(_exponential(backoff, attempt), backoff.jitter, jitter)
        case Listed():
            return backoff.delays[min(attempt, len(backoff.delays)) - 1]
        case Named():
            return _clamp(_strategy(backoff.name)(attempt))


def _exponential(backoff: Exponential, attempt: int) -> float:
    half = backoff.delay * 0.5
    # 2**64 half-delays are past any cap; a larger power only costs time.
    grown = half * (2.0 ** min(attempt, 64) - 1)
    # Kue takes half a delay off the cap; a cap people can read is worth more.
    return min(grown, MAX_MS if backoff.max is None else backoff.max)


def _scatter(delay: float, share: float, jitter: Jitter) -> int:
    # Jobs that failed together (a dead mail server, say) would otherwise come back
    # together and knock it over again.
    return _clamp(delay * (1 + share * (2 * jitter() - 1)))


def _clamp(delay: float) -> int:
    return min(max(round(delay), 0), MAX_MS)


def _share(jitter: float) -> float:
    if not isinstance(jitter, int | float) or not 0 <= jitter <= 1:
        raise ConfigError(f"jitter is a share from 0 to 1, not {jitter!r}")
    return float(jitter)


def _strategy(name: str) -> Strategy:
    try:
        return _strategies[name]
    except KeyError:
        raise ConfigError(
            f"no backoff strategy {name!r} is registered in this process; "
            f"call kue.model.backoff.register({name!r}, …) where the worker starts"
        ) from None


def _of_mapping(value: dict[str, Any], base: int) -> Backoff:
    kind = value.get("type", "fixed")
    if kind == "list":
        return _of_list(value.get("delays"))
    if kind == "named":
        return _of_name(value.get("name"))
    delay = _whole(value.get("delay", base), "delay")
    share = _share(value.get("jitter", 0.0))
    if kind == "exponential":
        cap = value.get("maxDelay", value.get("max"))
        return Exponential(delay, None if cap is None else _whole(cap, "max"), share)
    if kind == "fixed":
        return Fixed(delay, share)
    raise ConfigError(
        f"backoff type {kind!r} is unknown; there are fixed, exponential, list and "
        "named (register a function with kue.model.backoff.register)"
    )


def _of_list(delays: Any) -> Listed:
    if not isinstance(delays, list | tuple) or not delays:
        raise ConfigError(f"backoff delays are a list of milliseconds, not {delays!r}")
    return Listed(tuple(_whole(delay, "delay") for delay in delays))


def _of_name(name: Any) -> Named:
    if not isinstance(name, str):
        raise ConfigError(f"a named backoff needs the name as text, not {name!r}")
    return Named(name)


def _whole(value: Any, field: str) -> int:
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or not 0 <= value <= MAX_MS
    ):
        raise ConfigError(f"backoff {field} is whole milliseconds, not {value!r}")
    return value
