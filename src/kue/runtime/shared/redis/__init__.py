"""Shared data in Redis, for all processes that use it."""

from kue.runtime.shared.redis.shared_data import RedisShared

__all__ = ["RedisShared"]
