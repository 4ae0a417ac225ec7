"""The Redis store: every verb, assembled from ``verbs/``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.damage import guards_replies
from kue.store.redis.verbs.check import Checking
from kue.store.redis.verbs.maintenance import MaintenanceVerbs
from kue.store.redis.verbs.records import Keeping
from kue.store.redis.verbs.watch import Listening
from kue.store.redis.verbs.workers import Workers

if TYPE_CHECKING:
    from kue.model.settings import Settings


@guards_replies
class RedisStore(MaintenanceVerbs, Workers, Listening, Checking, Keeping):
    """Jobs in Redis, Valkey, or a Redis Cluster."""

    @classmethod
    def from_settings(cls, settings: Settings) -> RedisStore:
        """Return the store that *settings* describe; nothing is opened yet."""
        return cls(settings)
