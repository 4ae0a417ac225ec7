"""Connection: what a queue shares with its builders and handles."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from kue.aio.retry import StoreRetry
from kue.aio.tasks import BackgroundTasks
from kue.client.alert_events import AlertEvents
from kue.client.enqueue_batcher import EnqueueBatcher
from kue.client.job_listeners import JobListeners
from kue.client.queue_errors import QueueErrors
from kue.client.subscriptions import Subscriptions
from kue.model.draft import DraftTemplate, draft
from kue.model.duration import Duration, epoch_ms, milliseconds
from kue.model.errors import DuplicateJob
from kue.model.retry_policy import MAX_STALLS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence

    from kue.model.job import Draft
    from kue.model.payload import JSON
    from kue.model.settings import Settings
    from kue.store.contract import Store
    from kue.store.values import Added


#: Most types with a cached template for jobs without options.
MAX_TEMPLATES = 1_000


class Connection:
    """A store with its settings, and everything that lives as long as the queue."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.store_retry = StoreRetry(store.name)
        self.background = BackgroundTasks()
        #: Adds that were put off until now.
        self.deferred = BackgroundTasks()
        self.subscriptions = Subscriptions(store, self.store_retry, self.background)
        self.errors = QueueErrors(self.subscriptions, self.background)
        self.subscriptions.callbacks.on_error = self.errors.report
        self.store_retry.on_error = self.errors.report
        self.job_listeners = JobListeners(store, self.store_retry, self.background)
        self.alert_events = AlertEvents(store, self.store_retry, self.background)
        self.batcher = EnqueueBatcher(store)
        #: Options that settings make the default.
        self._defaults: dict[str, Any] = {}
        if settings.max_stalls != MAX_STALLS:
            self._defaults["max_stalls"] = settings.max_stalls
        if not settings.job_events:
            self._defaults["events"] = False
        self._plain = lru_cache(MAX_TEMPLATES)(partial(self.template, options={}))

    def twin(self) -> Connection:
        """Return the same connection for another event loop."""
        return Connection(self.store.twin(), self.settings)

    def home_of(self, added: Added) -> Connection:
        """Return the connection of the store that has the job just *added*."""
        return self

    async def home_of_flow(self) -> Connection:
        """Return the connection of the one store that a flow added now goes to."""
        return self

    def counterpart(self, other: Connection) -> Connection:
        """Return the connection to the same store as *other*, which is not ours."""
        return self

    def draft(self, type: str, data: JSON, options: dict[str, Any]) -> Draft:
        """Return a valid draft; raises what `kue.model.draft.draft` raises."""
        if not options and isinstance(type, str):
            return self._plain(type).draft(data)
        given = {**self._defaults, **options}
        return draft(type, data, max_data=self.settings.max_data, **given)

    def template(self, type: str, options: Mapping[str, Any]) -> DraftTemplate:
        """Return a template for drafts that differ in their data; raises as `draft`."""
        given = {**self._defaults, **options}
        return DraftTemplate(type, given, max_data=self.settings.max_data)

    def add(self, draft: Draft, *, durable: bool = False) -> Awaitable[Added]:
        """Add one draft; a durable one is sent alone; may raise `DuplicateJob`."""
        if draft.on_conflict == "reject":
            return self._add_or_reject(draft, durable=durable)
        return self._add(draft, durable=durable)

    async def _add_or_reject(self, draft: Draft, *, durable: bool) -> Added:
        added = await self._add(draft, durable=durable)
        if not added.new:
            raise DuplicateJob(added.id, draft.unique or "")
        return added

    def _add(self, draft: Draft, *, durable: bool) -> Awaitable[Added]:
        if durable or self.subscriptions.is_wanted:
            return self._add_when_subscribed(draft, durable=durable)
        return self.batcher.add(draft)

    async def add_batch(
        self, drafts: Sequence[Draft], *, durable: bool = False
    ) -> list[Added]:
        """Add up to MAX_BATCH drafts in a separate call; may raise `QueueFull`."""
        return await self.batcher.add_batch(drafts, durable=durable)

    async def _add_when_subscribed(self, draft: Draft, *, durable: bool) -> Added:
        await self.subscriptions.ready()
        if durable:
            [added] = await self.batcher.add_batch([draft], durable=True)
            return added
        return await self.batcher.add(draft)

    async def run_added(self, types: Iterable[str], added: Sequence[Added]) -> None:
        """Run jobs of *types* that were just added in a flow, unless workers do."""

    async def moment(self, when: Duration | datetime, *, field: str) -> int:
        """Return an aware datetime, or the store's time after a duration; Unix ms."""
        if isinstance(when, datetime):
            return epoch_ms(when, field=field)
        wait = milliseconds(when, field=field)
        return await self.store.now() + wait

    async def close(self) -> None:
        """Let pending adds arrive, end subscriptions, close the store."""
        await self.deferred.finish()
        await self.batcher.drain()
        await self.background.close()
        await self.store.close()
