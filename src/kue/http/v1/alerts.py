"""
Alerts: thresholds of queues, alerts in force, silenced names and monitored tags.

The URL of a webhook may be a secret: responses have only its scheme and host.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from kue.client.tag_counts import count_tags
from kue.http.auth.access import check_scope
from kue.http.auth.roles import Scope
from kue.http.framework.operations import Input, RequestContext, Section
from kue.http.framework.problem import bad_request, input_errors, not_found
from kue.http.v1.queues import DurationText, Most
from kue.model.alert_options import MAX_URL, rule_of, shown_url
from kue.model.alerts import LEAST_JOBS, AlertKind, AlertRule
from kue.model.names import Name, check_path_name
from kue.model.view_struct import View

if TYPE_CHECKING:
    from kue.client.queue import Kue

section = Section(
    "alerts", "Thresholds of queues, alerts in force, silenced names, monitored tags."
)

Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
Url = Annotated[str, msgspec.Meta(max_length=MAX_URL)]


class Thresholds(View, frozen=True, kw_only=True):
    """When alerts are raised; times in ms, null where nothing is checked."""

    oldest: int | None
    backlog: int | None
    #: A share of the jobs that ended *within*, once at least *least* ended.
    failures: float | None
    within: int
    least: int
    no_worker: int | None
    #: After which time an alert is reported again; 0: never.
    remind: int
    #: Scheme and host of the webhook; null if there is none.
    webhook: str | None


class TypeThresholds(Thresholds, frozen=True, kw_only=True):
    """Thresholds of one type."""

    type: str


class AlertView(View, frozen=True, kw_only=True):
    """An alert in force."""

    type: str
    kind: AlertKind
    value: float
    threshold: float
    #: When it was raised, and reported last, Unix ms.
    since: int
    reported_at: int
    message: str


class SilencedView(View, frozen=True, kw_only=True):
    """Types and tags whose jobs cause no warnings and alerts."""

    types: list[str]
    tags: list[str]


class AlertsView(msgspec.Struct, frozen=True):
    """Everything about alerts."""

    #: The alerts in force, as they were last checked.
    alerts: list[AlertView]
    #: For types without their own.
    default: Thresholds | None
    types: list[TypeThresholds]
    silenced: SilencedView


class TagView(View, frozen=True, kw_only=True):
    """A monitored tag, and how many of the newest 10,000 jobs have it."""

    tag: str
    jobs: int
    failed: int


class ThresholdsOrder(Input, frozen=True):
    """
    Thresholds to set; omitted ones are not checked.  Durations are text, such as "5m".

    An omitted webhook stays as it is, null removes it; to change it needs the scope
    admin.
    """

    oldest: DurationText | None = None
    backlog: Most | None = None
    failures: Share | None = None
    within: DurationText = "5m"
    least: Most = LEAST_JOBS
    no_worker: DurationText | None = None
    remind: DurationText = "1h"
    webhook: Url | msgspec.UnsetType | None = msgspec.UNSET


# -- reading -------------------------------------------------------------------


@section.get("/alerts")
async def list_alerts(context: RequestContext) -> AlertsView:
    """Alerts in force, thresholds by type, and what is silenced."""
    rules = await context.q.alert_rules()
    default = rules.pop(None, None)
    return AlertsView(
        alerts=[AlertView.of(one) for one in await context.q.alerts()],
        default=None if default is None else thresholds_view(default),
        types=[
            TypeThresholds.of(thresholds_view(rule), type=type)
            for type, rule in rules.items()
        ],
        silenced=SilencedView.of(await context.q.silenced()),
    )


@section.get("/tags")
async def list_tags(context: RequestContext) -> list[TagView]:
    """The monitored tags, with the number of their jobs among the newest 10,000."""
    tags = await context.q.monitored_tags()
    return [TagView.of(one) for one in await count_tags(context.q.store, tags)]


# -- thresholds ----------------------------------------------------------------


@section.put("/alerts/default")
async def set_default(context: RequestContext, body: ThresholdsOrder) -> Thresholds:
    """Set the thresholds of all types without their own; replaces earlier ones."""
    return await _set(context, None, body)


@section.delete("/alerts/default", status=HTTPStatus.NO_CONTENT)
async def clear_default(context: RequestContext) -> None:
    """Remove the thresholds of types without their own."""
    if not await context.q.clear_alert():
        raise not_found("there are no default thresholds")


@section.put("/queues/{type:path}/alert")
async def set_thresholds(
    context: RequestContext, type: Name, body: ThresholdsOrder
) -> Thresholds:
    """
    Set the thresholds of a type, instead of the default; replaces earlier ones.

    May come before the first job.  Without any threshold the type has no alerts.  What
    a program declares is replaced until the declaration changes.
    """
    with input_errors("path.type"):
        check_path_name(type, what="type")
    return await _set(context, type, body)


@section.delete("/queues/{type:path}/alert", status=HTTPStatus.NO_CONTENT)
async def clear_thresholds(context: RequestContext, type: Name) -> None:
    """Remove the thresholds of a type: the default applies to it then."""
    if not await context.q.clear_alert(type):
        raise not_found(f"queue {type!r} has no thresholds of its own")


# -- silenced and monitored ----------------------------------------------------


@section.put("/silenced/types/{type:path}")
async def silence_type(context: RequestContext, type: Name) -> SilencedView:
    """Let jobs of a type cause no warnings and alerts; searches still find them."""
    with input_errors("path.type"):
        return SilencedView.of(await context.q.silence(type))


@section.delete("/silenced/types/{type:path}", status=HTTPStatus.NO_CONTENT)
async def unsilence_type(context: RequestContext, type: Name) -> None:
    """Let jobs of a type cause warnings and alerts again."""
    with input_errors("path.type"):
        if not await context.q.unsilence(type):
            raise not_found(f"type {type!r} is not silenced")


@section.put("/silenced/tags/{tag:path}")
async def silence_tag(context: RequestContext, tag: Name) -> SilencedView:
    """Let jobs with a tag cause no warnings; searches still find them."""
    with input_errors("path.tag"):
        return SilencedView.of(await context.q.silence(tag=tag))


@section.delete("/silenced/tags/{tag:path}", status=HTTPStatus.NO_CONTENT)
async def unsilence_tag(context: RequestContext, tag: Name) -> None:
    """Let jobs with a tag cause warnings again."""
    with input_errors("path.tag"):
        if not await context.q.unsilence(tag=tag):
            raise not_found(f"tag {tag!r} is not silenced")


@section.put("/tags/{tag:path}", status=HTTPStatus.NO_CONTENT)
async def monitor_tag(context: RequestContext, tag: Name) -> None:
    """Count the jobs with a tag on the dashboard."""
    with input_errors("path.tag"):
        await context.q.monitor_tag(tag)


@section.delete("/tags/{tag:path}", status=HTTPStatus.NO_CONTENT)
async def unmonitor_tag(context: RequestContext, tag: Name) -> None:
    """Do not count the jobs with a tag any more."""
    if not await context.q.unmonitor_tag(tag):
        raise not_found(f"tag {tag!r} is not monitored")


# -- shared parts --------------------------------------------------------------


def thresholds_view(rule: AlertRule) -> Thresholds:
    """Return thresholds as they are shown, without the path of the webhook."""
    return Thresholds.of(rule, webhook=rule.webhook and shown_url(rule.webhook))


async def _set(
    context: RequestContext, type: str | None, body: ThresholdsOrder
) -> Thresholds:
    options = msgspec.structs.asdict(body)
    options["webhook"] = await _webhook(context, type, body)
    _check(options)
    with input_errors("body"):
        return thresholds_view(await context.q.set_alert(type, **options))


async def _webhook(
    context: RequestContext, type: str | None, body: ThresholdsOrder
) -> str | None:
    """Return where reports go: as it was unless another one is given."""
    known = await _stored_webhook(context.q, type)
    shown = None if known is None else shown_url(known)
    if body.webhook is msgspec.UNSET or body.webhook in (known, shown):
        return known
    # Workers send requests there, from inside their network.
    check_scope(context.user, Scope.ADMIN)
    return body.webhook


async def _stored_webhook(q: Kue, type: str | None) -> str | None:
    rule = (await q.alert_rules()).get(type)
    return None if rule is None else rule.webhook


def _check(options: dict[str, Any]) -> None:
    """Raise a 400 about the first option that makes no sense."""
    for name, value in options.items():
        try:
            rule_of(**{name: value})
        except (ValueError, TypeError) as exc:
            raise bad_request(str(exc), f"body.{name}") from exc
