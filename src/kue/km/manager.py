"""KMQueue's manager: declares queues, and connects to the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar

from kue.client.queue import Kue
from kue.km import queue_names
from kue.km.popped_tasks import PoppedTasks
from kue.km.records import declare
from kue.km.task_queue import TaskQueue
from kue.model.draft import MAX_STALLS
from kue.model.duration import Duration, milliseconds
from kue.model.errors import ConfigError
from kue.store import scheme_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from kue.client.queue import RedisClient

P = ParamSpec("P")
T = TypeVar("T")

OnError = Literal["fail", "finish", "retry"]
#: What its Redis keys begin with, unless a queue is given.  A file has no prefix.
PREFIX = "kmqueue"
RETRY_TIMES = 3


def checked_times(number: int) -> int:
    """Return how often to retry; raise `ValueError` if that makes no sense."""
    if not 0 <= number <= MAX_STALLS:
        raise ValueError(f"retry times are from 0 to {MAX_STALLS:,}, not {number}")
    return number


class BaseBuilder:
    """Where the store is, and how many connections to it there may be."""

    def __init__(self, where: Kue | str | RedisClient, *rest: Any) -> None:
        """
        Args:
            where: A queue; or host and port; or Sentinels ("h1:26379,h2:26379") and
                True; or a URL of Redis or SQLite; or a client or connection pool of
                redis-py.
        """
        self._q: Kue | None = None
        self._url = ""
        self._client: RedisClient | None = None
        self._settings: dict[str, Any] = {}
        self._max_total: int | None = None
        self.names: tuple[str, ...] = rest
        if isinstance(where, Kue):
            self._q = where
        elif not isinstance(where, str):
            self._client = where
        elif rest and rest[0] is True:
            self._url, self.names = f"redis+sentinel://{where}/master", rest[1:]
        elif rest and isinstance(rest[0], int):
            self._url, self.names = f"redis://{where}:{rest[0]}", rest[1:]
        elif "://" in where:
            self._url = where
        else:
            raise ConfigError(
                f"{where!r} is neither a queue nor a URL; give a host and a port, "
                "Sentinels and True, or a URL"
            )

    def set_max_total(self, number: int) -> Self:
        """
        Open at most *number* connections to Redis for commands.

        Raises:
            ConfigError: A pool was given, which has its own number.
        """
        if self._client is not None:
            raise ConfigError("a pool has its own max_connections: set it there")
        self._max_total = number
        return self

    def set_max_idle(self, number: int) -> Self:
        """Do nothing: connections stay open, and no more are opened than needed."""
        return self

    def set_max_wait_millis(self, milliseconds: int) -> Self:
        """Let a call try to reach the store for that long; -1 for the default."""
        if milliseconds >= 0:
            self._settings["budget"] = milliseconds / 1000
        return self

    @property
    def is_owner(self) -> bool:
        """Whether the queue is made here, and to be closed with what was built."""
        return self._q is None

    def queue(self) -> Kue:
        """Return the queue, made of what was set."""
        if self._q is not None:
            return self._q
        if self._client is not None:
            return Kue(self._client, prefix=PREFIX, **self._settings)
        url = self._url
        if self._max_total is not None and url.startswith("redis"):
            mark = "&" if "?" in url else "?"
            url = f"{url}{mark}max_connections={self._max_total}"
        prefix = None if scheme_of(url) == "sqlite" else PREFIX
        return Kue(url, prefix=prefix, **self._settings)


class ManagerBuilder(BaseBuilder):
    """Options of a manager; each method returns the builder."""

    def __init__(self, where: Kue | str | RedisClient, *rest: Any) -> None:
        super().__init__(where, *rest)
        self.modes = queue_names.read_queues(self.names)
        self.alive_timeout: Duration | None = None
        self.retry_times = RETRY_TIMES
        self.on_error: OnError = "fail"

    def set_alive_timeout(self, timeout: Duration) -> Self:
        """Fail a task of a safe queue that was pushed longer ago; 0 for no limit."""
        is_limited = milliseconds(timeout, field="alive timeout") > 0
        self.alive_timeout = timeout if is_limited else None
        return self

    def set_protected_timeout(self, timeout: Duration) -> Self:
        """Give tasks to another consumer once theirs was silent for that long."""
        if self._q is not None:
            raise ConfigError(
                "a queue has its own lease: give it as Kue(lease=…) instead"
            )
        self._settings["lease"] = timeout
        return self

    def set_retry_times(self, number: int) -> Self:
        """Give a task whose consumer was lost to *number* others at most."""
        self.retry_times = checked_times(number)
        return self

    def set_on_error(self, policy: OnError) -> Self:
        """
        Choose what a handler's exception does in `Task.do_task`.

        "fail": the task failed for good; "finish": it is finished, as in KMQueue;
        "retry": it is retried, *retry_times* times at most.
        """
        if policy not in ("fail", "finish", "retry"):
            raise ValueError(f"on_error is 'fail', 'finish' or 'retry', not {policy!r}")
        self.on_error = policy
        return self

    def build(self) -> KMQueueManager:
        return KMQueueManager(self)


class KMQueueManager:
    """
    The queues of an application.

    ``KMQueueManager.Builder(…).build()`` makes one; `init` connects.
    """

    Builder = ManagerBuilder

    def __init__(self, builder: ManagerBuilder) -> None:
        self._builder = builder
        self.q = builder.queue()
        self.on_error = builder.on_error
        self._queues = {
            name: TaskQueue(self, name, mode) for name, mode in builder.modes.items()
        }
        self._popped: PoppedTasks | None = None

    def __repr__(self) -> str:
        return f"<KMQueueManager of {', '.join(self._queues)}>"

    def __enter__(self) -> Self:
        self.init()
        return self

    def __exit__(self, *exc: object) -> None:
        self.destroy()

    @property
    def backup_queue_name(self) -> str:
        """What `BackupQueueMonitor` knows these queues by."""
        return queue_names.gen_back_up_queue_name(*self._queues)

    def init(self) -> None:
        """
        Connect, and declare the queues for monitors.

        Raises:
            StoreRefused, StoreCorrupt, StoreUnavailable: see there.
        """
        self.q.sync.open()
        self.call(declare, self.backup_queue_name, self._builder.modes)

    def get_task_queue(self, name: str) -> TaskQueue:
        """
        Return a queue.

        Raises:
            ConfigError: It was not declared; the message lists those that were.
        """
        if name not in self._queues:
            raise ConfigError(
                f"queue {name!r} was not declared; there are {', '.join(self._queues)}"
            )
        return self._queues[name]

    def destroy(self) -> None:
        """Requeue popped tasks that were not finished, and disconnect."""
        try:
            if self._popped is not None:
                self.call(self._close)
        finally:
            if self._builder.is_owner:
                self.q.sync.close()

    # -- for its queues --------------------------------------------------------

    def call(
        self,
        verb: Callable[Concatenate[Kue, P], Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a coroutine function with the queue, on its own thread."""
        return self.q.sync.call(verb, *args, **kwargs)

    async def popped(self, q: Kue) -> PoppedTasks:
        """Return the tasks that this process has popped; begins with its heartbeat."""
        popped = self._popped
        # Those of a queue that was closed, or of a parent process, ended with it.
        if popped is None or popped.q is not q:
            popped = self._popped = PoppedTasks(q, list(self._queues))
        await popped.ready()
        return popped

    def job_options(self, is_safe: bool) -> dict[str, Any]:
        """Return the options of the jobs that tasks are."""
        if not is_safe:
            return {"delivery": "at-most-once"}
        times = self._builder.retry_times
        is_retried = self.on_error == "retry"
        return {
            "expires": self._builder.alive_timeout,
            "max_stalls": times,
            "attempts": 1 + times if is_retried else 1,
        }

    async def _close(self, q: Kue) -> None:
        popped, self._popped = self._popped, None
        if popped is not None and popped.q is q:
            await popped.close()
