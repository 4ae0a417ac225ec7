"""The native API, by section.  A new section is one module and one line here."""

from kue.http.v1 import (
    accounts,
    bulk,
    bus,
    events,
    failures,
    health,
    job_actions,
    jobs,
    metrics,
    queues,
    stats,
    workers,
)

SECTIONS = (
    health.section,
    stats.section,
    queues.section,
    # Before the single jobs: its paths have a word where theirs have an id.
    bulk.section,
    jobs.section,
    job_actions.section,
    failures.section,
    workers.section,
    bus.section,
    events.section,
    metrics.section,
    *accounts.SECTIONS,
)

__all__ = ["SECTIONS"]
