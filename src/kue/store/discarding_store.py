"""Discarding store, of ``null://``: it accepts jobs and forgets them; it is empty."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from kue.store.sqlite.store import SqliteStore
from kue.store.validation import check_batch
from kue.store.values import Added

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.model.job import Draft

URL = "null://"
_ids = itertools.count(1)


class DiscardingStore(SqliteStore):
    """An empty store in memory; what is added to it gets an id, and is gone."""

    async def open(self) -> str:
        return "jobs are accepted and forgotten"

    async def add(
        self,
        drafts: Sequence[Draft],
        *,
        producer: str,
        seq: int,
        durable: bool = False,
        now: int | None = None,
    ) -> list[Added]:
        check_batch(drafts, "drafts")
        at = await self.now() if now is None else now
        return [Added(next(_ids), True, at) for _ in drafts]
