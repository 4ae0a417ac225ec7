"""
The queue for ordinary code: every verb of `kue.Kue`, blocking.

Nothing is written twice.  A portal is a thread with an event loop; a second queue on
the same jobs lives there, and each verb here is the call of its namesake there.
"""

from kue.aio.loop_thread import BackgroundLoop
from kue.client.sync.builder import SyncJobBuilder
from kue.client.sync.handle import SyncJobHandle
from kue.client.sync.queue import SyncKue

__all__ = ["BackgroundLoop", "SyncJobBuilder", "SyncJobHandle", "SyncKue"]
