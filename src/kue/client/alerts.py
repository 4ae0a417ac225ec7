"""Alerts of a queue at run time: thresholds, those in force, and silenced names."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Unpack

from msgspec.structs import replace

from kue.model.alert_options import AlertOptions, rule_of
from kue.model.alerts import AlertRule
from kue.model.names import check_name, check_path_name
from kue.worker.alert_monitor import AlertMonitor
from kue.worker.alert_records import (
    ALERTS,
    MAX_MONITORED,
    MAX_RULES,
    MAX_SILENCED,
    MONITORED,
    SILENCED,
    Silenced,
    StoredRule,
    change,
    decoded,
    place_of,
    read_silenced,
    read_state,
    stored_rules,
)

if TYPE_CHECKING:
    from kue.client.connection import Connection
    from kue.client.hooks import Hooks
    from kue.model.alerts import ActiveAlert


class Alerts:
    """The methods of a queue for alerts."""

    _connection: Connection
    _hooks: Hooks

    async def set_alert(
        self, type: str | None = None, /, **options: Unpack[AlertOptions]
    ) -> AlertRule:
        """
        Set the thresholds of *type*, or of every other type; options as of `alert`.

        Replaces earlier ones.  Of a type that declares some in code, these stay until
        the declaration changes.  Without a threshold the type has no alerts, whatever
        the default is.

        Raises:
            ValueError, TypeError: An option makes no sense, or there are too many.
        """
        rule = rule_of(**options)
        store = self._connection.store
        if type is not None:
            check_path_name(type, what="type")
            known = await stored_rules(store)
            if type not in known and len(known) >= MAX_RULES:
                raise ValueError(f"there are alerts of {MAX_RULES} types; clear some")
        await change(store, place_of(type), StoredRule, lambda was: _set(was, rule))
        return rule

    async def clear_alert(self, type: str | None = None) -> bool:
        """
        Remove the thresholds of *type*, or the default; return whether there were any.

        The default then applies to the type.  Those that are declared in code are
        switched off until the declaration changes.
        """
        store = self._connection.store
        known = (await stored_rules(store)).get(type)
        if known is None:
            return False
        if known.declared is None:
            return await store.forget(*place_of(type))
        off = AlertRule()
        await change(store, place_of(type), StoredRule, lambda was: _set(was, off))
        return bool(known.rule.thresholds)

    async def alert_rules(self) -> dict[str | None, AlertRule]:
        """Return all thresholds, by type; that of None is the default."""
        rules = await stored_rules(self._connection.store)
        return {type: one.rule for type, one in rules.items()}

    async def alerts(self) -> list[ActiveAlert]:
        """Return the alerts in force, as they were last checked."""
        return list((await read_state(self._connection.store)).active)

    @property
    def alert_monitor(self) -> AlertMonitor:
        """What checks the thresholds, and calls the alert hooks of this process."""
        notify = partial(self._hooks.notify_alerts, self._connection.background)
        return AlertMonitor(self._connection.store, on_notices=notify)

    async def check_alerts(self) -> list[ActiveAlert]:
        """
        Check the thresholds now, unless that was done in the last ten seconds.

        Reports what changed, as workers do, and returns the alerts in force.
        """
        await self._connection.alert_events.ready()
        return list((await self.alert_monitor.check()).active)

    # -- silenced and monitored --------------------------------------------------

    async def silence(
        self, type: str | None = None, *, tag: str | None = None
    ) -> Silenced:
        """
        Let jobs of *type*, or with *tag*, cause no warnings and alerts.

        They run as before, and searches find them.

        Raises:
            ValueError: Neither or both are given, or there are too many.
        """
        field, name = _one_of(type, tag)

        def add(was: Silenced | None) -> Silenced:
            names = {*getattr(was or Silenced(), field), name}
            if len(names) > MAX_SILENCED:
                raise ValueError(f"{MAX_SILENCED} {field} are silenced; unsilence some")
            return replace(was or Silenced(), **{field: tuple(sorted(names))})

        store = self._connection.store
        return await change(store, (ALERTS, SILENCED), Silenced, add) or Silenced()

    async def unsilence(
        self, type: str | None = None, *, tag: str | None = None
    ) -> bool:
        """Undo `silence`; return whether it was silenced."""
        field, name = _one_of(type, tag)

        def remove(was: Silenced | None) -> Silenced | None:
            names = getattr(was or Silenced(), field)
            if was is None or name not in names:
                return None
            return replace(was, **{field: tuple(one for one in names if one != name)})

        store = self._connection.store
        return await change(store, (ALERTS, SILENCED), Silenced, remove) is not None

    async def silenced(self) -> Silenced:
        """Return the silenced types and tags."""
        return await read_silenced(self._connection.store)

    async def monitor_tag(self, tag: str) -> list[str]:
        """
        Show the jobs with *tag* on the dashboard; return all tags that it shows.

        Raises:
            ValueError: There are too many, or it is not a tag.
        """
        check_name(tag, what="tag")

        def add(was: list[str] | None) -> list[str]:
            tags = sorted({*(was or ()), tag})
            if len(tags) > MAX_MONITORED:
                raise ValueError(f"{MAX_MONITORED} tags are monitored; remove some")
            return tags

        store = self._connection.store
        return await change(store, (ALERTS, MONITORED), list[str], add) or []

    async def unmonitor_tag(self, tag: str) -> bool:
        """Undo `monitor_tag`; return whether the tag was monitored."""

        def remove(was: list[str] | None) -> list[str] | None:
            return [one for one in was if one != tag] if was and tag in was else None

        store = self._connection.store
        return await change(store, (ALERTS, MONITORED), list[str], remove) is not None

    async def monitored_tags(self) -> list[str]:
        """Return the monitored tags, sorted."""
        text = await self._connection.store.kept(ALERTS, MONITORED)
        return decoded(text, list[str]) or []


def _set(known: StoredRule | None, rule: AlertRule) -> StoredRule:
    return StoredRule(rule) if known is None else replace(known, rule=rule)


def _one_of(type: str | None, tag: str | None) -> tuple[str, str]:
    if (type is None) is (tag is None):
        raise ValueError("give a type or a tag, and not both")
    if type is not None:
        return "types", check_path_name(type, what="type")
    return "tags", check_name(tag, what="tag")
