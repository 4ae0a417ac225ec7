"""Shared data: maps, locks and counters by name."""

from kue.runtime.shared.base import AsyncMap, Counter, Lock, Shared
from kue.runtime.shared.data import SharedData
from kue.runtime.shared.local import LocalShared
from kue.runtime.shared.local_map import LocalMap, Shareable

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
