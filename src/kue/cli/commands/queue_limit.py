"""``kue queue limit``: limits, cap and order of a type, set and shown in words."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click
import msgspec

from kue.cli.audit import unchanged
from kue.cli.context import as_usage_error, changes, json_option
from kue.cli.output.listing import show_one
from kue.cli.output.text import words
from kue.cli.params import DURATION, TYPE, Parsed, options
from kue.cli.unknown_names import warn_of_new_type
from kue.store.values import MAX_WEIGHT, Limits, WhenFull

if TYPE_CHECKING:
    from kue.client.queue import Kue

#: Given as a value, it removes one limit.
NONE = "none"


def _most(value: Any) -> int | str:
    """Read a number; whether it is large enough is checked with the other limits."""
    if value == NONE:
        return NONE
    try:
        return int(value)
    except ValueError:
        raise ValueError(
            f"{value!r} is not a number; write 10, or {NONE} to remove the limit"
        ) from None


def _ageing(value: Any) -> timedelta | str:
    return NONE if value == NONE else DURATION.convert(value, None, None)


def _weight(value: Any) -> tuple[str, int]:
    """Read ``customer 7=3``; the name of a group may have an equals sign, too."""
    group, _, number = value.rpartition("=")
    if not group or not number.isdecimal() or int(number) > MAX_WEIGHT:
        raise ValueError(
            f"{value!r} is not a weight; write GROUP=N with N from 2 to {MAX_WEIGHT}, "
            "or 1 to remove it"
        )
    return group, int(number)


_MOST = Parsed("number", _most, lambda context: (NONE,))
_AGEING = Parsed("duration", _ageing, lambda context: (NONE,))
_WEIGHT = Parsed("group=n", _weight)

_limits = options(
    click.option("--concurrency", type=_MOST, help="How many may run at once."),
    click.option("--rate", type=_MOST, help="How many may start in each --per."),
    click.option("--per", type=DURATION, help="The period of --rate; initially 1s."),
    click.option(
        "--per-key", type=_MOST, help="How many of one group may run at once."
    ),
)
_cap = options(
    click.option("--max-waiting", type=_MOST, help="How many may wait."),
    click.option(
        "--when-full",
        type=click.Choice([one.value for one in WhenFull]),
        help="What an add does when that many wait: fail (initially), wait for room, "
        "or cancel the oldest waiting job of the lowest priority.",
    ),
    click.option(
        "--full-timeout",
        type=DURATION,
        help="How long an add waits for room; initially 30s.",
    ),
)
_order = options(
    click.option(
        "--fair/--no-fair", default=None, help="Whether groups of jobs take turns."
    ),
    click.option(
        "--weight",
        "weights",
        type=_WEIGHT,
        multiple=True,
        help="How many turns a group gets where others get one: vip=3; "
        "vip=1 removes it; may be repeated.",
    ),
    click.option(
        "--ageing",
        type=_AGEING,
        help="The wait that is worth one step of priority: 10m.",
    ),
)


@changes
@click.argument("type", type=TYPE)
@_limits
@_cap
@_order
@click.option("--none", is_flag=True, help="Remove all of it.")
@json_option(help="Write one JSON object: the limits now in force.")
async def limit(q: Kue, /, type: str, none: bool, as_json: bool, **given: Any) -> None:
    """
    Limit jobs of TYPE and set the order they start in, or show both.

    What is not given stays as it is; a value of "none" removes one limit.  It applies
    across all workers of the queue, and to every program that adds jobs.

    \b
      kue queue limit email --rate 100 --per 1m
      kue queue limit email --concurrency 5 --rate none
      kue queue limit email --max-waiting 10000 --when-full wait --full-timeout 10s
      kue queue limit email --fair --weight vip=3
      kue queue limit email --no-fair --ageing 10m
      kue queue limit email --none
    """
    wanted = {name: value for name, value in given.items() if value not in (None, ())}
    if none and wanted:
        raise click.UsageError("--none removes all limits; give no others with it")
    if none or wanted:
        await warn_of_new_type(q, type)
        known = Limits() if none else (await q.limits()).get(type, Limits())
        with as_usage_error():
            await q.limit(type, **_changed(known, **wanted))
    else:
        unchanged()
    now = (await q.limits()).get(type)
    item = {"type": type, "limits": now and msgspec.structs.asdict(now)}
    show_one(item, type, limits_text(now) or "no limits", as_json=as_json)


def _changed(known: Limits, **given: Any) -> dict[str, Any]:
    """Return limits with changes, as `Kue.limit` takes them."""
    weights = given.pop("weights", ())
    values = {name: None if value == NONE else value for name, value in given.items()}
    new = _as_given(known) | values
    if new["max_waiting"] is None and not {"when_full", "full_timeout"} & given.keys():
        # They say what happens at the cap that is removed.
        new |= {"when_full": WhenFull.REFUSE, "full_timeout": timedelta(seconds=30)}
    _check(new, given)
    new["weights"] = _weights(known, weights) if new["fair"] or weights else {}
    return new


def _as_given(known: Limits) -> dict[str, Any]:
    values = msgspec.structs.asdict(known)
    for name in ("per", "full_timeout", "ageing"):
        if values[name] is not None:
            values[name] = timedelta(milliseconds=values[name])
    return values


def _check(new: dict[str, Any], given: dict[str, Any]) -> None:
    """Raise a usage error for options that need another one, or exclude one."""
    if new["max_waiting"] is None:
        for name in ("when_full", "full_timeout"):
            if name in given:
                option = f"--{name.replace('_', '-')}"
                raise click.UsageError(
                    f"{option} is for a type with a cap; give --max-waiting as well"
                )
    if "full_timeout" in given and new["when_full"] != WhenFull.WAIT:
        raise click.UsageError("--full-timeout is for --when-full wait; give that, too")
    if new["fair"] and new["ageing"] is not None:
        raise click.UsageError(
            "a type is either fair or has ageing; give --no-fair or --ageing none"
        )


def _weights(known: Limits, given: tuple[tuple[str, int], ...]) -> dict[str, int]:
    """Return the weights with changes; groups without one weigh 1."""
    merged = known.weights | dict(given)
    return {group: weight for group, weight in merged.items() if weight > 1}


# -- in words ------------------------------------------------------------------


def limits_text(limits: Limits | None) -> str:
    """Return limits, cap and order in words; nothing if there are none."""
    if limits is None:
        return ""
    texts = (
        limits.concurrency and f"{limits.concurrency:,} at once",
        limits.rate and f"{limits.rate:,} each {words(limits.per)}",
        limits.per_key and f"{limits.per_key:,} of a group at once",
        limits.max_waiting
        and f"at most {limits.max_waiting:,} waiting, {_then(limits)}",
        limits.fair and f"fair{_weights_text(limits.weights)}",
        limits.ageing and f"ages {words(limits.ageing)} a step",
    )
    return ", ".join(text for text in texts if text)


def _then(limits: Limits) -> str:
    """Return what happens to a job that is added at the cap."""
    match limits.when_full:
        case WhenFull.REFUSE:
            return "then refuse"
        case WhenFull.WAIT:
            return f"then wait up to {words(limits.full_timeout)}"
        case WhenFull.DROP_OLDEST:
            return "then drop the oldest"


def _weights_text(weights: dict[str, int]) -> str:
    if not weights:
        return ""
    pairs = ", ".join(f"{group} {weight}" for group, weight in weights.items())
    return f" ({pairs})"
