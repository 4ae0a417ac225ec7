"""
Blocking queue: every method of `kue.Kue` for code that does not await.

A `BackgroundLoop` is a thread with an event loop.  A second queue on the same jobs
lives there, and each method here calls its namesake there.
"""

from kue.aio.loop_thread import BackgroundLoop
from kue.client.sync.handle import SyncJobHandle
from kue.client.sync.queue import SyncJobBuilder, SyncKue

__all__ = ["BackgroundLoop", "SyncJobBuilder", "SyncJobHandle", "SyncKue"]
