"""Routes of operations: literal paths before parameters, and allowed methods."""

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
    Route to one method of one path, among the *others* of the API.

    A literal path is never taken for a parameter: ``/jobs/batch`` is not a job.  A
    wrong method is answered with all allowed ones.
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
            is_match = any(one is self for one in self._matching(scope))
            return (match, child) if is_match else (Match.NONE, {})
        return match, child

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.methods is not None and scope["method"] not in self.methods:
            allowed = set().union(*(one.methods or () for one in self._matching(scope)))
            raise HTTPException(
                HTTPStatus.METHOD_NOT_ALLOWED,
                headers={"Allow": ", ".join(sorted(allowed))},
            )
        await super().handle(scope, receive, send)

    def _matching(self, scope: Scope) -> list[Route]:
        """Return the routes that match the path, whatever the method."""
        found = [
            one
            for one in self._others
            if Route.matches(one, scope)[0] is not Match.NONE
        ]
        return [one for one in found if not one.param_convertors] or found
