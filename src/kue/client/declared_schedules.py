"""
Schedules that a program declares, and writing them to the store when a worker starts.

A program owns the schedules of its modules: those that a module no longer declares are
removed.  Programs with other modules can share the store, and what was added at run
time stays.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kue.model.errors import StoreCorrupt
from kue.model.schedule_options import schedule_of
from kue.worker.pools.child_names import MAIN, module_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kue.model.job import Draft
    from kue.model.schedule import Schedule
    from kue.model.schedule_options import ScheduleOptions
    from kue.store.contract import Store

logger = logging.getLogger(__name__)
_MAX_TRIES = 50


class DeclaredSchedule(NamedTuple):
    """A schedule as it was given, before its times are known."""

    name: str
    draft: Draft
    #: The module that declares it; empty when it is added at run time.
    module: str
    options: ScheduleOptions


def module_of(function: Callable[..., Any]) -> str:
    """Return the module of a function; that of a script is the name of its file."""
    return module_named(getattr(function, "__module__", None) or "")


def module_named(given: str) -> str:
    """Return the name that a module has in the store; of a script, that of its file."""
    name = module_name(given)
    file = getattr(sys.modules[MAIN], "__file__", None) if name == MAIN else None
    return Path(file).stem if file else name


async def put_schedule(
    store: Store, declared: DeclaredSchedule
) -> tuple[Schedule, str]:
    """
    Write a schedule; return it, and whether it was "added", "changed" or "unchanged".

    Raises:
        ValueError, TypeError, BadPayload: It makes no sense.
        StoreCorrupt: The stored one of that name cannot be read.
    """
    name, draft, module, options = declared
    # Others may change it in between, but not each time.
    for _ in range(_MAX_TRIES):
        found = await store.schedules(name)
        if found and found[0].draft.type != draft.type:
            # It belongs to another shard then.
            await store.unschedule(name)
            found = []
        known = found[0] if found else None
        now = await store.now()
        wanted = schedule_of(
            name, draft, now=now, stored=known, declared_by=module, **options
        )
        if wanted == known:
            return wanted, "unchanged"
        if await store.schedule(wanted, expected=known):
            return wanted, "changed" if known else "added"
    # It is there, and yet reading finds none; a newer version may have written it.
    raise StoreCorrupt(f"the stored schedule {name!r} cannot be read; delete it first")


async def reconcile(
    store: Store,
    declared: Mapping[str, DeclaredSchedule],
    modules: Collection[str],
) -> dict[str, list[str]]:
    """
    Write what is declared, and remove what *modules* declared before and no longer do.

    Returns the names by what was done: "added", "changed" and "removed".
    """
    done: dict[str, list[str]] = {"added": [], "changed": [], "removed": []}
    for one in declared.values():
        try:
            _, word = await put_schedule(store, one)
        except StoreCorrupt as exc:
            logger.error("a declared schedule is not written: %s", exc)
        else:
            done.setdefault(word, []).append(one.name)
    for known in await store.schedules():
        is_ours = bool(known.declared_by) and known.declared_by in modules
        if is_ours and known.name not in declared:
            await store.unschedule(known.name)
            done["removed"].append(known.name)
    done.pop("unchanged", None)
    for word, names in done.items():
        if names:
            logger.info("schedules %s: %s", word, ", ".join(names))
    return done
