"""The native API, by section.  A new section is one module and one line here."""

from kue.http.v1 import (
    accounts,
    alerts,
    batches,
    bulk_actions,
    bus,
    circuits,
    connections,
    error_groups,
    events,
    failures,
    flows,
    health,
    job_actions,
    job_stream,
    jobs,
    limits,
    metrics,
    queues,
    scaling,
    schedules,
    stats,
    workers,
)

SECTIONS = (
    health.section,
    stats.section,
    queues.section,
    circuits.section,
    scaling.section,
    alerts.section,
    failures.section,
    # Before single jobs: its paths have a word where theirs have an id.
    bulk_actions.section,
    jobs.section,
    job_actions.section,
    job_stream.section,
    error_groups.section,
    flows.section,
    batches.section,
    schedules.section,
    limits.section,
    workers.section,
    bus.section,
    events.section,
    metrics.section,
    connections.section,
    *accounts.SECTIONS,
)

__all__ = ["SECTIONS"]
