"""Callbacks of users, which may be plain or async functions."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Awaitable

T = TypeVar("T")


def is_async(function: Any) -> bool:
    """Return whether calling *function* returns an awaitable."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object may have one
    )


async def awaited(answer: Awaitable[T] | T) -> T:
    """Return what a plain function returned, or an async one will."""
    return cast("T", await answer if inspect.isawaitable(answer) else answer)
