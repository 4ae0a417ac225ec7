"""Connections: the stores that this program knows by name, and which of them answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.client.connection_check import check_connections, defined_names
from kue.http.auth.roles import Scope
from kue.http.framework.operations import RequestContext, Section
from kue.model.errors import ConfigError
from kue.store import Engine

if TYPE_CHECKING:
    from kue.client.connection_check import ConnectionState

section = Section(
    "connections", "Connections by name: where they lead, and which of them answer."
)


class MemberView(msgspec.Struct, frozen=True):
    """A member of a fail-over."""

    name: str
    #: Whether it can be reached now.
    answers: bool
    #: Why it cannot; null if it can.
    problem: str | None


class ConnectionView(msgspec.Struct, frozen=True, kw_only=True):
    """A connection; passwords are masked."""

    #: null for the queue of this server, if it has no name.
    name: str | None
    #: Empty if its definition cannot be read.
    url: str
    prefix: str
    #: What keeps its jobs; null for a fail-over, and if it is not known.
    engine: Engine | None
    #: Whether it can be reached now; a fail-over can if one of its members can.
    answers: bool
    #: Why it cannot; null if it can.
    problem: str | None
    #: Of a fail-over, in the order in which they are tried; otherwise empty.
    members: list[MemberView]
    #: The member that jobs which this process adds go to; null if it has not connected.
    current: str | None
    #: Since when they do, Unix ms; null if they have not gone to another one before.
    since: int | None
    #: Whether it is that of the queue of this server.
    is_own: bool


class ConnectionList(msgspec.Struct, frozen=True):
    """Connections, that of this server first, then in the order of their definition."""

    connections: list[ConnectionView]
    #: Why others cannot be listed; null if all are.
    problem: str | None


@section.get("/connections", scope=Scope.ADMIN)
async def list_connections(context: RequestContext) -> ConnectionList:
    """
    The connections that this server knows by name, and whether each answers now.

    They are those of `kue.configure` and KUE_CONNECTIONS.  All are asked at once, and
    none for longer than 3 seconds.
    """
    problem = None
    try:
        names = defined_names(context.q)
    except ConfigError as exc:
        names, problem = [context.q.connection_name], context.redaction.text(str(exc))
    states = await check_connections(names, context.q)
    return ConnectionList([_view(context, one) for one in states], problem)


def _view(context: RequestContext, one: ConnectionState) -> ConnectionView:
    return ConnectionView(
        name=one.name,
        url=one.url,
        prefix=one.prefix,
        engine=one.engine,
        answers=not one.problem,
        problem=_shown(context, one.problem),
        members=[
            MemberView(member.name, not member.problem, _shown(context, member.problem))
            for member in one.members
        ],
        current=one.current,
        since=one.since,
        is_own=one.is_own,
    )


def _shown(context: RequestContext, problem: str) -> str | None:
    return context.redaction.text(problem) or None
