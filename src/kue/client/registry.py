"""Registry of handlers: which one handles which type of jobs, and how."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from kue.client.declared_limits import DeclaredLimits
from kue.client.hooks import FailureHook, Middleware, compose
from kue.client.worker_resource import Resource, using
from kue.model.errors import ConfigError
from kue.model.failure_rule import FailureRule, check_rule
from kue.model.names import check_path_name
from kue.worker.lane import Processor
from kue.worker.queued_tasks import QueuedTask, release_unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kue.client.declared_schedules import DeclaredSchedule
    from kue.model.alerts import AlertRule
    from kue.model.queue_patterns import QueuePatterns
    from kue.worker.queued_tasks import RunHandler

#: How many jobs of a type run at once by default: coroutines mostly wait, threads cost
#: more, processes compute.
SLOTS = {"loop": 100, "thread": 10, "process": os.cpu_count() or 1}


class HandlerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How jobs of one type are handled."""

    type: str
    #: Called with the run and awaited.
    handler: Any
    execution: str = "loop"
    #: How many at once; None for as many as there are slots.
    slots: int | None = None
    weight: int = 1
    middleware: tuple[Any, ...] = ()
    uses: tuple[Any, ...] = ()
    #: Called when a job of the type has failed for good, before the queue's own hooks.
    on_failure: tuple[FailureHook, ...] = ()
    #: The type that failed jobs are forwarded to; None for the queue's own rule.
    dead_letter: str | None = None
    #: Where its jobs wait, if not in the queue that is named like their type.
    queue: str | None = None

    def room(self, concurrency: int | None) -> int:
        """Return how many run at once, if *concurrency* of any type may."""
        slots = self.slots or concurrency or SLOTS[self.execution]
        return min(slots, concurrency or slots)


class HandlerRegistry:
    """The handlers of a queue, by type, and what is around all of them."""

    def __init__(self) -> None:
        self._settings: dict[str, HandlerSettings] = {}
        self.middleware: list[Middleware] = []
        self.resources: list[Resource[Any]] = []
        #: How many workers of this process run jobs that may use them.
        self.workers = 0
        #: By name.
        self.schedules: dict[str, DeclaredSchedule] = {}
        #: Named limits of tasks.
        self.limits = DeclaredLimits()
        #: Thresholds by type (None: the default), with the module that declares them.
        self.alerts: dict[str | None, tuple[AlertRule, str]] = {}
        #: Modules of handlers: the program owns the schedules that they declare.
        self.modules: set[str] = set()

    def add(self, settings: HandlerSettings) -> None:
        """
        Register the handler of a type.

        Raises:
            ValueError: The type has a handler, or a number is less than 1.
        """
        check_path_name(settings.type, what="type")
        _check_positive("n", settings.slots)
        _check_positive("weight", settings.weight)
        if settings.type in self._settings:
            raise ValueError(
                f"type {settings.type!r} has a handler in this queue already"
            )
        check_rule(settings.type, FailureRule(dead_letter=settings.dead_letter or ""))
        self._settings[settings.type] = settings

    def declare(self, schedule: DeclaredSchedule) -> None:
        """
        Register a schedule that workers write to the store when they start.

        Raises:
            ValueError: Another one has its name.
        """
        if schedule.name in self.schedules:
            raise ValueError(
                f"schedule {schedule.name!r} is declared twice; give one of them "
                "another name="
            )
        self.schedules[schedule.name] = schedule

    def failure_hooks(
        self, type: str, common: Sequence[FailureHook]
    ) -> tuple[FailureHook, ...]:
        """Return the hooks of a type: its own, then *common*; none if it is unknown."""
        settings = self._settings.get(type)
        return () if settings is None else (*settings.on_failure, *common)

    def failure_rules(
        self, common: Sequence[FailureHook], dead_letter: str
    ) -> dict[str, FailureRule]:
        """Return what is declared about failed jobs of each type."""
        rules: dict[str, FailureRule] = {}
        for type, settings in self._settings.items():
            given = settings.dead_letter
            target = dead_letter if given is None else given
            rules[type] = FailureRule(
                hooks=bool(self.failure_hooks(type, common)),
                declared="" if target == type else target,
            )
        return rules

    def processors(
        self, types: Iterable[str] | None = None, concurrency: int | None = None
    ) -> list[Processor]:
        """
        Return the processors of *types*, in that order; None: of all, and of the queues
        that tasks name.

        Raises:
            ConfigError: There is no handler for one of them, or its jobs wait in
                another queue.
        """
        if types is None:
            return self._for_queues(self.own_queues, concurrency)
        names = list(dict.fromkeys(types))
        for name in names:
            if name not in self._settings:
                raise ConfigError(
                    f"there is no handler for type {name!r}; there are: "
                    + (", ".join(self._settings) or "none")
                )
            if (queue := self._settings[name].queue) not in (None, name):
                raise ConfigError(
                    f"jobs of type {name!r} wait in queue {queue!r}: "
                    f"name the queue instead (--queues {queue})"
                )
        return self._for_queues(names, concurrency)

    def queue_processors(
        self,
        patterns: QueuePatterns,
        concurrency: int | None,
        known: Iterable[str] = (),
    ) -> list[Processor]:
        """Return the processors of queues that match, of this program or *known*."""
        if not self._settings:
            return []
        names = {*patterns.literal, *patterns.matching([*self.own_queues, *known])}
        return [
            one._replace(rank=patterns.rank(one.type))
            for one in self._for_queues(patterns.matching(names), concurrency)
        ]

    def handler(self, name: str) -> RunHandler:
        """Return what runs jobs of the task *name*, with all middleware around it."""
        settings = self._settings.get(name)
        return release_unknown if settings is None else self._handler(settings)

    @property
    def own_queues(self) -> list[str]:
        """The queues of its types, and those that its tasks name."""
        declared = [one.queue for one in self._settings.values() if one.queue]
        return list(dict.fromkeys([*self._settings, *declared]))

    def _for_queues(
        self, names: Iterable[str], concurrency: int | None
    ) -> list[Processor]:
        tasks = {
            name: QueuedTask(self._handler(one), one.room(concurrency))
            for name, one in self._settings.items()
        }
        return [
            self._processor(name, concurrency, tasks)._replace(rank=rank)
            for rank, name in enumerate(names)
        ]

    def _processor(
        self, name: str, concurrency: int | None, tasks: Mapping[str, QueuedTask]
    ) -> Processor:
        every = self._settings
        own = every.get(name)
        handler = tasks[name].handler if own else release_unknown
        # Without a task of its name, a queue has room for the largest of its tasks.
        named = [one for one in every.values() if one.queue == name]
        using_it = [own] if own else named or list(every.values())
        return Processor(
            name,
            max(one.room(concurrency) for one in using_it),
            handler,
            ", ".join(sorted({one.execution for one in using_it})),
            max(one.weight for one in using_it) if own or named else 1,
            tasks,
        )

    def _handler(self, settings: HandlerSettings) -> RunHandler:
        handler = settings.handler
        if settings.uses:
            handler = using(settings.uses, handler)
        return compose([*self.middleware, *settings.middleware], handler)


def _check_positive(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise ValueError(f"{name} must be 1 or more, not {value}")
