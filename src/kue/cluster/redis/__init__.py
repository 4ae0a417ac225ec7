"""A cluster that meets in Redis."""

from kue.cluster.redis.inspector import Inspector, inspect
from kue.cluster.redis.manager import RedisCluster

__all__ = ["Inspector", "RedisCluster", "inspect"]
