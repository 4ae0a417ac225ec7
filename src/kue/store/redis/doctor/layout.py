"""Where jobs live: the keys of every shard, by the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.redis.keys import MAX_SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.store.redis.keys import Keys


class Layout:
    """The keys of all shards of a store."""

    def __init__(self, keys: Sequence[Keys]) -> None:
        self._keys = keys

    @property
    def shards(self) -> int:
        return len(self._keys)

    def shard_of(self, job_id: int) -> int:
        return job_id % len(self._keys)

    def keys_of(self, job_id: int) -> Keys:
        return self._keys[self.shard_of(job_id)]

    def sequence_of(self, job_id: int) -> int:
        return job_id // len(self._keys)

    def is_at_home(self, job_id: int, shard: int | None = None) -> bool:
        """Tell whether there can be such a job, on *shard* or at all."""
        is_possible = self.sequence_of(job_id) <= MAX_SEQUENCE
        return is_possible and shard in (None, self.shard_of(job_id))
