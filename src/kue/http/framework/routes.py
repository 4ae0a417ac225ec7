"""Which operation a path means, and what else may be asked of it."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send


class OperationRoute(Route):
    """
    The way to one method of one path, among the *others* of the API.

    A path that one of them spells out is a name to none: ``/jobs/batch`` is no job.
    Whoever uses a wrong method is told all that are right.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[[Request], Awaitable[Response]],
        *,
        method: str,
        name: str,
        others: Sequence[Route],
    ) -> None:
        super().__init__(path, endpoint, methods=[method], name=name)
        self._others = others

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child = super().matches(scope)
        if match is not Match.NONE and self.param_convertors:
            is_meant = any(one is self for one in self._meant(scope))
            return (match, child) if is_meant else (Match.NONE, {})
        return match, child

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.methods is not None and scope["method"] not in self.methods:
            right = set().union(*(one.methods or () for one in self._meant(scope)))
            raise HTTPException(
                HTTPStatus.METHOD_NOT_ALLOWED,
                headers={"Allow": ", ".join(sorted(right))},
            )
        await super().handle(scope, receive, send)

    def _meant(self, scope: Scope) -> list[Route]:
        """Return the routes whose path it is, whatever the method."""
        found = [
            one
            for one in self._others
            if Route.matches(one, scope)[0] is not Match.NONE
        ]
        return [one for one in found if not one.param_convertors] or found
