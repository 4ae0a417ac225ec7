"""Shared data that is kept in Redis, for all processes that meet there."""

from kue.runtime.shared.redis.shared import RedisShared

__all__ = ["RedisShared"]
