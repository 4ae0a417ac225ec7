"""Records of alerts in the store: thresholds, silenced names, and what is in force."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from kue.model.alerts import RESERVED, AlertRule, AlertState
from kue.model.errors import StoreCorrupt
from kue.store.values import MAX_KEPT, KeepRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.store.contract import Store

logger = logging.getLogger(__name__)

#: Rooms: thresholds by type, and everything that there is one of.
RULES, ALERTS = "alert", "alerts"
#: The name of the thresholds of all other types; no type can have it.
DEFAULT = "."
#: The records of `ALERTS`.
STATE, SILENCED, MONITORED = "state", "silenced", "monitored"
#: Rules, silenced names and monitored tags that one store may have.
MAX_RULES, MAX_SILENCED, MAX_MONITORED = 500, 100, 50
_MAX_TRIES = 50

T = TypeVar("T")


class StoredRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """Thresholds as they are stored, with what a program declared."""

    rule: AlertRule
    #: As the code had it when it was written: a change at run time lasts until the
    #: code changes.
    declared: AlertRule | None = None
    #: The module that declares it; empty when it was set at run time.
    module: str = ""


class Silenced(msgspec.Struct, frozen=True, omit_defaults=True):
    """Types and tags whose jobs cause no warnings and alerts, sorted."""

    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


class AlertRules(NamedTuple):
    """All thresholds of a store."""

    default: AlertRule | None
    by_type: dict[str, AlertRule]

    def __bool__(self) -> bool:
        return self.default is not None or bool(self.by_type)

    def of(self, type: str) -> AlertRule | None:
        """Return the rule that applies to *type*: its own, else the default."""
        own = self.by_type.get(type)
        if own is None and not type.startswith(RESERVED):
            return self.default
        return own

    @property
    def every(self) -> list[AlertRule]:
        return [*self.by_type.values(), *([self.default] if self.default else [])]


def place_of(type: str | None) -> tuple[str, str]:
    """Return room and name of the rule of *type*; None is the default."""
    return (RULES, DEFAULT if type is None else type)


async def stored_rules(store: Store) -> dict[str | None, StoredRule]:
    """Return all rules, by type; that of None is the default."""
    texts = await store.all_kept(RULES)
    found = {type: decoded(text, StoredRule) for type, text in texts.items()}
    return {
        None if type == DEFAULT else type: rule
        for type, rule in found.items()
        if rule is not None
    }


async def read_rules(store: Store) -> AlertRules:
    """Return all rules."""
    rules = {type: one.rule for type, one in (await stored_rules(store)).items()}
    default = rules.pop(None, None)
    return AlertRules(default, {type or "": rule for type, rule in rules.items()})


async def read_state(store: Store) -> AlertState:
    """Return the alerts in force and the last reports."""
    return decoded(await store.kept(ALERTS, STATE), AlertState) or AlertState()


async def read_silenced(store: Store) -> Silenced:
    """Return the silenced types and tags."""
    return decoded(await store.kept(ALERTS, SILENCED), Silenced) or Silenced()


def decoded(text: str | None, kind: type[T]) -> T | None:
    """Return a record; None when there is none, or it cannot be read."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError) as exc:
        # A newer version may have written it.
        logger.warning("a stored %s cannot be read: %s", kind.__name__, exc)
        return None


def encoded(value: object) -> str:
    return msgspec.json.encode(value).decode()


def state_text(state: AlertState) -> str:
    """Return a state as it is stored; of one that is too large, fewer reports."""
    text = encoded(state)
    while len(text.encode()) > MAX_KEPT and state.notices:
        half = len(state.notices) // 2 + 1
        state = msgspec.structs.replace(state, notices=state.notices[half:])
        text = encoded(state)
    return text


async def change(
    store: Store,
    place: tuple[str, str],
    kind: type[T],
    make: Callable[[T | None], T | None],
) -> T | None:
    """
    Replace a record by what *make* returns for it; None leaves it.

    Raises:
        StoreCorrupt: The record changes each time it is read.
    """
    room, name = place
    for _ in range(_MAX_TRIES):
        text = await store.kept(room, name)
        made = make(decoded(text, kind))
        if made is None:
            return None
        if await store.keep(KeepRequest(room, name, encoded(made), was=text)):
            return made
    raise StoreCorrupt(f"the record {name!r} of {room} changes all the time; try again")
