"""A cluster that meets in Redis."""

from kue.cluster.redis.manager import RedisCluster

__all__ = ["RedisCluster"]
