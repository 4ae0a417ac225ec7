"""Path prefix of an application, whether or not it is still in the path."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from kue.model.errors import ConfigError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

#: Segments of plain characters, which never need escaping.
_PREFIX = re.compile(r"(?:/(?!\.)[A-Za-z0-9._~-]+)+", re.ASCII)
MAX_PREFIX = 200


class PathPrefix:
    """
    Serves *app* below *prefix*.

    Works behind hosts and proxies that strip the prefix without setting ``root_path``,
    and behind those that leave it in the path.
    """

    def __init__(self, prefix: str, app: ASGIApp) -> None:
        self._prefix = checked(prefix)
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(below(scope, self._prefix), receive, send)


def checked(prefix: str) -> str:
    """Return *prefix* as it precedes a path: ``/jobs``, or nothing."""
    stripped = prefix.strip().strip("/")
    if not stripped:
        return ""
    if not is_plain(f"/{stripped}"):
        raise ConfigError(
            f"the prefix {prefix!r} is not a plain path; write one such as /jobs"
        )
    return f"/{stripped}"


def is_plain(prefix: str) -> bool:
    """Return whether *prefix* is a path of plain segments, such as ``/ops/jobs``."""
    return len(prefix) <= MAX_PREFIX and _PREFIX.fullmatch(prefix) is not None


def below(scope: Scope, prefix: str) -> Scope:
    """Return *scope* for an application that is mounted at *prefix*."""
    if not prefix or scope["type"] not in ("http", "websocket"):
        return scope
    root = scope.get("root_path", "")
    whole, path = root + prefix, scope["path"]
    # Some routers pass on a path that they have changed beyond recognition.
    for kept in (path, unquote(scope.get("raw_path", b"").decode("latin-1"))):
        if _begins(kept, whole):
            return {**scope, "root_path": whole, "path": kept}
    return {**scope, "root_path": whole, "path": whole + path.removeprefix(root)}


def _begins(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")
