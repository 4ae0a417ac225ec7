"""
What shared data can do, wherever it is kept.

`LocalShared` keeps it in this runtime.  Whatever else keeps it, for many processes to
share, does what the tests in tests/runtime/test_shared.py ask of both.  So that it
can, names and keys are text and values are JSON, and everybody gets copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from types import TracebackType

    from kue.model.duration import Duration
    from kue.model.payload import JSON


class AsyncMap(Protocol):
    """
    A map from text to JSON.

    None is neither a key nor a value: it says that there is nothing.  Where a value is
    compared, 1, 1.0 and true differ, and the order of an object's keys does not count.
    With a ttl an entry ends by itself; without, it stays, even if one with a ttl was
    there before.
    """

    async def get(self, key: str) -> JSON: ...

    async def put(
        self, key: str, value: JSON, *, ttl: Duration | None = None
    ) -> None: ...

    async def put_if_absent(
        self, key: str, value: JSON, *, ttl: Duration | None = None
    ) -> JSON:
        """Put *value* where nothing is; return what is there, None if it was put."""

    async def remove(self, key: str) -> JSON:
        """Remove and return what is there."""

    async def remove_if_present(self, key: str, value: JSON) -> bool:
        """Remove what is there if it equals *value*; tell whether it did."""

    async def replace(
        self, key: str, value: JSON, *, ttl: Duration | None = None
    ) -> JSON:
        """Put *value* in the place of what is there, and return that; else None."""

    async def replace_if_present(
        self, key: str, old: JSON, new: JSON, *, ttl: Duration | None = None
    ) -> bool:
        """Put *new* in the place of *old*, if that is there; tell whether it was."""

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
        Whether it is still ours: not after its release, nor after its loss.

        Kept elsewhere, it can be lost, if this process was frozen or cut off for longer
        than its lease; others may hold it then.
        """

    @property
    def fence(self) -> int:
        """
        A number that grows with each who holds the lock.

        What the lock guards can so refuse whoever lost it, and does not know yet.
        """

    async def release(self) -> None:
        """Hand it to whoever has waited longest; only the first call counts."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Counter(Protocol):
    """A whole number of 64 bits that begins at 0."""

    async def get(self) -> int: ...

    async def increment_and_get(self) -> int: ...

    async def get_and_increment(self) -> int: ...

    async def decrement_and_get(self) -> int: ...

    async def add_and_get(self, number: int) -> int:
        """
        Add *number* and return the sum.

        Raises:
            OverflowError: The sum has more than 64 bits; nothing was added.
        """

    async def get_and_add(self, number: int) -> int:
        """Add *number* and return what was there before."""

    async def compare_and_set(self, expected: int, number: int) -> bool:
        """Make it *number* if it is *expected*; tell whether it was."""


class Shared(Protocol):
    """
    Keeps maps, locks and counters; the same name always gives the same one.

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
