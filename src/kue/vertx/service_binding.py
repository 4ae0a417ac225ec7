"""
Services on the event bus: the async methods of an object, called from any node.

A request is a JSON object of named arguments with the method's name in the header
``action``; the reply is what the method returns.  Names are in camel case on the wire:
``get_job(job_id)`` is action ``getJob`` with ``jobId``; a trailing underscore, where
Python needs one, is left out.  Arguments are checked against the method's annotations.

What a method raises is a RECIPIENT_FAILURE with code -1 (a `RequestFailed` keeps its
own) and, in ``debug``, the ``causeName``, by which a `Proxy` raises the same.
"""

from __future__ import annotations

import functools
import inspect
import logging
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

import msgspec

from kue.aio.callbacks import awaited
from kue.bus import FailureKind, RequestFailed
from kue.bus.message import DEFAULT_TIMEOUT
from kue.model.errors import (
    KueError,
    StoreCorrupt,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from kue.bus import Consumer, EventBus, Message
    from kue.runtime import Verticle

logger = logging.getLogger(__name__)

ACTION = "action"
TOKEN = "auth-token"
#: Concurrent calls of one service; others wait.
CONCURRENCY = 100

#: The code of an unknown action in Vert.x.
_NO_ACTION = 500
_UNAUTHORIZED = 401
#: Errors that a proxy raises as the service does.
_SAME = {
    error.__name__: error
    for error in (ValueError, StoreUnavailable, StoreFull, StoreRefused, StoreCorrupt)
}


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """A request to a service, as an interceptor sees it."""

    #: As on the wire; empty if the request names none.
    action: str
    message: Message


Proceed = Callable[[], Awaitable[Any]]
#: Wraps a call: it may inspect it, reject it by raising, or change its result.
Interceptor = Callable[[ServiceCall, Proceed], Awaitable[Any]]
TokenCheck = Callable[[str], bool | Awaitable[bool]]


def bind(
    service: object,
    bus: EventBus | Verticle,
    address: str,
    *,
    interceptors: Sequence[Interceptor] = (),
    local: bool = False,
    debug: bool = False,
    concurrency: int = CONCURRENCY,
) -> Consumer:
    """
    Register *service* at *address*; the returned consumer unregisters it.

    Args:
        bus: The bus, or a verticle: the service then ends with it.
        interceptors: Around every call, the first outermost; see `only`.
        local: Only this node may call it.
        debug: Send message and stack of every failure to the caller.
    """
    endpoint = _Endpoint(service, tuple(interceptors), is_debug=debug)
    return bus.consumer(address, endpoint.handle, local=local, concurrency=concurrency)


def only(action: str, interceptor: Interceptor) -> Interceptor:
    """Return an interceptor for calls of one action, such as ``removeJob``."""

    async def intercept(call: ServiceCall, proceed: Proceed) -> Any:
        if call.action == action:
            return await interceptor(call, proceed)
        return await proceed()

    return intercept


def authorised(check: TokenCheck) -> Interceptor:
    """
    Return an interceptor that admits callers with a token that *check* accepts.

    The token is the header ``auth-token``; without one the call is rejected.
    """

    async def intercept(call: ServiceCall, proceed: Proceed) -> Any:
        token = call.message.headers.get(TOKEN)
        if token is None or not await awaited(check(token)):
            raise RequestFailed("Unauthorized", code=_UNAUTHORIZED)
        return await proceed()

    return intercept


# -- actions -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServiceMethod:
    """One method of a service."""

    #: As on the wire.
    name: str
    method: str
    #: A Struct with a field for each argument.
    arguments: Any
    result: Any


def actions(service: type) -> dict[str, ServiceMethod]:
    """Return the public async methods of *service* by their names on the wire."""
    found = [
        _action(method, function)
        for method, function in inspect.getmembers(service, inspect.iscoroutinefunction)
        if not method.startswith("_")
    ]
    return {action.name: action for action in found}


def _action(method: str, function: Callable[..., Any]) -> ServiceMethod:
    hints = get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    for parameter in [*inspect.signature(function).parameters.values()][1:]:
        field = (parameter.name, hints[parameter.name])
        is_needed = parameter.default is inspect.Parameter.empty
        fields.append(field if is_needed else (*field, parameter.default))
    name = _on_wire(method)
    arguments = msgspec.defstruct(name, fields, kw_only=True, rename=_on_wire)
    return ServiceMethod(name, method, arguments, hints["return"])


def _on_wire(name: str) -> str:
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(map(str.capitalize, rest))


# -- server side -----------------------------------------------------------------


class _Endpoint:
    """Handles the requests to one service."""

    def __init__(
        self, service: object, interceptors: tuple[Interceptor, ...], *, is_debug: bool
    ) -> None:
        self._service = service
        self._actions = actions(type(service))
        self._interceptors = interceptors
        self._is_debug = is_debug

    async def handle(self, message: Message) -> None:
        call = ServiceCall(message.headers.get(ACTION) or "", message)
        try:
            proceed: Proceed = functools.partial(self._invoke, call)
            for interceptor in reversed(self._interceptors):
                proceed = functools.partial(interceptor, call, proceed)
            result = await proceed()
        except Exception as exc:
            message.reply(self._failure(call.action, exc))
        else:
            message.reply(msgspec.to_builtins(result))

    async def _invoke(self, call: ServiceCall) -> Any:
        if not call.action:
            raise RequestFailed("action not specified", code=_NO_ACTION)
        action = self._actions.get(call.action)
        if action is None:
            shown = call.action[:100]
            raise RequestFailed(f"Invalid action: {shown}", code=_NO_ACTION)
        body = call.message.body
        try:
            checked = msgspec.convert({} if body is None else body, action.arguments)
        except msgspec.ValidationError as exc:
            raise ValueError(f"{action.name}: {exc}") from None
        return await getattr(self._service, action.method)(
            **msgspec.structs.asdict(checked)
        )

    def _failure(self, action: str, exc: Exception) -> RequestFailed:
        if isinstance(exc, RequestFailed):
            return RequestFailed(exc.text, code=exc.code, debug=exc.debug)
        debug: dict[str, Any] = {"causeName": type(exc).__name__}
        text = str(exc)
        if self._is_debug:
            debug["causeMessage"] = text
            debug["causeStackTrace"] = traceback.format_exception(exc)
        if not isinstance(exc, KueError | ValueError):
            logger.error("action %s failed", action, exc_info=exc)
            # Its text may hold what the caller must not see; the log has it.
            text = f"{action} failed: {type(exc).__name__}"
        return RequestFailed(text, debug=debug)


# -- client side -----------------------------------------------------------------


class Proxy:
    """
    Calls a service on the bus: a subclass has the methods of the class that it is *of*.

    ::

        class WeatherProxy(Proxy, Weather, of=Weather): ...

        await WeatherProxy(bus, "weather").forecast("Oslo")

    Methods raise what those of the service raise: `ValueError` and errors of the store
    as such, everything else as `RequestFailed`, and so does the bus.

    Args:
        timeout: How long to wait for a reply, in seconds.
        token: Sent with each request, for services that require one.
        local: Call only services of this node.
    """

    def __init__(
        self,
        bus: EventBus,
        address: str,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        token: str | None = None,
        local: bool = False,
    ) -> None:
        self._bus = bus
        self._address = address
        self._timeout = timeout
        self._token = token
        self._local = local

    def __init_subclass__(cls, *, of: type | None = None) -> None:
        super().__init_subclass__()
        if of is not None:
            for action in actions(of).values():
                setattr(cls, action.method, _remote(action, getattr(of, action.method)))

    async def _request(self, action: ServiceMethod, arguments: dict[str, Any]) -> Any:
        headers = {ACTION: action.name}
        if self._token is not None:
            headers[TOKEN] = self._token
        try:
            reply = await self._bus.request(
                self._address,
                {
                    _on_wire(name): msgspec.to_builtins(value)
                    for name, value in arguments.items()
                },
                timeout=self._timeout,
                headers=headers,
                local=self._local,
            )
        except RequestFailed as exc:
            same = _SAME.get(str(exc.debug.get("causeName")))
            if same is None or exc.kind is not FailureKind.RECIPIENT_FAILURE:
                raise
            raise same(exc.text) from exc
        return msgspec.convert(reply.body, action.result)


def _remote(action: ServiceMethod, method: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(method)

    @functools.wraps(method)
    async def call_remote(self: Proxy, *args: Any, **kwargs: Any) -> Any:
        arguments = dict(signature.bind(self, *args, **kwargs).arguments)
        del arguments["self"]
        return await self._request(action, arguments)

    return call_remote
