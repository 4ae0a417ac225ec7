"""
Calls that become jobs later: when a transaction was committed, or a response sent.

Arguments are checked, and made JSON, when the call is made.  A job whose transaction is
rolled back is not added.  None of the frameworks is needed: what they have is used as
it is found.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from kue.aio.loop_calls import running

if TYPE_CHECKING:
    from kue.client.queue import Kue
    from kue.client.task import TaskCalls
    from kue.model.job import Draft

P = ParamSpec("P")
T_co = TypeVar("T_co", covariant=True)

logger = logging.getLogger(__name__)

#: Adds a job; takes no arguments.
Add = Callable[[], None]


class DeferredCalls(Generic[P, T_co]):
    """Makes jobs of calls, when *defer* calls what it is given."""

    def __init__(
        self, queue: Kue, calls: TaskCalls[P, T_co], defer: Callable[[Add], object]
    ) -> None:
        self._queue = queue
        self._calls = calls
        self._defer = defer

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """
        Store a call as a job once it is time; may be called in any code.

        Raises:
            As `TaskCalls.draft`, at once.
        """
        draft = self._calls.draft(*args, **kwargs)
        self._defer(lambda: add(self._queue, draft))


def add(queue: Kue, draft: Draft) -> None:
    """Add a job; where an event loop runs, in the background: it must not block."""
    if running() is None:
        queue.sync.call(_add, draft)
    else:
        task = _add_logged(queue, draft)
        queue._connection.deferred.start(task, "kue deferred add")


async def _add(queue: Kue, draft: Draft) -> None:
    await queue._connection.add(draft)


async def _add_logged(queue: Kue, draft: Draft) -> None:
    try:
        await _add(queue, draft)
    except Exception:
        logger.exception("a deferred job of task %s was not added", draft.name)


# -- after a commit ------------------------------------------------------------


def on_commit(transaction: Any) -> Callable[[Add], object]:
    """
    Return what calls a function once *transaction* was committed.

    Raises:
        TypeError: It is not something that can be committed.
    """
    if transaction is None or isinstance(transaction, str):
        django: Any = import_module("django.db.transaction")
        return lambda call: django.on_commit(call, using=transaction)
    if callable(getattr(transaction, "on_commit", None)):
        return lambda call: transaction.on_commit(call)
    session = _session_of(transaction)
    if not hasattr(session, "get_nested_transaction"):
        raise TypeError(
            "after_commit takes a session of SQLAlchemy, the name of a database of "
            f"Django, or something with on_commit(function), not {transaction!r}"
        )
    return lambda call: _on_session(session, call)


def _session_of(given: Any) -> Any:
    """Return the session itself: that of an async one, or the current scoped one."""
    if hasattr(given, "registry") and callable(given):
        given = given()
    return getattr(given, "sync_session", given)


class _DeferredAdd(NamedTuple):
    call: Add
    #: Transactions that it is lost with: the innermost, and those around it.
    within: tuple[Any, ...]


#: What waits for the commit of each session of SQLAlchemy.
_sessions: WeakKeyDictionary[Any, list[_DeferredAdd]] = WeakKeyDictionary()
#: What waits for a transaction that was committed to end.
_committed_adds: WeakKeyDictionary[Any, list[_DeferredAdd]] = WeakKeyDictionary()


def _on_session(session: Any, call: Add) -> None:
    innermost = session.get_nested_transaction() or session.get_transaction()
    if innermost is None:
        # As in Django: without a transaction there is nothing to wait for.
        call()
        return
    if session not in _sessions:
        _sessions[session] = []
        event: Any = import_module("sqlalchemy.event")
        event.listen(session, "after_commit", _committed)
        event.listen(session, "after_soft_rollback", _rolled_back)
        event.listen(session, "after_transaction_end", _ended)
    within = [innermost]
    while (parent := within[-1].parent) is not None:
        within.append(parent)
    _sessions[session].append(_DeferredAdd(call, tuple(within)))


def _committed(session: Any) -> None:
    # The end of a savepoint is a commit to SQLAlchemy, too.
    if session.in_nested_transaction():
        return
    _committed_adds[session], _sessions[session] = _sessions[session], []


def _rolled_back(session: Any, transaction: Any) -> None:
    _sessions[session] = [
        one for one in _sessions[session] if transaction not in one.within
    ]


def _ended(session: Any, transaction: Any) -> None:
    """Add what waits for a transaction that was committed; else forget it."""
    if transaction.parent is not None:
        return
    _rolled_back(session, transaction)
    # Only now: an error during the commit would leave the session unusable.
    found = _committed_adds.pop(session, [])
    errors = [error for one in found if (error := _error_of(one.call))]
    for error in errors[1:]:
        logger.error("a deferred job was not added", exc_info=error)
    if errors:
        raise errors[0]


def _error_of(call: Add) -> Exception | None:
    """Call it; return what it raised, which must not keep others from being called."""
    try:
        call()
    except Exception as exc:
        return exc
    return None


# -- after a response ----------------------------------------------------------


def on_response(target: Any) -> Callable[[Add], object]:
    """
    Return what calls a function once a response was sent.

    Raises:
        TypeError: *target* is neither background tasks nor a response of Django.
    """
    if callable(add_task := getattr(target, "add_task", None)):
        return lambda call: add_task(_called, call)
    if callable(getattr(target, "close", None)) and hasattr(target, "headers"):
        return lambda call: _on_close(target, call)
    raise TypeError(
        "after_response takes the BackgroundTasks of Starlette or FastAPI, or a "
        f"response of Django, not {target!r}"
    )


async def _called(call: Add) -> None:
    """Call it on the event loop: Starlette runs plain functions in threads."""
    call()


def _on_close(response: Any, call: Add) -> None:
    close = response.close

    def close_and_call() -> None:
        # The job is added once, however often the response is closed.
        response.close = close
        close()
        call()

    # Servers close a response once they have sent it.
    response.close = close_and_call
