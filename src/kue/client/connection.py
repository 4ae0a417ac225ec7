"""What a queue shares with the builders and handles it gives out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.aio.retry import StoreRetry
from kue.client.enqueue_batcher import EnqueueBatcher
from kue.client.subscriptions import BackgroundTasks, Subscriptions
from kue.model.draft import DraftTemplate, check_options, draft

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping
    from typing import Any

    from kue.model.job import Draft
    from kue.model.payload import JSON
    from kue.model.settings import Settings
    from kue.store.contract import Store
    from kue.store.values import Added


#: Types whose plain jobs have a mould ready.
MAX_MOULDS = 1_000


class Connection:
    """A store, how it is to be used, and everything that lives as long as the queue."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.outage = StoreRetry(store.name)
        self.background = BackgroundTasks()
        self.hub = Subscriptions(store, self.outage, self.background)
        self.producer = EnqueueBatcher(store)
        self._moulds: dict[str, DraftTemplate] = {}

    def draft(self, type: str, data: JSON, options: dict[str, Any]) -> Draft:
        """Return a valid draft; raises what `kue.model.draft.draft` raises."""
        if not options:
            return self._plain(type).draft(data)
        check_options(options)
        return draft(type, data, max_data=self.settings.max_data, **options)

    def mould(self, type: str, options: Mapping[str, Any]) -> DraftTemplate:
        """Return what makes drafts that differ in their data; raises as `draft`."""
        return DraftTemplate(type, options, max_data=self.settings.max_data)

    def _plain(self, type: str) -> DraftTemplate:
        try:
            mould = self._moulds.get(type)
        except TypeError:
            # Not even hashable: the check says what a type is.
            mould = None
        if mould is None:
            mould = self.mould(type, {})
            if len(self._moulds) < MAX_MOULDS:
                self._moulds[type] = mould
        return mould

    def add(self, draft: Draft, *, durable: bool = False) -> Awaitable[Added]:
        """Add one draft; a durable one travels alone."""
        if durable or self.hub.is_wanted:
            return self._add_when_heard(draft, durable=durable)
        return self.producer.add(draft)

    async def _add_when_heard(self, draft: Draft, *, durable: bool) -> Added:
        await self.hub.ready()
        if durable:
            [added] = await self.producer.add_batch([draft], durable=True)
            return added
        return await self.producer.add(draft)

    async def close(self) -> None:
        """Let adds on their way arrive, end what listens, close the store."""
        await self.producer.drain()
        await self.background.close()
        await self.store.close()
