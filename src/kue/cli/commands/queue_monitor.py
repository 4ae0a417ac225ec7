"""``kue queue monitor``: whether thresholds are reached, for monitoring systems."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click
import msgspec

from kue.cli.context import as_usage_error, json_option, reads
from kue.cli.output.console import DONE, REFUSED, print_message
from kue.cli.output.listing import show_one
from kue.cli.params import DURATION, TYPE, options
from kue.model.alert_options import rule_of
from kue.model.alerts import ActiveAlert, breaches
from kue.model.errors import StoreError
from kue.worker.alert_monitor import CHECK_SECONDS, read_facts
from kue.worker.alert_records import AlertRules, read_silenced

if TYPE_CHECKING:
    from kue.client.queue import Kue
    from kue.model.alerts import AlertRule

#: It could not be checked.
UNKNOWN = 2

#: Options of a rule, as `rule_of` takes them.
threshold_options = options(
    click.option("--oldest", type=DURATION, help="A job has waited that long: 5m."),
    click.option("--backlog", type=int, help="That many jobs wait."),
    click.option("--failures", help="That share of the jobs failed: 20%."),
    click.option(
        "--within", type=DURATION, help="The time of --failures; initially 5m."
    ),
    click.option(
        "--least",
        type=int,
        help="How many jobs must have ended for --failures; initially 20.",
    ),
    click.option(
        "--no-worker",
        type=DURATION,
        help="Jobs wait, and no live worker takes them for that long.",
    ),
)


def given_rule(given: dict[str, Any]) -> AlertRule | None:
    """Return the rule that options make; None if none is given."""
    named = {name: value for name, value in given.items() if value is not None}
    with as_usage_error():
        return rule_of(**named) if named else None


@reads
@click.argument("types", metavar="[TYPE]...", type=TYPE, nargs=-1)
@threshold_options
@click.option("--watch", is_flag=True, help="Check again and again, until stopped.")
@json_option(help="Write one JSON object per line, one for each reached threshold.")
async def monitor(
    q: Kue, /, types: tuple[str, ...], watch: bool, as_json: bool, **given: Any
) -> int:
    """
    Show which thresholds are reached, and exit with 1 if there are any.

    Without options the stored thresholds are checked (kue alert set), and what changed
    is reported as workers report it; with options those are checked, and nothing is
    reported.  Exits with 2 if that was not possible.  Columns in a pipe: type, which
    threshold, value, threshold, message.

    \b
      kue queue monitor
      kue queue monitor email --oldest 5m --backlog 1000
      kue queue monitor --failures 20% --no-worker 1m --json
    """
    rule = given_rule(given)
    code = await _check(q, types, rule, as_json=as_json)
    while watch:
        await asyncio.sleep(CHECK_SECONDS)
        code = await _check(q, types, rule, as_json=as_json)
    return code


async def _check(
    q: Kue, types: tuple[str, ...], rule: AlertRule | None, *, as_json: bool
) -> int:
    try:
        found = await (q.check_alerts() if rule is None else _reached(q, rule))
        if rule is None and not await q.alert_rules():
            print_message(
                "there are no thresholds to check; give some, or store some with "
                "kue alert set"
            )
    except StoreError as exc:
        print_message(f"the thresholds could not be checked: {exc}")
        return UNKNOWN
    shown = [one for one in found if not types or one.type in types]
    for one in shown:
        show_one(_item(one), *_cells(one), as_json=as_json)
    return REFUSED if shown else DONE


async def _reached(q: Kue, rule: AlertRule) -> list[ActiveAlert]:
    """Return which thresholds of *rule* are reached now, by any type."""
    store = q.store
    now = await store.now()
    rules, silenced = AlertRules(rule, {}), await read_silenced(store)
    facts = await read_facts(store, rules, silenced, None, now)
    return [
        ActiveAlert(type, one.kind, one.value, one.threshold, now, now)
        for type in sorted(facts)
        for one in breaches(rule, facts[type])
    ]


def _item(one: ActiveAlert) -> dict[str, Any]:
    return msgspec.structs.asdict(one) | {"message": one.message}


def _cells(one: ActiveAlert) -> tuple[str, ...]:
    return (one.type, one.kind, f"{one.value:g}", f"{one.threshold:g}", one.message)
