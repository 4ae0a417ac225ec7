"""Metrics for Prometheus, in its text format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from starlette.responses import Response

from kue.client.queries import STATS_MINUTES
from kue.http.framework.operations import RequestContext, Section
from kue.http.v1.rates import MINUTE_MS, NOTHING, recent, sums_by_type
from kue.http.v1.stats import worker_counts
from kue.model.errors import StoreError
from kue.model.histogram import BOUNDS, DAY_MS, percentile
from kue.model.job import State
from kue.worker.backlog import Backlog, first_waits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kue.client.queue import Kue
    from kue.store.values import Stat

section = Section("metrics", "Metrics for Prometheus.")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: What is counted: in the name of a metric, its field, its description.
COUNTED = (
    ("added", "added", "Jobs added"),
    ("completed", "complete", "Jobs completed"),
    ("failed", "failed", "Jobs failed permanently"),
)
#: Types whose first job is read, those with the longest backlogs.
MAX_WAITS = 100
#: Quantiles of durations.
QUANTILES = (0.5, 0.95, 0.99)
#: Upper bounds of the histogram, ms: every third of those that stores count by, so that
#: each is about twice the one before, and each bucket is exact.
HISTOGRAM_BOUNDS = BOUNDS[4:76:3]
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Text = Annotated[Any, msgspec.Meta(extra_json_schema={"type": "string"})]
#: Labels with their values, and a number.
Sample = tuple[dict[str, str], float]


@section.get("/metrics", media_type="text/plain")
async def metrics(context: RequestContext) -> Text:
    """
    Jobs by type and state, counters, durations and workers, in Prometheus's format.

    Counters and the histogram count from midnight UTC, in every server alike: they
    begin at 0 again each day, which rate() and increase() treat as a restart.  Those
    named 24h and 1m are gauges of the last 24 hours and of the last full minute.  The
    summaries are of the last five minutes.  While the store is unavailable there is
    only kue_store_up, which is 0.
    """
    return await exposition(context.q)


async def exposition(q: Kue) -> Response:
    """Return all metrics in the text format of Prometheus."""
    try:
        lines = await _collect(q)
    except StoreError:
        lines = []
    up = _metric("kue_store_up", "Whether the store answers.", [({}, int(bool(lines)))])
    text = "\n".join([*up, *lines, ""])
    headers = {"Cache-Control": "no-store"}
    return Response(text, headers=headers, media_type=CONTENT_TYPE)


async def _collect(q: Kue) -> list[str]:
    counts = await q.counts_by_type()
    workers = worker_counts(await q.workers())
    limits = await q.limits()
    now = await q.now()
    waits = await first_waits(q.store, _waiting(counts), now=now, most=MAX_WAITS)
    minute = now // MINUTE_MS
    day = sums_by_type(await _last_day(q, minute))
    today = sums_by_type(await q.hours(now // DAY_MS * 24, minute // 60))
    stats = await recent(q, now)
    measured = sums_by_type(stats.all)
    last = sums_by_type(stat for stat in stats.full if stat.minute == minute - 1)
    jobs = (
        ({"type": type, "state": state.value}, number)
        for type, states in counts.items()
        for state, number in states.items()
    )
    return [
        *_metric("kue_jobs", "Jobs by type and state.", jobs),
        *_metric(
            "kue_queue_max_waiting",
            "How many jobs of a type may wait; types without a cap are left out.",
            (
                ({"type": type}, of_type.max_waiting)
                for type, of_type in limits.items()
                if of_type.max_waiting is not None
            ),
        ),
        *_metric(
            "kue_oldest_wait_seconds",
            "How long the next job to run has been waiting; 0 if none is.",
            (({"type": type}, waits.get(type, 0.0)) for type in counts),
        ),
        *_counted(
            "total",
            ", since midnight UTC",
            today,
            [*counts, *(today.keys() - counts.keys())],
            kind="counter",
        ),
        *_durations(today),
        *_counted("24h", " in the last 24 hours", day, counts),
        *_counted("1m", " in the last full minute", last, counts),
        *_metric(
            "kue_run_seconds_24h",
            "Time of all runs that ended in the last 24 hours.",
            (({"type": type}, day.get(type, NOTHING).run_ms / 1000) for type in counts),
        ),
        *_metric(
            "kue_wait_seconds",
            "How long jobs waited, in the last five minutes.",
            _quantiles({type: sums.waits for type, sums in measured.items()}),
            kind="summary",
        ),
        *_metric(
            "kue_run_seconds",
            "How long runs took, in the last five minutes.",
            _quantiles({type: sums.runs for type, sums in measured.items()}),
            kind="summary",
        ),
        *_metric(
            "kue_workers",
            "Workers; lost ones disappeared without stopping.",
            [({"state": "alive"}, workers.alive), ({"state": "lost"}, workers.lost)],
        ),
    ]


def _waiting(counts: Mapping[str, Mapping[State, int]]) -> dict[str, Backlog]:
    return {
        type: Backlog(states[State.WAITING], states[State.ACTIVE])
        for type, states in counts.items()
    }


async def _last_day(q: Kue, minute: int) -> list[Stat]:
    """Return the counters of 24 hours: by hour, except for the first, which is cut."""
    first = minute - STATS_MINUTES + 1
    hour = first // 60 + 1
    return await q.stats(first, hour * 60 - 1) + await q.hours(hour, minute // 60)


def _counted(
    span: str,
    when: str,
    sums: Mapping[str, Stat],
    types: Iterable[str],
    *,
    kind: str = "gauge",
) -> Iterator[str]:
    # Types without activity are 0: a series that comes and goes triggers no alert.
    for name, field, words in COUNTED:
        yield from _metric(
            f"kue_jobs_{name}_{span}",
            f"{words}{when}.",
            (
                ({"type": type}, getattr(sums.get(type, NOTHING), field))
                for type in types
            ),
            kind=kind,
        )


def _durations(sums: Mapping[str, Stat]) -> Iterator[str]:
    """Yield the histogram of run times, of types that had any."""
    name = "kue_run_duration_seconds"
    yield f"# HELP {name} How long runs took, since midnight UTC."
    yield f"# TYPE {name} histogram"
    for type, one in sums.items():
        if not one.runs:
            continue
        for bound in HISTOGRAM_BOUNDS:
            below = sum(number for end, number in one.runs.items() if end <= bound)
            labels = {"type": type, "le": str(bound / 1000)}
            yield f"{name}_bucket{_labels(labels)} {below}"
        total = sum(one.runs.values())
        yield f"{name}_bucket{_labels({'type': type, 'le': '+Inf'})} {total}"
        yield f"{name}_sum{_labels({'type': type})} {one.run_ms / 1000}"
        yield f"{name}_count{_labels({'type': type})} {total}"


def _quantiles(measured: Mapping[str, Mapping[int, int]]) -> Iterator[Sample]:
    for type, counts in measured.items():
        for share in QUANTILES:
            bound = percentile(counts, share)
            if bound is not None:
                yield {"type": type, "quantile": str(share)}, bound / 1000


def _metric(
    name: str, about: str, samples: Iterable[Sample], *, kind: str = "gauge"
) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        yield f"{name}{_labels(labels)} {value}"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"
