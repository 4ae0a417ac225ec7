"""``kue limit``: limits that jobs share by name, listed, set and cleared."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from kue.cli.audit import unchanged
from kue.cli.context import as_usage_error, changes, json_option, noun, reads
from kue.cli.output.console import output, print_message
from kue.cli.output.listing import (
    Cell,
    Column,
    Listing,
    count,
    show_facts,
    show_json,
    show_line,
    show_one,
)
from kue.cli.output.text import iso, since
from kue.cli.params import LIMIT
from kue.cli.unknown_names import find_limit
from kue.model.limit_json import LimitKeyView, LimitView, limit_detail, limit_view
from kue.model.named_limits import StoredLimit, TaskLimit, concurrency, rate
from kue.store.values import MAX_BATCH
from kue.worker.unhandled_types import did_you_mean, near

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.client.queue import Kue

#: Keys of a limit that are counted, or shown.
MAX_KEYS = MAX_BATCH


def _declared(limit: LimitView) -> str | None:
    """Return the rule that programs declare, if another one is in force."""
    return limit.declared.words if limit.declared and limit.is_changed else None


_COLUMNS: tuple[Column[LimitView], ...] = (
    Column("name", lambda limit: limit.name, wraps=True),
    Column("rule", lambda limit: limit.rule.words, is_long=True, wraps=True),
    Column("declared", _declared, is_long=True, wraps=True, rank=1),
    Column("running", lambda limit: count(limit.running), is_number=True),
    Column("waiting", lambda limit: count(limit.waiting), is_number=True),
)


@reads
@json_option(help="Write one JSON object per line; durations are ms.")
async def list_(q: Kue, as_json: bool) -> None:
    """
    List limits that jobs share by name: what they allow, and how they are used.

    Columns in a pipe: name, rule, the rule that programs declare if another one is in
    force, running jobs, waiting jobs (those that the limit holds back).  Limits of one
    type of jobs are another thing: kue queue list shows them.

    \b
      kue limit list
      kue limit list --json | jq 'select(.waiting > 0) | .name'
    """
    limits = await q.named_limits()
    uses = await asyncio.gather(*(q.limit_use(name, limit=MAX_KEYS) for name in limits))
    views = [
        limit_view(name, limit, use)
        for (name, limit), use in zip(limits.items(), uses, strict=True)
    ]
    Listing(_COLUMNS, lambda view: view, as_json=as_json).show(views)
    if not limits:
        print_message("there are no named limits yet; kue limit set sets one")


# -- one limit -----------------------------------------------------------------


@reads
@click.argument("name", type=LIMIT)
@json_option(help="Write one JSON object; times are Unix ms.")
async def show(q: Kue, name: str, as_json: bool) -> None:
    """
    Show a limit: its rule, and the keys that are used.

    In a pipe each property is a line: name, tab, value; "key" has the key (empty for a
    limit without keys), running jobs, waiting jobs, and when its rate lets the next one
    start.

    \b
      kue limit show stripe
      kue limit show stripe --json | jq .keys
    """
    limit = await find_limit(q, name)
    found = limit_detail(name, limit, await q.limit_use(name, limit=MAX_KEYS))
    if as_json:
        show_json(found)
        return
    show_facts(_facts(found))
    _show_keys(found.keys, await q.now())


def _facts(limit: LimitView) -> list[tuple[str, str]]:
    facts = [("name", limit.name), ("rule", limit.rule.words)]
    if limit.is_changed:
        facts.append(("declared", f"{_declared(limit)}; it was changed at run time"))
    elif limit.declared is None:
        facts.append(("declared", "nowhere; it was set at run time"))
    facts.append(("running", f"{limit.running:,}"))
    facts.append(("waiting", f"{limit.waiting:,}"))
    return facts


def _opens(key: LimitKeyView) -> str | Callable[[int], Cell] | None:
    opens_at = key.opens_at
    if opens_at is None:
        return None

    def cell(now: int) -> Cell:
        return Cell("now" if opens_at <= now else since(opens_at, now), iso(opens_at))

    return cell


_KEYS: Listing[LimitKeyView] = Listing(
    (
        Column("key", lambda one: one.key, wraps=True),
        Column("running", lambda one: count(one.running), is_number=True),
        Column("waiting", lambda one: count(one.waiting), is_number=True),
        Column("next start", _opens),
    ),
    lambda key: key,
)


def _show_keys(keys: list[LimitKeyView], now: int) -> None:
    if output().is_terminal:
        if keys:
            _KEYS.show(keys, now=now)
        return
    for key in keys:
        show_line("key", *_KEYS.plain(key, now=now))


# -- changes -------------------------------------------------------------------


@changes
@click.argument("name", type=LIMIT)
@click.option("--concurrency", type=int, help="How many may run at once.")
@click.option("--rate", metavar="NUMBER/TIME", help="How many may start: 10/s, 100/5m.")
@click.option(
    "--burst", type=int, help="How many may start at once; --rate is the average."
)
@json_option(help="Write one JSON object: the limit as it is now.")
async def set_(q: Kue, /, name: str, as_json: bool, **given: Any) -> None:
    """
    Set what the limit NAME allows, also while jobs run.

    Give --concurrency or --rate.  With a rate, never more jobs than that start in any
    such time; with --burst it is an average.  It applies to each key of the limit, in
    all workers together.  It stays until it is set again, or a worker starts whose
    program declares another rule than before.

    \b
      kue limit set stripe --concurrency 5
      kue limit set mail --rate 100/1m
      kue limit set mail --rate 10/s --burst 50
    """
    wanted = _rule(**given)
    limits = await q.named_limits()
    known = limits.get(name)
    if known is None:
        _warn_of_new(name, [*limits])
    elif known.rule == wanted.rule:
        unchanged()
    with as_usage_error():
        await q.set_limit(name, wanted)
    stored = StoredLimit(wanted.rule, known.declared if known else None)
    await _report(q, name, stored, as_json=as_json)


def _rule(
    concurrency: int | None = None, rate: str | None = None, burst: int | None = None
) -> TaskLimit:
    if (concurrency is None) == (rate is None):
        raise click.UsageError("give --concurrency or --rate")
    if burst is not None and rate is None:
        raise click.UsageError("--burst is part of a rate; give --rate with it")
    with as_usage_error():
        return _task_limit(concurrency, rate, burst)


def _task_limit(number: int | None, text: str | None, burst: int | None) -> TaskLimit:
    return concurrency(number) if number is not None else rate(text or "", burst=burst)


def _warn_of_new(name: str, known: list[str]) -> None:
    """Warn of a name that was perhaps mistyped."""
    if meant := did_you_mean(near(name, known)):
        print_message(f"note: limit {name!r} is new{meant}")


async def _report(q: Kue, name: str, limit: StoredLimit, *, as_json: bool) -> None:
    item = limit_view(name, limit, await q.limit_use(name, limit=MAX_KEYS))
    show_one(item, name, limit.rule.words, as_json=as_json)
    if item.is_changed and item.declared:
        print_message(
            f"note: programs declare {item.declared.words} for {name}; what is set "
            "here stays until one that declares another rule starts"
        )


@changes
@click.argument("name", type=LIMIT)
@json_option(help="Write one JSON object: name, cleared.")
async def clear(q: Kue, name: str, as_json: bool) -> None:
    """
    Delete the rule of the limit NAME: its jobs are no longer limited.

    A limit that a program declares comes back when a worker starts.

    \b
      kue limit clear stripe
    """
    limit = await find_limit(q, name)
    await q.clear_limit(name)
    show_one({"name": name, "cleared": True}, name, "cleared", as_json=as_json)
    _warn_of_declared(name, limit)


def _warn_of_declared(name: str, limit: StoredLimit) -> None:
    if limit.declared is not None:
        print_message(
            f"note: programs declare {limit.declared.words} for {name}: it comes back "
            "when a worker starts; to lift it, set a higher one"
        )


@noun(list_, show, set_, clear)
def limit() -> None:
    """
    List, set or clear limits that jobs share by name, across types and workers.

    Tasks declare them, as in limits=[kue.rate("10/s", name="mail")], and jobs name
    them: kue job add mail --limited-by stripe --limited-by customer=42.

    \b
      kue limit list
      kue limit show stripe
      kue limit set stripe --concurrency 5
    """
