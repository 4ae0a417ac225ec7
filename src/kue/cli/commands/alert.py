"""``kue alert``: thresholds of queues, alerts in force, silenced types and tags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from kue.cli.commands.queue_monitor import given_rule, threshold_options
from kue.cli.context import changes, json_option, noun, reads
from kue.cli.output.console import DONE, REFUSED, print_message
from kue.cli.output.listing import Column, Listing, show_one
from kue.cli.output.text import words
from kue.cli.params import DURATION, TYPE, options
from kue.cli.unknown_names import warn_of_new_type
from kue.model.alert_options import shown_url

if TYPE_CHECKING:
    from kue.client.queue import Kue
    from kue.model.alerts import ActiveAlert, AlertRule
    from kue.model.payload import JSON

#: How the default is shown.
EVERY_OTHER = "(default)"


class _Row(NamedTuple):
    """The thresholds of a type, and its alerts in force."""

    type: str | None
    rule: AlertRule | None
    active: list[ActiveAlert]


def thresholds_text(rule: AlertRule | None) -> str:
    """Return the thresholds of a rule in a few words."""
    if rule is None:
        return "default"
    parts = [
        *([f"oldest {words(rule.oldest)}"] if rule.oldest is not None else []),
        *([f"backlog {rule.backlog:,}"] if rule.backlog is not None else []),
        *([f"failures {rule.failures:.0%}"] if rule.failures is not None else []),
        *([f"no worker {words(rule.no_worker)}"] if rule.no_worker is not None else []),
    ]
    return ", ".join(parts) or "none"


def _webhook_text(row: _Row) -> str:
    url = row.rule.webhook if row.rule is not None else None
    return "" if url is None else shown_url(url)


COLUMNS: tuple[Column[_Row], ...] = (
    Column("type", lambda row: row.type or EVERY_OTHER, wraps=True),
    Column("thresholds", lambda row: thresholds_text(row.rule), wraps=True),
    Column("webhook", _webhook_text, wraps=True, rank=1),
    Column(
        "in force",
        lambda row: "; ".join(one.message for one in row.active),
        is_long=True,
        wraps=True,
    ),
)


def rule_json(rule: AlertRule | None) -> dict[str, JSON] | None:
    """Return a rule as JSON, without what is secret."""
    if rule is None:
        return None
    webhook = rule.webhook and shown_url(rule.webhook)
    return msgspec.structs.asdict(rule) | {"webhook": webhook}


def _item(row: _Row) -> JSON:
    return {
        "type": row.type,
        "thresholds": rule_json(row.rule),
        "alerts": [
            msgspec.structs.asdict(one) | {"message": one.message} for one in row.active
        ],
    }


@reads
@json_option(help="Write one JSON object per line, one for each type.")
async def list_(q: Kue, as_json: bool) -> None:
    """
    List the thresholds of all types, and the alerts in force.

    Columns in a pipe: type, thresholds, webhook, alerts in force.

    \b
      kue alert list
      kue alert list --json | jq 'select(.alerts != [])'
    """
    rules, active = await q.alert_rules(), await q.alerts()
    types = sorted({one.type for one in active} | {type for type in rules if type})
    rows = [
        _Row(type, rules.get(type), [one for one in active if one.type == type])
        for type in ([None] if None in rules else []) + types
    ]
    Listing(COLUMNS, _item, as_json=as_json).show(rows, now=await q.now())
    silenced = await q.silenced()
    for kind, names in (("types", silenced.types), ("tags", silenced.tags)):
        if names:
            print_message(f"silenced {kind}: {', '.join(names)}")
    if not rows:
        print_message("there are no thresholds; kue alert set adds some")


@changes
@click.argument("type", type=TYPE, required=False)
@threshold_options
@click.option(
    "--remind",
    type=DURATION,
    help="Report again after that long; initially 1h, 0 for never.",
)
@click.option("--webhook", metavar="URL", help="Where reports are posted to, as JSON.")
@click.option("--none", is_flag=True, help="No alerts, whatever the default is.")
@json_option(help="Write one JSON object: type (null: default), thresholds.")
async def set_(
    q: Kue, /, type: str | None, none: bool, as_json: bool, **given: Any
) -> None:
    """
    Set the thresholds of TYPE, or without one those of all other types.

    Replaces earlier thresholds.  An alert is raised once when a threshold is reached,
    and resolved once; kue worker and kue dashboard check every 10 seconds or so.

    \b
      kue alert set email --oldest 5m --backlog 10000 --failures 20% --no-worker 1m
      kue alert set --oldest 1h --webhook https://chat.example.com/hooks/1f0c
      kue alert set cleanup --none
    """
    rule = given_rule(given)
    if (rule is None or not rule.thresholds) is not none:
        raise click.UsageError("give thresholds, or --none")
    if type is not None:
        await warn_of_new_type(q, type)
    named = {name: value for name, value in given.items() if value is not None}
    try:
        stored = await q.set_alert(type, **named)
    except ValueError as exc:
        raise click.UsageError(str(exc)) from exc
    item = {"type": type, "thresholds": rule_json(stored)}
    show_one(item, type or EVERY_OTHER, thresholds_text(stored), as_json=as_json)


@changes
@click.argument("type", type=TYPE, required=False)
@json_option(help="Write one JSON object: type (null: default), cleared.")
async def clear(q: Kue, type: str | None, as_json: bool) -> int:
    """
    Remove the thresholds of TYPE, or without one the default.

    The default then applies to the type.  Thresholds that are declared in code are
    switched off, until the declaration changes.  Exits with 1 when there were none.

    \b
      kue alert clear email
      kue alert clear
    """
    was_there = await q.clear_alert(type)
    name = type or EVERY_OTHER
    if was_there or as_json:
        item = {"type": type, "cleared": was_there}
        show_one(item, name, "cleared", as_json=as_json)
    if not was_there:
        print_message(f"{name} had no thresholds")
    return DONE if was_there else REFUSED


name_options = options(
    click.argument("name"),
    click.option("--tag", "is_tag", is_flag=True, help="NAME is a tag, not a type."),
)


@changes
@name_options
@json_option(help="Write one JSON object: name, silenced.")
async def silence(q: Kue, name: str, is_tag: bool, as_json: bool) -> None:
    """
    Let jobs of a type, or with a tag, cause no warnings and alerts.

    They run as before, and lists and searches of jobs show them.

    \b
      kue alert silence heartbeat
      kue alert silence noisy --tag
    """
    try:
        await (q.silence(tag=name) if is_tag else q.silence(name))
    except ValueError as exc:
        raise click.UsageError(str(exc)) from exc
    show_one({"name": name, "silenced": True}, name, "silenced", as_json=as_json)


@changes
@name_options
@json_option(help="Write one JSON object: name, silenced.")
async def unsilence(q: Kue, name: str, is_tag: bool, as_json: bool) -> int:
    """
    Undo kue alert silence.  Exits with 1 when it was not silenced.

    \b
      kue alert unsilence heartbeat
      kue alert unsilence noisy --tag
    """
    was = await (q.unsilence(tag=name) if is_tag else q.unsilence(name))
    if was or as_json:
        item = {"name": name, "silenced": False}
        show_one(item, name, "not silenced any more", as_json=as_json)
    if not was:
        print_message(f"{name} was not silenced")
    return DONE if was else REFUSED


@noun(list_, set_, clear, silence, unsilence)
def alert() -> None:
    """
    List, set and clear thresholds of queues, and silence types and tags.

    kue queue monitor checks them, with an exit code for monitoring systems.

    \b
      kue alert list
      kue alert set email --oldest 5m --backlog 10000
      kue alert silence heartbeat
    """
