"""
Addresses on the event bus of the events and services of a queue.

========================================================  ============================
address                                                   carries
========================================================  ============================
``vertx.kue.handler.job.<event>.<address_id>.<type>``     one event of one job
``vertx.kue.handler.job.any.<address_id>.<type>``         all events of one job
``vertx.kue.handler.workers.job_<event>``                 one event of all jobs
``vertx.kue.handler.workers.error``                       failures of all jobs
``vertx.kue.handler.workers.done.<address_id>``           the result of a run
``vertx.kue.handler.workers.done_fail.<address_id>``      the error of a run
``vertx.kue.service.job.internal``                        requests to the `JobService`
========================================================  ============================

In a type, ``.`` and ``%`` are written as ``%2E`` and ``%25``.  Events have no dot and
address ids are UUIDs, so no type can make the address of another job, and a pattern
for one type matches only that type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: What all addresses begin with by default.
ROOT = "vertx.kue"
#: Stands for every event of a job.
ANY = "any"

_ROOT = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_MAX_ROOT = 100


def escaped(type: str) -> str:
    """Escape a type so that it is one part of an address."""
    return type.replace("%", "%25").replace(".", "%2E")


@dataclass(frozen=True, slots=True)
class Addresses:
    """
    The addresses of one queue.  Queues that share a bus have different roots.

    Raises:
        ValueError: The root is not a name of letters, digits, ``_``, ``-`` and dots.
    """

    root: str = ROOT

    def __post_init__(self) -> None:
        if len(self.root) > _MAX_ROOT or not _ROOT.fullmatch(self.root):
            raise ValueError(
                f"root must be a name such as {ROOT!r} of at most {_MAX_ROOT} "
                f"characters, not {self.root[:_MAX_ROOT]!r}"
            )

    def job(self, event: str, address_id: str, type: str) -> str:
        """Return the address of an event of one job; `ANY` is that of all events."""
        return f"{self.root}.handler.job.{event}.{address_id}.{escaped(type)}"

    def queue(self, event: str) -> str:
        """Return the address of ``job_complete``, ``error``, ``done.<address_id>`` …"""
        return f"{self.root}.handler.workers.{event}"

    @property
    def service(self) -> str:
        """The address of the `JobService`."""
        return f"{self.root}.service.job.internal"
