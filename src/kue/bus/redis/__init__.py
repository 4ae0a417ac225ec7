"""A cluster that meets in Redis."""

from kue.bus.redis.cluster import RedisCluster
from kue.bus.redis.inspector import Inspector, inspect

__all__ = ["Inspector", "RedisCluster", "inspect"]
