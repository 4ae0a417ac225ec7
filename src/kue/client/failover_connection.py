"""
Fail-over connection: adds go to the first of several stores that accepts them.

A store that cannot be reached is passed over until it answers again.  Only an add that
certainly did not arrive is sent to the next store: if it is not known whether it did
(the reply was lost), `StoreUnavailable` is raised, as without a fail-over.

The jobs of a flow or a batch refer to each other: they go as a whole to the first store
that answers when the add begins.  A single job that waits for others names them by
their ids, which are those of the first store: it goes there or nowhere.

Everything else, reads and subscriptions, is for the first store; a handle knows the
store that its job was added to.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec.structs import replace

from kue.client.connection import Connection
from kue.client.connections import connect
from kue.model.clock import SystemClock
from kue.model.connections import members_of
from kue.model.errors import StoreError, StoreUnavailable
from kue.store.values import Added

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from kue.client.hooks import Hooks
    from kue.model.job import Draft

T = TypeVar("T")

logger = logging.getLogger(__name__)

#: How often a store that was down is asked whether it is back.
PROBE_SECONDS = 1.0


class FailedOver(NamedTuple):
    """From which connection to which adds go now, and why."""

    before: str
    now: str
    #: Empty when an earlier connection is back.
    reason: str


class Member:
    """One of the connections, and whether it can be reached, as far as is known."""

    def __init__(self, name: str, connection: Connection) -> None:
        self.name = name
        self.connection = connection
        self.is_up = True


class FailoverConnection(Connection):
    """Adds to the first of its members that is up."""

    def __init__(self, url: str, members: Sequence[Member], hooks: Hooks) -> None:
        first = members[0].connection
        super().__init__(first.store, replace(first.settings, url=url))
        self._url = url
        self._hooks = hooks
        self.members = list(members)
        #: The member that adds go to, and since when (Unix ms) if that was another one.
        self.current = members[0].name
        self.switched_at: int | None = None

    @classmethod
    def of(cls, url: str, hooks: Hooks) -> FailoverConnection:
        """Return the one that *url* describes; raises `ConfigError`."""
        names = members_of(url)
        return cls(url, [Member(name, connect(name)._home) for name in names], hooks)

    def twin(self) -> FailoverConnection:
        members = [Member(one.name, one.connection.twin()) for one in self.members]
        return FailoverConnection(self._url, members, self._hooks)

    def home_of(self, added: Added) -> Connection:
        return added.home if isinstance(added, _AddedAt) else self

    async def home_of_flow(self) -> Connection:
        home, _ = await self._deliver(_answering)
        return home

    def counterpart(self, other: Connection) -> Connection:
        homes = list(self._homes())
        if other in homes:
            return other
        place = _place(other)
        return next((one for one in homes if _place(one) == place), self)

    def _homes(self) -> Iterator[Connection]:
        """Yield the connection of each store that jobs may be added to."""
        for member in self.members:
            if isinstance(member.connection, FailoverConnection):
                yield from member.connection._homes()
            else:
                yield member.connection

    async def _add(self, draft: Draft, *, durable: bool) -> Added:
        added, home = await self._deliver(
            lambda connection: connection._add(draft, durable=durable),
            is_bound=bool(draft.spec.after),
        )
        return _AddedAt.of(added, home.home_of(added))

    async def add_batch(
        self, drafts: Sequence[Draft], *, durable: bool = False
    ) -> list[Added]:
        added, home = await self._deliver(
            lambda connection: connection.add_batch(drafts, durable=durable),
            is_bound=any(draft.spec.after for draft in drafts),
        )
        return [_AddedAt.of(one, home.home_of(one)) for one in added]

    async def close(self) -> None:
        await self.deferred.finish()
        await self.background.close()
        for member in self.members:
            await member.connection.close()

    async def _deliver(
        self, add: Callable[[Connection], Awaitable[T]], *, is_bound: bool = False
    ) -> tuple[T, Connection]:
        """*is_bound*: they wait for jobs by their ids, which are of the first store."""
        # Those that are down come last: if none is up, each is tried.
        order = sorted(self.members, key=lambda member: not member.is_up)
        if is_bound:
            order = self.members[:1]
        for number, member in enumerate(order, start=1):
            try:
                added = await add(member.connection)
            except StoreUnavailable as exc:
                self._note_down(member, exc)
                if exc.is_unknown or number == len(order):
                    raise
            else:
                self._note_up(member)
                return added, member.connection
        raise AssertionError("a fail-over connection has members")

    def _note_down(self, member: Member, exc: StoreUnavailable) -> None:
        if member.is_up:
            member.is_up = False
            self.background.start(self._probe(member), f"kue failover {member.name}")
        self._announce(str(exc))

    def _note_up(self, member: Member) -> None:
        member.is_up = True
        self._announce("")

    async def _probe(self, member: Member) -> None:
        while not member.is_up:
            await asyncio.sleep(PROBE_SECONDS)
            try:
                await member.connection.store.now()
            except StoreError as exc:
                logger.debug("connection %s is still down: %s", member.name, exc)
            else:
                self._note_up(member)

    def _announce(self, reason: str) -> None:
        """Report that adds go to another store than before, if they do."""
        before = self.current
        now = next((one.name for one in self.members if one.is_up), before)
        if now == before:
            return
        self.current, self.switched_at = now, SystemClock().now_ms()
        if reason:
            logger.warning(
                "jobs are added to %s now, not to %s: %s", now, before, reason
            )
        else:
            logger.warning("jobs are added to %s again, no longer to %s", now, before)
        switch = FailedOver(before, now, reason)
        self._hooks.notify_failover(self.background, switch)


def _place(connection: Connection) -> tuple[str, str]:
    """Return what two connections to the same store have in common."""
    return connection.store.name, connection.settings.prefix


async def _answering(connection: Connection) -> Connection:
    """Return the home of a flow; raises `StoreUnavailable` if it does not answer."""
    home = await connection.home_of_flow()
    await home.store.now()
    return home


class _AddedAt(Added):
    """The result of an add, and the connection of the store that has the job."""

    home: Connection

    @classmethod
    def of(cls, added: Added, home: Connection) -> _AddedAt:
        made = cls(*added)
        made.home = home
        return made
