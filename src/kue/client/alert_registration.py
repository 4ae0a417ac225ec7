"""Alerts declared in code: thresholds and hooks, and writing them to the store."""

from __future__ import annotations

import logging
import sys
from functools import partial
from typing import TYPE_CHECKING, TypeVar, Unpack

from kue.client.declared_schedules import module_named
from kue.client.hooks import AlertHook, Hooks
from kue.model.alert_options import AlertOptions, rule_of
from kue.model.names import check_path_name
from kue.worker.alert_records import StoredRule, change, place_of, stored_rules

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kue.client.registry import HandlerRegistry
    from kue.model.alerts import AlertRule
    from kue.store.contract import Store

logger = logging.getLogger(__name__)

OnAlert = TypeVar("OnAlert", bound=AlertHook)


class AlertRegistration:
    """The methods of a queue that declare alerts."""

    _handlers: HandlerRegistry
    _hooks: Hooks

    def alert(
        self, type: str | None = None, /, **options: Unpack[AlertOptions]
    ) -> None:
        """
        Declare when an alert is raised for jobs of *type*; None: of every other type.

        Those of a type replace those of None as a whole::

            q.alert("email", oldest="5m", backlog=10_000, failures=0.2, no_worker="1m")
            q.alert(oldest="1h", webhook="https://chat.example.com/hooks/1f0c")

        A worker that starts writes them into the store.  What is changed there at run
        time, with `set_alert` or elsewhere, stays until the declaration changes.

        Keyword Args:
            oldest: A job has been waiting for that long.
            backlog: That many jobs wait.
            failures: That share of the jobs that ended failed: 0.2 or "20%".
            within, least: The time that *failures* is measured over (5 minutes), and
                how many jobs must have ended in it (20).
            no_worker: Jobs wait, and for that long no live worker has taken their type.
            remind: Report an alert that is still in force again, after 1 hour; 0:
                never.
            webhook: A URL that reports are posted to, as JSON.

        Raises:
            ValueError: The type has some already, or an option makes no sense.
        """
        rule = rule_of(**options)
        if type is not None:
            check_path_name(type, what="type")
        if type in self._handlers.alerts:
            what = "the default" if type is None else repr(type)
            raise ValueError(f"the alerts of {what} are declared twice")
        module = module_named(sys._getframe(1).f_globals.get("__name__", ""))
        self._handlers.modules.add(module)
        self._handlers.alerts[type] = (rule, module)

    def on_alert(self, hook: OnAlert) -> OnAlert:
        """
        Call ``hook(notice)`` when an alert is raised, repeated or resolved.

        In the process that noticed it, which is one of those that run workers, a
        dashboard or ``kue queue monitor``; ``q.on("alert", …)`` is notified in any.
        A decorator; it returns its argument.
        """
        self._hooks.alert.append(hook)
        return hook


async def reconcile_alerts(
    store: Store,
    declared: Mapping[str | None, tuple[AlertRule, str]],
    modules: Collection[str],
) -> None:
    """Write what is declared, and delete what *modules* declared before."""
    if not declared and not modules:
        return
    for type, (rule, module) in declared.items():
        write = partial(_declared, rule, module)
        if await change(store, place_of(type), StoredRule, write) is not None:
            logger.info("alerts of %s are written", type or "all other types")
    for type, known in (await stored_rules(store)).items():
        if known.module and known.module in modules and type not in declared:
            await store.forget(*place_of(type))


def _declared(
    rule: AlertRule, module: str, known: StoredRule | None
) -> StoredRule | None:
    """Return what to store; None if the code has not changed since it was written."""
    is_same = known is not None and (known.declared, known.module) == (rule, module)
    return None if is_same else StoredRule(rule, declared=rule, module=module)
