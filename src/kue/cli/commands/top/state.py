"""
The state of ``kue top``: selection, order, filter and questions.

A pure value: a key makes a new one of it, and perhaps an order to carry out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, NamedTuple

from kue.cli.commands.top.ordering import Sort, ordered_queues, ordered_workers
from kue.cli.output.text import jobs
from kue.model.job import State

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kue.cli.commands.top.snapshot import QueueFacts, Snapshot
    from kue.store.values import WorkerStatus

#: Rows that page up and page down move by.
PAGE_ROWS = 10
#: Characters of a filter.
MAX_PATTERN = 60
#: Keys that select, and by how many rows they move; the ends are far away.
_FAR = 1 << 30
MOVES = {
    "up": -1,
    "k": -1,
    "down": 1,
    "j": 1,
    "page-up": -PAGE_ROWS,
    "page-down": PAGE_ROWS,
    "home": -_FAR,
    "g": -_FAR,
    "end": _FAR,
    "G": _FAR,
}


class Pane(Enum):
    """The list that keys act on."""

    QUEUES = auto()
    WORKERS = auto()


class Screen(Enum):
    """What is between the header and the status line."""

    LISTS = auto()
    DETAILS = auto()
    HELP = auto()


class Verb(StrEnum):
    """A change; the value is its name in the audit log, as of other commands."""

    PAUSE = "queue.pause"
    RESUME = "queue.resume"
    PAUSE_WORKER = "workers.pause"
    RESUME_WORKER = "workers.resume"
    RETRY = "failed.retry"


class Order(NamedTuple):
    """A change that was asked for."""

    verb: Verb
    #: The queue or the worker; None for every queue.
    name: str | None
    #: How many jobs it is about.
    number: int = 0

    @property
    def question(self) -> str:
        """What is asked before it is carried out."""
        if self.verb is Verb.RETRY:
            return f"retry {jobs(self.number, 'failed job')} of {self.name}?"
        return "pause every queue?"


@dataclass(frozen=True)
class Cursor:
    """A selected row: by its name, or where that is gone by its position."""

    name: str | None = None
    index: int = 0

    def among(self, names: Sequence[str]) -> Cursor:
        """Return the row it is among *names*."""
        if not names:
            return TOP
        if self.name in names:
            return Cursor(self.name, names.index(self.name))
        index = min(self.index, len(names) - 1)
        return Cursor(names[index], index)

    def moved(self, rows: int, names: Sequence[str]) -> Cursor:
        """Return the row that is so many below, or the last there is."""
        index = max(0, min(self.among(names).index + rows, len(names) - 1))
        return Cursor(None, index).among(names)


TOP = Cursor()


@dataclass(frozen=True)
class ViewState:
    """What the user has chosen, and what the status line says."""

    pane: Pane = Pane.QUEUES
    screen: Screen = Screen.LISTS
    queue: Cursor = TOP
    worker: Cursor = TOP
    sort: Sort = Sort.NEED
    #: What the names of queues, and of workers, have to contain.
    queue_pattern: str = ""
    worker_pattern: str = ""
    #: Whether keys are part of the pattern of the active list.
    is_typing: bool = False
    #: What is carried out if the next key is y.
    asked: Order | None = None
    status: str = ""
    is_error: bool = False
    is_leaving: bool = False

    def saying(self, status: str, *, is_error: bool = False) -> ViewState:
        return replace(self, status=status, is_error=is_error)

    @property
    def pattern(self) -> str:
        """The pattern of the active list."""
        is_queues = self.pane is Pane.QUEUES
        return self.queue_pattern if is_queues else self.worker_pattern

    def filtered(self, pattern: str) -> ViewState:
        """Return it with another pattern for the active list."""
        if self.pane is Pane.QUEUES:
            return replace(self, queue_pattern=pattern)
        return replace(self, worker_pattern=pattern)

    def queues(self, snapshot: Snapshot) -> list[QueueFacts]:
        """Return the rows of queues."""
        return ordered_queues(snapshot.queues.values(), self.sort, self.queue_pattern)

    def workers(self, snapshot: Snapshot) -> list[WorkerStatus]:
        """Return the rows of workers."""
        return ordered_workers(snapshot.workers.values(), self.worker_pattern)

    def pinned(self, snapshot: Snapshot) -> ViewState:
        """Return it with names selected, which stay so when rows change places."""
        return replace(
            self,
            queue=self.queue.among([row.type for row in self.queues(snapshot)]),
            worker=self.worker.among([row.name for row in self.workers(snapshot)]),
        )


Pressed = tuple[ViewState, Order | None]


def press(state: ViewState, key: str, snapshot: Snapshot) -> Pressed:
    """Return what *key* makes of the state, and the change it asks for."""
    before = state
    state = replace(state, status="", is_error=False)
    if key == "interrupt":
        return replace(state, is_leaving=True), None
    if state.asked is not None:
        return _answer(state, key)
    if key in MOVES and not (state.is_typing and len(key) == 1):
        return _moved(state, MOVES[key], snapshot), None
    if state.is_typing:
        return _type(state, key), None
    if state.screen is Screen.HELP:
        return replace(state, screen=Screen.LISTS), None
    act = _ACTS.get(key)
    return act(state, snapshot) if act else (before, None)


def _answer(state: ViewState, key: str) -> Pressed:
    order, state = state.asked, replace(state, asked=None)
    if key in ("y", "Y"):
        return state, order
    return state.saying("nothing was changed"), None


def _type(state: ViewState, key: str) -> ViewState:
    match key:
        case "enter" | "tab":
            return replace(state, is_typing=False)
        case "escape":
            return replace(state, is_typing=False).filtered("")
        case "backspace":
            return state.filtered(state.pattern[:-1])
        case "clear":
            return state.filtered("")
    typed = key if len(key) == 1 else ""
    return state.filtered((state.pattern + typed)[:MAX_PATTERN])


def _moved(state: ViewState, rows: int, snapshot: Snapshot) -> ViewState:
    if state.pane is Pane.QUEUES:
        types = [row.type for row in state.queues(snapshot)]
        return replace(state, queue=state.queue.moved(rows, types))
    names = [row.name for row in state.workers(snapshot)]
    return replace(state, worker=state.worker.moved(rows, names))


# -- keys ----------------------------------------------------------------------


def _leave(state: ViewState, snapshot: Snapshot) -> Pressed:
    return replace(state, is_leaving=True), None


def _back(state: ViewState, snapshot: Snapshot) -> Pressed:
    """Close the details, then the filter, then leave."""
    if state.screen is not Screen.LISTS:
        return replace(state, screen=Screen.LISTS), None
    if state.pattern:
        return state.filtered(""), None
    return _leave(state, snapshot)


def _help(state: ViewState, snapshot: Snapshot) -> Pressed:
    return replace(state, screen=Screen.HELP), None


def _switch(state: ViewState, snapshot: Snapshot) -> Pressed:
    other = Pane.WORKERS if state.pane is Pane.QUEUES else Pane.QUEUES
    return replace(state, pane=other), None


def _sort(state: ViewState, snapshot: Snapshot) -> Pressed:
    state = replace(state, sort=state.sort.next)
    return state.saying(f"queues are sorted by {state.sort}"), None


def _filter(state: ViewState, snapshot: Snapshot) -> Pressed:
    return replace(state, is_typing=True, screen=Screen.LISTS), None


def _details(state: ViewState, snapshot: Snapshot) -> Pressed:
    if state.screen is Screen.DETAILS:
        return replace(state, screen=Screen.LISTS), None
    if state.pane is Pane.QUEUES and state.queue.name is None:
        return state.saying("there is no queue to show"), None
    if state.pane is Pane.WORKERS and state.worker.name is None:
        return state.saying("there is no worker to show"), None
    return replace(state, screen=Screen.DETAILS), None


def _pause(state: ViewState, snapshot: Snapshot) -> Pressed:
    if state.pane is Pane.WORKERS:
        return _pause_worker(state, snapshot)
    queue = snapshot.queues.get(state.queue.name or "")
    if queue is None:
        return state.saying("there is no queue to pause"), None
    if queue.pause is not None:
        return state, Order(Verb.RESUME, queue.type)
    if queue.all_paused:
        return state.saying("every queue is paused; P resumes them"), None
    return state, Order(Verb.PAUSE, queue.type)


def _pause_worker(state: ViewState, snapshot: Snapshot) -> Pressed:
    worker = snapshot.workers.get(state.worker.name or "")
    if worker is None:
        return state.saying("there is no worker to pause"), None
    if worker.paused:
        return state, Order(Verb.RESUME_WORKER, worker.name)
    if not worker.alive:
        how = "lost" if worker.lost else "stopped"
        return state.saying(f"{worker.name} is {how}; live workers are paused"), None
    return state, Order(Verb.PAUSE_WORKER, worker.name)


def _pause_all(state: ViewState, snapshot: Snapshot) -> Pressed:
    if snapshot.all_paused:
        return state, Order(Verb.RESUME, None)
    return replace(state, asked=Order(Verb.PAUSE, None)), None


def _retry(state: ViewState, snapshot: Snapshot) -> Pressed:
    if state.pane is Pane.WORKERS:
        return state.saying("r retries jobs of a queue; Tab selects queues"), None
    queue = snapshot.queues.get(state.queue.name or "")
    if queue is None:
        return state.saying("there is no queue with jobs to retry"), None
    number = queue.count(State.FAILED)
    if not number:
        return state.saying(f"{queue.type} has no failed jobs"), None
    return replace(state, asked=Order(Verb.RETRY, queue.type, number)), None


_ACTS: dict[str, Callable[[ViewState, Snapshot], Pressed]] = {
    "q": _leave,
    "escape": _back,
    "?": _help,
    "h": _help,
    "tab": _switch,
    "s": _sort,
    "/": _filter,
    "d": _details,
    "enter": _details,
    "p": _pause,
    "P": _pause_all,
    "r": _retry,
}
