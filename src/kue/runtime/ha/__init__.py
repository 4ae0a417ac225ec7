"""High availability: verticles of a dead node fail over to another."""

from kue.runtime.ha.failover import DEFAULT_GROUP, HA, Failover

__all__ = ["DEFAULT_GROUP", "HA", "Failover"]
