"""
Whether connections answer: all are asked at once, and each has a bounded time.

`kue connections` and the REST API show what is found here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kue.client.connections import connected
from kue.client.failover_connection import FailoverConnection
from kue.model.connections import DEFAULT, FAILOVER, connections, members_of
from kue.model.credential_masking import mask_credentials
from kue.model.errors import KueError
from kue.store import Engine, engine_of, refuse_missing_file, scheme_of, store_for

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator

    from kue.client.queue import Kue
    from kue.model.settings import Settings

#: How long each may take to answer, and for how long a refused call is repeated.
TIMEOUT_SECONDS = 3.0
BUDGET_MS = 1_000

#: Those that did not answer in time, and have not ended yet.
_late: set[asyncio.Task[object]] = set()


class MemberState(msgspec.Struct, frozen=True):
    """A member of a fail-over."""

    name: str
    #: Why it does not answer; empty if it does.
    problem: str


class ConnectionState(msgspec.Struct, frozen=True, kw_only=True):
    """A connection, and whether it answers.  No text has credentials."""

    #: None for a queue that was not connected by name.
    name: str | None
    url: str = ""
    prefix: str = ""
    #: None for a fail-over, a store of another kind, and what is not defined well.
    engine: Engine | None = None
    #: Why it does not answer; empty if it does.
    problem: str = ""
    #: Of a fail-over, in the order in which they are tried.
    members: tuple[MemberState, ...] = ()
    #: The member that adds of this process go to; None if it has not connected.
    current: str | None = None
    #: Since when they do, Unix ms; None if they always did.
    since: int | None = None
    #: Whether it is that of the queue that asks.
    is_own: bool = False


async def check_connections(
    names: Iterable[str | None], own: Kue | None = None
) -> list[ConnectionState]:
    """Return the states of connections in this order; None stands for *own*."""
    check = _Check(own)
    wanted = list(names)
    await check.ask(wanted)
    return [check.state(name) for name in wanted]


def defined_names(own: Kue) -> list[str | None]:
    """
    Return the name of *own*, or None if it has none, and those of all defined.

    Raises:
        ConfigError: ``KUE_CONNECTIONS`` cannot be read.
    """
    name = name_of(own)
    return [name, *(one for one in connections.definitions() if one != name)]


def name_of(q: Kue) -> str | None:
    """Return by which name *q* is connected, or could be."""
    if q.connection_name is not None or not q.is_shared:
        return q.connection_name
    try:
        # The default one comes last: its store may have a better name.
        names = [*connections.definitions(), DEFAULT]
    except KueError:
        return None
    return next((name for name in names if _is_of(q.settings, name)), None)


def _is_of(settings: Settings, name: str) -> bool:
    try:
        defined = connections.settings(name)
    except KueError:
        return False
    # A fail-over has the other settings of its first member.
    return defined.url == settings.url and (
        defined.prefix == settings.prefix or scheme_of(settings.url) == FAILOVER
    )


class _Check:
    """One round: definitions are read once, and each store is asked once."""

    def __init__(self, own: Kue | None) -> None:
        self._own = own
        self._own_name = None if own is None else name_of(own)
        self._known: dict[str | None, Settings | KueError] = {}
        self._problems: dict[str | None, str] = {}

    async def ask(self, names: Iterable[str | None]) -> None:
        """Find the definitions of *names* and of their members, and ask each store."""
        left = list(names)
        while left:
            name = left.pop()
            if name not in self._known:
                self._known[name] = found = self._definition(name)
                left += _members(found)
        stores = [name for name in self._known if not _is_failover(self._known[name])]
        problems = await asyncio.gather(*map(self._ask, stores))
        self._problems.update(zip(stores, problems, strict=True))

    def _is_own(self, name: str | None) -> bool:
        return self._own is not None and name == self._own_name

    def _definition(self, name: str | None) -> Settings | KueError:
        if self._own is not None and self._is_own(name):
            return self._own.settings
        try:
            found = connections.settings(name or DEFAULT)
            if scheme_of(found.url) == FAILOVER:
                for member in members_of(found.url):
                    connections.settings(member)
        except KueError as exc:
            return exc
        return found

    async def _ask(self, name: str | None) -> str:
        found = self._known[name]
        if isinstance(found, KueError):
            return mask_credentials(str(found))
        if self._own is not None and self._is_own(name):
            # Its store may be one that no settings describe.
            return await _problem(self._own.store.now())
        return await _problem(_open(found))

    def state(self, name: str | None) -> ConnectionState:
        """Return what was found."""
        found = self._known[name]
        problem = self._problem_of(name)
        if isinstance(found, KueError):
            return ConnectionState(name=name, problem=problem)
        url = found.url
        if self._own is not None and self._is_own(name) and self._own.is_private:
            # A store that was given is not that of the settings.
            url = self._own.store.name
        state = ConnectionState(
            name=name,
            url=mask_credentials(url),
            prefix=found.prefix,
            engine=engine_of(url),
            problem=problem,
            is_own=self._is_own(name),
        )
        members = _members(found)
        if not members:
            return state
        used = self._connection(name)
        return replace(
            state,
            members=tuple(MemberState(one, self._problem_of(one)) for one in members),
            current=None if used is None else used.current,
            since=None if used is None else used.switched_at,
        )

    def _problem_of(self, name: str | None) -> str:
        members = _members(self._known[name])
        if not members:
            return self._problems[name]
        if self._is_circular(name):
            return "its connections fail over in a circle"
        if all(map(self._problem_of, members)):
            return "none of its connections answers"
        return ""

    def _is_circular(
        self, name: str | None, outer: tuple[str | None, ...] = ()
    ) -> bool:
        if name in outer:
            return True
        members = _members(self._known[name])
        return any(self._is_circular(one, (*outer, name)) for one in members)

    def _connection(self, name: str | None) -> FailoverConnection | None:
        """Return the connection that adds of this process go by, if there is one."""
        q = self._own if self._is_own(name) else connected(name or DEFAULT)
        found = [] if q is None else list(_failovers(q))
        return max(found, key=lambda one: one.switched_at or 0, default=None)


def _failovers(q: Kue) -> Iterator[FailoverConnection]:
    """Yield the connections of *q*: that of event loops, and that of `q.sync`."""
    sync = q._sync._sync_connection
    for one in (q._home, sync and sync.queue._home):
        if isinstance(one, FailoverConnection):
            yield one


def _is_failover(found: Settings | KueError) -> bool:
    return not isinstance(found, KueError) and scheme_of(found.url) == FAILOVER


def _members(found: Settings | KueError) -> list[str]:
    if isinstance(found, KueError) or not _is_failover(found):
        return []
    return members_of(found.url)


async def _open(settings: Settings) -> None:
    refuse_missing_file(settings.url)
    # The reason of an outage is reported sooner than the time is up.
    budget = min(settings.budget, BUDGET_MS)
    store = store_for(replace(settings, budget=budget))
    try:
        await store.open()
    finally:
        await store.close()


async def _problem(work: Coroutine[object, object, object]) -> str:
    """Return why *work* fails, or does not end in time; empty if it succeeds."""
    task: asyncio.Task[object] = asyncio.ensure_future(work)
    try:
        # Unlike a timeout, this does not wait for what is slow to be cancelled.
        done, _ = await asyncio.wait({task}, timeout=TIMEOUT_SECONDS)
    finally:
        if not task.done():
            task.cancel()
            _late.add(task)
            task.add_done_callback(_forget)
    if not done:
        return f"it did not answer within {TIMEOUT_SECONDS:g} seconds"
    try:
        task.result()
    except (KueError, OSError) as exc:
        return mask_credentials(str(exc)) or type(exc).__name__
    return ""


def _forget(task: asyncio.Task[object]) -> None:
    _late.discard(task)
    if not task.cancelled():
        task.exception()
