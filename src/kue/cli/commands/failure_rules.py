"""``kue failed rule``, ``rules`` and ``replay``: dead letters, webhooks of failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from kue.cli.context import as_usage_error, changes, json_option, reads
from kue.cli.output.console import DONE, REFUSED, print_message
from kue.cli.output.listing import Column, Listing, show_json, show_one
from kue.cli.output.text import jobs
from kue.cli.params import POSITIVE, TYPE
from kue.cli.unknown_names import check_type, warn_of_new_type
from kue.model.alert_options import shown_url
from kue.model.failure_rule import FailureRule

if TYPE_CHECKING:
    from kue.client.queue import Kue
    from kue.model.payload import JSON

#: Given as a value, it removes one.
NONE = "none"
EVERY = "(all types)"


class _RuleRow(NamedTuple):
    """The rule of a type; of all, if it has no name."""

    type: str | None
    rule: FailureRule


def _webhook(rule: FailureRule) -> str:
    return shown_url(rule.webhook) if rule.webhook else ""


COLUMNS: tuple[Column[_RuleRow], ...] = (
    Column("type", lambda row: row.type or EVERY, wraps=True),
    Column("hooks", lambda row: "yes" if row.rule.hooks else ""),
    Column("dead letter", lambda row: row.rule.dead_letter, wraps=True),
    Column("webhook", lambda row: _webhook(row.rule), wraps=True, rank=1),
)


def _item(row: _RuleRow) -> dict[str, JSON]:
    rule = msgspec.structs.asdict(row.rule)
    return {"type": row.type, **rule, "webhook": _webhook(row.rule) or None}


@reads
@json_option(help="Write one JSON object per line, one for each type.")
async def rules(q: Kue, as_json: bool) -> None:
    """
    List what is done about failed jobs, by type.

    Columns in a pipe: type, hooks, dead letter type, webhook.

    \b
      kue failed rules
    """
    found = await q.failure_rules()
    rows = [
        _RuleRow(type, found[type]) for type in sorted(found, key=lambda one: one or "")
    ]
    Listing(COLUMNS, _item, as_json=as_json).show(rows, now=await q.now())
    if not rows:
        print_message("there are no rules; kue failed rule adds some")


@changes
@click.argument("type", type=TYPE, required=False)
@click.option("--all", "every", is_flag=True, help="Jobs of types without their own.")
@click.option("--dead-letter", metavar="TYPE", help="Forward them to this type.")
@click.option("--webhook", metavar="URL", help="Report them there, as JSON.")
@json_option(help="Write one JSON object: the rule.")
async def rule(
    q: Kue,
    type: str | None,
    every: bool,
    dead_letter: str | None,
    webhook: str | None,
    as_json: bool,
) -> None:
    """
    Set what is done about jobs of TYPE, or --all, that fail from now on.

    Give none to remove one: --dead-letter none.  What a program declares is replaced
    until the declaration changes.

    \b
      kue failed rule email --dead-letter dead
      kue failed rule --all --webhook https://ops.example/failures
    """
    if (type is None) is not every:
        raise click.UsageError("give a type, or --all")
    if dead_letter is None and webhook is None:
        raise click.UsageError("give --dead-letter, --webhook or both")
    if type is not None:
        await warn_of_new_type(q, type)
    with as_usage_error():
        if dead_letter is not None:
            await q.set_dead_letter(type, None if dead_letter == NONE else dead_letter)
        if webhook is not None:
            await q.set_failure_webhook(type, None if webhook == NONE else webhook)
    row = _RuleRow(type, (await q.failure_rules()).get(type, FailureRule()))
    words = [
        f"dead letter {row.rule.dead_letter or NONE}",
        f"webhook {_webhook(row.rule) or NONE}",
    ]
    show_one(_item(row), type or EVERY, *words, as_json=as_json)


@changes
@click.argument("dead_letter", type=TYPE)
@click.option(
    "--type", type=TYPE, help="Only dead letters of jobs of this type or task."
)
@click.option("--limit", type=POSITIVE, help="No more than this many, the oldest.")
@json_option(help="Write one JSON object: replayed.")
async def replay(
    q: Kue, dead_letter: str, type: str | None, limit: int | None, as_json: bool
) -> int:
    """
    Put dead letters of the type DEAD_LETTER back to where they came from.

    A job that failed is retried if it is still there, else it is added again as it
    was; its dead letter is removed.  Exits with 1 when there was none.

    \b
      kue failed replay dead
      kue failed replay dead --type email --limit 10
    """
    await check_type(q, dead_letter)
    replayed = await q.replay(dead_letter, type=type, limit=limit)
    if as_json:
        show_json({"replayed": replayed})
    print_message(f"replayed {jobs(replayed, 'dead letter')}")
    return DONE if replayed else REFUSED
