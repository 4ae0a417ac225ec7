"""Shared data: maps, locks and counters by name."""

from kue.runtime.shared.contract import AsyncMap, Counter, Lock, Shared
from kue.runtime.shared.local_data import LocalShared
from kue.runtime.shared.local_map import LocalMap, Shareable
from kue.runtime.shared.shared_data import SharedData

__all__ = [
    "AsyncMap",
    "Counter",
    "LocalMap",
    "LocalShared",
    "Lock",
    "Shareable",
    "Shared",
    "SharedData",
]
