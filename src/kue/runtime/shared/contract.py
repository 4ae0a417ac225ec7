"""
Shared data: the contract of maps, locks and counters.

`LocalShared` keeps it in this runtime.  Every other implementation, for many processes
to share, passes the same tests (tests/runtime/test_shared.py).  To make that possible,
names and keys are text and values are JSON, and every caller gets copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from kue.model.duration import Duration
    from kue.model.payload import JSON


class AsyncMap(Protocol):
    """
    A map from text to JSON.

    None is neither a key nor a value: it means that there is no entry.  In comparisons,
    1, 1.0 and true differ, and the order of an object's keys does not count.  An entry
    with a ttl expires; one without stays, even if it replaced one with a ttl.
    """

    async def get(self, key: str) -> JSON: ...

    async def put(
        self, key: str, value: JSON, *, ttl: Duration | None = None
    ) -> None: ...

    async def put_if_absent(
        self, key: str, value: JSON, *, ttl: Duration | None = None
    ) -> JSON:
        """Put *value* if there is none; return the one there, None if it was put."""

    async def remove(self, key: str) -> JSON:
        """Remove and return the value."""

    async def remove_if_present(self, key: str, value: JSON) -> bool:
        """Remove the value if it equals *value*; return whether it did."""

    async def replace(
        self, key: str, value: JSON, *, ttl: Duration | None = None
    ) -> JSON:
        """Replace the current value, if there is one, and return that; else None."""

    async def replace_if_present(
        self, key: str, old: JSON, new: JSON, *, ttl: Duration | None = None
    ) -> bool:
        """Replace *old* by *new*, if it is the value; return whether it was."""

    async def clear(self) -> None: ...

    async def size(self) -> int: ...

    async def keys(self) -> list[str]: ...

    async def values(self) -> list[JSON]: ...

    async def entries(self) -> dict[str, JSON]: ...


class Lock(Protocol):
    """A lock that is held; leaving ``async with`` releases it."""

    @property
    def is_held(self) -> bool:
        """
        Whether this process still holds it: not after its release, nor after its loss.

        A lock in Redis can be lost if this process was frozen or disconnected for
        longer than its lease; others may hold it then.
        """

    @property
    def fence(self) -> int:
        """
        The fencing token: a number that grows with each holder of the lock.

        The guarded resource can use it to reject a holder that has lost the lock.
        """

    async def release(self) -> None:
        """Hand it to the longest waiter; only the first call counts."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...


class Counter(Protocol):
    """A 64-bit integer that starts at 0."""

    async def get(self) -> int: ...

    async def increment_and_get(self) -> int:
        return await self.add_and_get(1)

    async def get_and_increment(self) -> int:
        return await self.get_and_add(1)

    async def decrement_and_get(self) -> int:
        return await self.add_and_get(-1)

    async def add_and_get(self, number: int) -> int:
        """
        Add *number* and return the sum.

        Raises:
            OverflowError: The sum has more than 64 bits; nothing was added.
        """

    async def get_and_add(self, number: int) -> int:
        """Add *number* and return the previous value."""

    async def compare_and_set(self, expected: int, number: int) -> bool:
        """Set it to *number* if it is *expected*; return whether it was."""


class Shared(Protocol):
    """
    Maps, locks and counters; the same name always gives the same one.

    A runtime opens it before its bus and closes it after.
    """

    async def open(self) -> object: ...

    async def close(self) -> None: ...

    async def map(self, name: str) -> AsyncMap: ...

    async def lock(self, name: str, *, timeout: Duration) -> Lock:
        """
        Wait for the lock, first come first served.

        Raises:
            LockTimedOut: It was not free in time.
        """

    async def counter(self, name: str) -> Counter: ...
