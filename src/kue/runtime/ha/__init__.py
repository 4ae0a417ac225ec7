"""High availability: verticles of a dead node fail over to another."""

from kue.runtime.ha.failover import Failover
from kue.runtime.ha.group import DEFAULT_GROUP, HA

__all__ = ["DEFAULT_GROUP", "HA", "Failover"]
