"""Shared data that is kept in Redis, for all processes that meet there."""

from kue.runtime.shared.redis.shared_data import RedisShared

__all__ = ["RedisShared"]
