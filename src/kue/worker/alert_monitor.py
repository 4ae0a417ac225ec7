"""
Alert monitor: compares thresholds with the queue, and reports once what changed.

Every worker, dashboard and ``kue queue monitor`` has one, since no worker of a queue
can notice that the queue has none.  The state is one record, which is written by
comparison: of those that check at the same time one succeeds, and reports.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kue.aio.throttled_log import ThrottledLog
from kue.model.alerts import (
    MAX_UNSERVED,
    MINUTE_MS,
    AlertFacts,
    AlertState,
    advance,
    breaches,
)
from kue.model.errors import StoreError
from kue.model.job import State
from kue.store.values import KeepRequest, Stat, summed
from kue.worker import webhook
from kue.worker.alert_records import (
    ALERTS,
    STATE,
    AlertRules,
    Silenced,
    change,
    decoded,
    read_rules,
    read_silenced,
    state_text,
)
from kue.worker.unhandled_types import takes
from kue.worker.waiting_time import oldest_waits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kue.model.alerts import AlertNotice, AlertRule
    from kue.store.contract import Store
    from kue.store.values import WorkerStatus
    from kue.worker.shared_context import Sleep

logger = logging.getLogger(__name__)

#: Before the first check of a process, and between two; another process may check, too.
FIRST_SECONDS = 1.0
CHECK_SECONDS = 12.0
#: After a check no other is made for this long.
TURN_MS = 10_000
#: Types whose oldest job is looked for in one check, those with most jobs first.
MAX_LOOKS = 500


class AlertMonitor:
    """Checks the thresholds of a store, and reports alerts."""

    def __init__(
        self,
        store: Store,
        *,
        on_notices: Callable[[Sequence[AlertNotice]], None] | None = None,
        on_webhooks: Callable[[], None] | None = None,
    ) -> None:
        self._store = store
        self._on_notices = on_notices
        #: Called when a rule has a webhook; may be called again.
        self._on_webhooks = on_webhooks
        self._log = ThrottledLog(logger)
        #: Whether it checks on its own: a caller of `check` shows the result itself.
        self._is_service = False

    async def run(self, sleep: Sleep = asyncio.sleep) -> None:
        """Check until cancelled; what goes wrong is logged and tried again."""
        self._is_service = True
        seconds = FIRST_SECONDS
        while True:
            await sleep(seconds * random.uniform(1, 1.2))
            seconds = CHECK_SECONDS
            try:
                await self.check()
            except StoreError as exc:
                logger.debug("alerts could not be checked: %s", exc)
            except Exception as exc:
                self._log.error("alerts could not be checked", exc=exc)

    async def check(self) -> AlertState:
        """Check if nobody has done so just now; return the state of the alerts."""
        store = self._store
        text = await store.kept(ALERTS, STATE)
        state = decoded(text, AlertState) or AlertState()
        now = await store.now()
        # A clock that stepped back must not keep anybody from checking.
        if not 0 <= now - state.checked_at < TURN_MS:
            state = await self._take_turn(state, text, now)
        if self._on_webhooks is not None and (state.webhooks or await self._reports()):
            self._on_webhooks()
        return state

    async def _reports(self) -> bool:
        """Return whether failures of jobs are reported to a webhook."""
        rules = await self._store.failure_rules()
        return any(rule.webhook for rule in rules.values())

    async def _take_turn(
        self, state: AlertState, text: str | None, now: int
    ) -> AlertState:
        store = self._store
        rules = await read_rules(store)
        if not rules and not state.active and state.sent == state.number:
            return state
        after = await _checked(store, rules, state, now)
        new = state_text(after)
        if not await store.keep(KeepRequest(ALERTS, STATE, new, was=text)):
            # Another process was faster, and reports.
            return state
        notices = [one for one in after.notices if one.number > state.number]
        if self._is_service:
            for notice in notices:
                logger.warning("alert %s: %s", notice.status, notice.message)
        if notices and self._on_notices is not None:
            self._on_notices(notices)
        if after.sent < after.number:
            await self._send(after, rules)
        return after

    async def _send(self, state: AlertState, rules: AlertRules) -> None:
        """Add the jobs of webhooks, also those that a process left that stopped."""
        for notice in state.notices:
            rule = rules.of(notice.type)
            if notice.number > state.sent and rule is not None and rule.webhook:
                await webhook.add_alert(self._store, notice, rule.webhook)

        def sent(now: AlertState | None) -> AlertState | None:
            is_done = now is None or now.sent >= state.number
            return None if is_done or now is None else replace(now, sent=state.number)

        await change(self._store, (ALERTS, STATE), AlertState, sent)


async def _checked(
    store: Store, rules: AlertRules, state: AlertState, now: int
) -> AlertState:
    """Return the state after a check."""
    silenced = await read_silenced(store)
    facts = await read_facts(store, rules, silenced, state, now)
    wanted = {type: rule for type in facts if (rule := rules.of(type)) is not None}
    after = advance(
        state,
        {type: list(breaches(rule, facts[type])) for type, rule in wanted.items()},
        {type: rule.remind for type, rule in wanted.items()},
        now,
    )
    unserved = {
        type: now - one.unserved
        for type, one in facts.items()
        if one.unserved is not None
    }
    return replace(
        after,
        mark=secrets.token_hex(4),
        webhooks=any(rule.webhook for rule in rules.every),
        unserved=dict(sorted(unserved.items())[:MAX_UNSERVED]),
    )


async def read_facts(
    store: Store,
    rules: AlertRules,
    silenced: Silenced,
    state: AlertState | None,
    now: int,
) -> dict[str, AlertFacts]:
    """
    Return what thresholds are compared with, by type.

    Without a *state*, jobs have had no worker for as long as the oldest one waits.
    """
    counts, workers = await asyncio.gather(store.count(), store.workers())
    last = now // MINUTE_MS
    minutes = max((rule.minutes for rule in rules.every), default=1)
    stats = await store.stats(last - minutes + 1, last)
    by_type: dict[str, list[Stat]] = {}
    for stat in stats:
        by_type.setdefault(stat.type, []).append(stat)
    waiting = {type: one.get(State.WAITING, 0) for type, one in counts.items()}
    types = counts.keys() | by_type.keys()
    wanted = {
        type: rule
        for type in types - set(silenced.types)
        if (rule := rules.of(type)) is not None and rule.thresholds
    }
    oldest = await _oldest(store, wanted, waiting, silenced, state is None, now)
    facts = {}
    for type, rule in wanted.items():
        recent = [
            one for one in by_type.get(type, ()) if one.minute > last - rule.minutes
        ]
        ended = summed(0, type, recent)
        number, age = waiting.get(type, 0), oldest.get(type)
        facts[type] = AlertFacts(
            waiting=number,
            oldest=age if number else None,
            ended=ended.ended,
            failed=ended.failed,
            unserved=_unserved(type, rule, number, workers, state, age, now),
        )
    return facts


def _unserved(
    type: str,
    rule: AlertRule,
    waiting: int,
    workers: Sequence[WorkerStatus],
    state: AlertState | None,
    oldest: int | None,
    now: int,
) -> int | None:
    is_served = any(takes(worker, type) for worker in workers)
    if rule.no_worker is None or not waiting or is_served:
        return None
    if state is None:
        return oldest or 0
    return max(0, now - state.unserved.get(type, now))


async def _oldest(
    store: Store,
    wanted: Mapping[str, AlertRule],
    waiting: Mapping[str, int],
    silenced: Silenced,
    is_stateless: bool,
    now: int,
) -> dict[str, int | None]:
    """Return how long the oldest jobs wait, of the types where that matters."""
    types = [
        type
        for type, rule in wanted.items()
        if waiting.get(type)
        and (rule.oldest is not None or (is_stateless and rule.no_worker is not None))
    ]
    types.sort(key=lambda type: -waiting[type])
    return {
        type: await oldest_waits(store, now, type, silenced=silenced.tags)
        for type in types[:MAX_LOOKS]
    }
