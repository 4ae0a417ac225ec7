"""The event bus cluster on Redis."""

from kue.bus.redis.cluster import RedisCluster
from kue.bus.redis.inspector import ClusterInspector, inspect

__all__ = ["ClusterInspector", "RedisCluster", "inspect"]
