"""A shared map in this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from kue.runtime.shared.values import check_key, check_ttl, freeze, thaw

if TYPE_CHECKING:
    from kue.model.duration import Duration
    from kue.model.payload import JSON


class Cancellable(Protocol):
    def cancel(self) -> None: ...


#: Calls a function in so many seconds.
CallLater = Callable[[float, Callable[[], None]], Cancellable]


@dataclass(eq=False, slots=True)
class _Entry:
    text: bytes
    #: By the monotonic clock.
    until: float | None = None
    timer: Cancellable | None = None

    @property
    def is_expired(self) -> bool:
        return self.until is not None and time.monotonic() >= self.until


class LocalAsyncMap:
    """An `AsyncMap` for all threads of one runtime."""

    def __init__(self, call_later: CallLater) -> None:
        self._call_later = call_later
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.Lock()

    async def get(self, key: str) -> JSON:
        with self._lock:
            text = self._text(check_key(key))
        return thaw(text)

    async def put(self, key: str, value: JSON, *, ttl: Duration | None = None) -> None:
        entry = _entry(value, ttl)
        with self._lock:
            self._set(check_key(key), entry)

    async def put_if_absent(
        self, key: str, value: JSON, *, ttl: Duration | None = None
    ) -> JSON:
        entry = _entry(value, ttl)
        with self._lock:
            current = self._text(check_key(key))
            if current is None:
                self._set(key, entry)
        return thaw(current)

    async def remove(self, key: str) -> JSON:
        with self._lock:
            current = self._text(check_key(key))
            self._drop(key)
        return thaw(current)

    async def remove_if_present(self, key: str, value: JSON) -> bool:
        text = freeze(value)
        with self._lock:
            is_equal = self._text(check_key(key)) == text
            if is_equal:
                self._drop(key)
        return is_equal

    async def replace(
        self, key: str, value: JSON, *, ttl: Duration | None = None
    ) -> JSON:
        entry = _entry(value, ttl)
        with self._lock:
            current = self._text(check_key(key))
            if current is not None:
                self._set(key, entry)
        return thaw(current)

    async def replace_if_present(
        self, key: str, old: JSON, new: JSON, *, ttl: Duration | None = None
    ) -> bool:
        text, entry = freeze(old), _entry(new, ttl)
        with self._lock:
            is_equal = self._text(check_key(key)) == text
            if is_equal:
                self._set(key, entry)
        return is_equal

    async def clear(self) -> None:
        with self._lock:
            for key in tuple(self._entries):
                self._drop(key)

    async def size(self) -> int:
        return len(self._texts())

    async def keys(self) -> list[str]:
        return list(self._texts())

    async def values(self) -> list[JSON]:
        return list((await self.entries()).values())

    async def entries(self) -> dict[str, JSON]:
        return {key: thaw(text) for key, text in self._texts().items()}

    def _texts(self) -> dict[str, bytes]:
        with self._lock:
            entries = self._entries.items()
            return {key: entry.text for key, entry in entries if not entry.is_expired}

    # -- under the lock --------------------------------------------------------

    def _text(self, key: str) -> bytes | None:
        entry = self._entries.get(key)
        # Its timer may be late.
        return None if entry is None or entry.is_expired else entry.text

    def _set(self, key: str, entry: _Entry) -> None:
        if entry.until is not None:
            seconds = entry.until - time.monotonic()
            entry.timer = self._call_later(seconds, partial(self._expire, key, entry))
        self._drop(key)
        self._entries[key] = entry

    def _drop(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None and entry.timer is not None:
            entry.timer.cancel()

    # -- by the timer ----------------------------------------------------------

    def _expire(self, key: str, entry: _Entry) -> None:
        with self._lock:
            if self._entries.get(key) is entry:
                del self._entries[key]


def _entry(value: JSON, ttl: Duration | None) -> _Entry:
    text, ms = freeze(value), check_ttl(ttl)
    return _Entry(text, until=time.monotonic() + ms / 1000 if ms else None)
