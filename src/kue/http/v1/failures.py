"""
Failed jobs: what is done about them, by type, and dead letters put back.

The URL of a webhook may be a secret: responses have only its scheme and host.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from kue.client.new_job import JobId
from kue.http.auth.access import check_scope
from kue.http.auth.roles import Scope
from kue.http.framework.operations import Input, RequestContext, Section
from kue.http.framework.problem import input_errors
from kue.http.v1.alerts import Url
from kue.model.alert_options import shown_url
from kue.model.failure_rule import FailureRule, check_rule
from kue.model.names import Name
from kue.model.view_struct import View

section = Section("failures", "What is done about failed jobs; dead letters.")


class FailureRuleView(View, frozen=True, kw_only=True):
    """What is done about failed jobs of one type."""

    #: null: of any type.
    type: str | None
    #: Whether programs have failure hooks for it.
    hooks: bool
    #: The type that they are forwarded to; empty for none.
    dead_letter: str
    #: What a program declares as that.
    declared: str
    #: Scheme and host of the webhook; null if there is none.
    webhook: str | None


class FailureRuleOrder(Input, frozen=True):
    """
    What to change; what is omitted stays as it is, null removes it.

    To change the webhook needs the scope admin.
    """

    dead_letter: Name | msgspec.UnsetType | None = msgspec.UNSET
    webhook: Url | msgspec.UnsetType | None = msgspec.UNSET


class ReplayOrder(Input, frozen=True):
    """Which dead letters to put back."""

    #: The type of the dead letters.
    dead_letter: Name
    #: Only those of jobs of this type.
    type: Name | None = None
    #: Only these dead letters; null for all.
    ids: Annotated[list[JobId], msgspec.Meta(max_length=1000)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1000


class Replayed(msgspec.Struct, frozen=True):
    """How many dead letters were put back."""

    replayed: int


@section.get("/failures/rules")
async def list_failure_rules(context: RequestContext) -> list[FailureRuleView]:
    """What is done about failed jobs, by type: hooks, dead letters, webhooks."""
    rules = await context.q.failure_rules()
    ordered = sorted(rules.items(), key=lambda item: item[0] or "")
    return [_view(type, rule) for type, rule in ordered]


@section.put("/failures/default")
async def set_failure_default(
    context: RequestContext, body: FailureRuleOrder
) -> FailureRuleView:
    """Set what is done about failed jobs of types without their own rule."""
    return await _set(context, None, body)


@section.put("/queues/{type:path}/failures")
async def set_failure_rule(
    context: RequestContext, type: Name, body: FailureRuleOrder
) -> FailureRuleView:
    """
    Set what is done about jobs of a type that fail from now on.

    May come before the first job.  A dead letter type that a program declares is
    replaced until the declaration changes.
    """
    with input_errors("path.type"):
        check_rule(type, None)
    return await _set(context, type, body)


@section.post("/failures/replay")
async def replay_dead_letters(context: RequestContext, body: ReplayOrder) -> Replayed:
    """
    Put dead letters back to where they came from, the oldest first.

    The job that failed is retried if it is still there, else it is added again; the
    dead letter is removed.
    """
    replayed = await context.q.replay(
        body.dead_letter, type=body.type, ids=body.ids, limit=body.limit
    )
    return Replayed(replayed)


async def _set(
    context: RequestContext, type: str | None, body: FailureRuleOrder
) -> FailureRuleView:
    q = context.q
    known = (await q.failure_rules()).get(type, FailureRule())
    with input_errors("body.webhook"):
        if body.webhook is not msgspec.UNSET and not _is_same(body.webhook, known):
            # Workers send requests there, from inside their network.
            check_scope(context.user, Scope.ADMIN)
            await q.set_failure_webhook(type, body.webhook)
    with input_errors("body.dead_letter"):
        if body.dead_letter is not msgspec.UNSET:
            await q.set_dead_letter(type, body.dead_letter)
    return _view(type, (await q.failure_rules()).get(type, FailureRule()))


def _is_same(given: str | None, known: FailureRule) -> bool:
    """Return whether a webhook is the known one, as it is stored or shown."""
    if not known.webhook:
        return given is None
    return given in (known.webhook, shown_url(known.webhook))


def _view(type: str | None, rule: FailureRule) -> FailureRuleView:
    webhook = shown_url(rule.webhook) if rule.webhook else None
    return FailureRuleView.of(rule, type=type, webhook=webhook)
