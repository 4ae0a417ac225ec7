"""
Operations of the API, by section: typed functions become routes and documentation.

The annotations of a function define what it takes and returns: parameters named in the
path come from the path, ``query`` and ``body`` are msgspec structs.  The same types
validate requests, encode responses and generate the OpenAPI document.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, get_type_hints

import msgspec

from kue.http.auth.roles import Scope
from kue.http.framework.problem import bad_request

if TYPE_CHECKING:
    from starlette.requests import Request

    from kue.client.queue import Kue
    from kue.http.auth.access import Guard, User
    from kue.http.options import AppOptions
    from kue.http.security.audit_log import AuditLog
    from kue.http.security.redaction import Redaction

Handler = Callable[..., Awaitable[Any]]

#: The query field that collects parameters with a prefix: ``data.user_id=42``.
PREFIXED = "data"


class Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A query or a body; unknown fields are refused."""


@dataclass
class RequestContext:
    """A request that was allowed, and what its operation works with."""

    q: Kue
    user: User
    request: Request
    guard: Guard
    options: AppOptions
    audit: AuditLog
    #: Further headers of the response.
    headers: dict[str, str] = field(default_factory=dict)
    #: One of `Operation.also`, if the response has that status.
    status: HTTPStatus | None = None

    @property
    def redaction(self) -> Redaction:
        return self.options.redaction


@dataclass(frozen=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    handler: Handler
    tag: str
    #: The scope it needs; None if authentication is enough.
    scope: Scope | None = Scope.MANAGE
    status: HTTPStatus = HTTPStatus.OK
    #: Further statuses of success.
    also: tuple[HTTPStatus, ...] = ()
    #: Whether it needs no authentication.
    is_open: bool = False
    #: Whether it returns a list that may be large.
    is_list: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)
    query: Any = None
    body: Any = None
    returns: Any = None
    media_type: str = "application/json"

    @property
    def name(self) -> str:
        """Its id, unique in the document."""
        return f"{self.tag}_{self.handler.__name__}"

    @property
    def act(self) -> str:
        """Its name in the audit log; empty for those that write their own entries."""
        if self.method == "GET" or self.scope is None:
            return ""
        return f"{self.tag}.{self.handler.__name__}"

    @cached_property
    def is_body_optional(self) -> bool:
        """Whether the body may be omitted, which is the same as null."""
        kind = msgspec.inspect.type_info(self.body)
        return isinstance(kind, msgspec.inspect.UnionType) and kind.includes_none

    def arguments(self, request: Request, body: bytes) -> dict[str, Any]:
        """Return the arguments of the handler after the context."""
        arguments = {
            name: _read(request.path_params[name], type, f"path.{name}")
            for name, type in self.parameters.items()
        }
        if self.query is not None:
            given = _grouped(request, self.query)
            arguments["query"] = _read(given, self.query, "query")
        elif request.query_params:
            name = next(iter(request.query_params))
            raise bad_request(f"there is no parameter {name!r} here", f"query.{name}")
        if self.body is not None:
            arguments["body"] = _decode(body, self.body)
        return arguments


class Section:
    """Operations that belong together."""

    def __init__(self, tag: str, about: str, *, prefix: str = "") -> None:
        self.tag = tag
        self.about = about
        self.operations: list[Operation] = []
        self._prefix = prefix
        self.get = partial(self._operation, "GET", scope=Scope.READ)
        self.post = partial(self._operation, "POST")
        self.put = partial(self._operation, "PUT")
        self.patch = partial(self._operation, "PATCH")
        self.delete = partial(self._operation, "DELETE")

    def _operation(
        self, method: str, path: str, **options: Any
    ) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            hints = get_type_hints(handler, include_extras=True)
            names = list(inspect.signature(handler).parameters)[1:]
            parameters = {
                name: hints[name] for name in names if name not in ("query", "body")
            }
            operation = Operation(
                method,
                self._prefix + path,
                handler,
                self.tag,
                parameters=parameters,
                query=hints.get("query"),
                body=hints.get("body"),
                returns=hints.get("return"),
                **options,
            )
            self.operations.append(operation)
            return handler

        return register


def _grouped(request: Request, query: Any) -> dict[str, Any]:
    """Return the query with lists where the struct has lists, and prefixes grouped."""
    fields = {one.name: one for one in msgspec.structs.fields(query)}
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        head, dot, tail = name.partition(".")
        if dot and head == PREFIXED and head in fields:
            given.setdefault(head, {})[tail] = value
        elif name in fields and _is_list(fields[name].type):
            given.setdefault(name, []).extend(filter(None, value.split(",")))
        elif name in given:
            raise bad_request(f"{name} is given twice", f"query.{name}")
        else:
            given[name] = value
    return given


def _is_list(type: Any) -> bool:
    kind = msgspec.inspect.type_info(type)
    options = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
    return any(isinstance(one, msgspec.inspect.ListType) for one in options)


def _read(value: Any, type: Any, name: str) -> Any:
    try:
        return msgspec.convert(value, type, strict=False)
    except msgspec.ValidationError as exc:
        raise bad_request(*_located(exc, name)) from exc


def _decode(body: bytes, type: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=type)
    except msgspec.ValidationError as exc:
        raise bad_request(*_located(exc, "body")) from exc
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise bad_request(f"the body is not JSON: {exc}", "body") from exc


def _located(exc: msgspec.ValidationError, name: str) -> tuple[str, str]:
    """Split msgspec's message: ``Expected `int`, got `str` - at `$.limit```."""
    message = str(exc).replace(" - at `key` in `$", " - at `$")
    text, _, path = message.partition(" - at `$")
    return text, name + path.rstrip("`")
