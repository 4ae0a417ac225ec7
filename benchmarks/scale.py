"""The scale of a measurement: for reliable ratios, or for a quick check."""

from __future__ import annotations

from dataclasses import dataclass

MILLION = 1_000_000
#: The minimum of the small backlog, and the size of a piece of a drain.
THOUSAND = 1_000
#: Waiting jobs added to measure memory.
WEIGHED = 100_000


@dataclass(frozen=True)
class Scale:
    """Rounds, and jobs in each."""

    rounds: int
    #: In bulk, bare and through a store, in each round …
    jobs: int
    #: … in pieces of this many.
    piece: int
    one_by_one: int
    together: int
    #: Through a whole worker.
    work: int
    huey: int
    #: Rounds of the backlog figure, and pieces of a thousand jobs in each.
    backlog_rounds: int
    pieces: int


FULL = Scale(
    rounds=5,
    jobs=50_000,
    piece=5_000,
    one_by_one=2_000,
    together=20_000,
    work=30_000,
    huey=1_000,
    backlog_rounds=5,
    pieces=10,
)
QUICK = Scale(
    rounds=2,
    jobs=20_000,
    piece=5_000,
    one_by_one=500,
    together=5_000,
    work=10_000,
    huey=300,
    backlog_rounds=3,
    pieces=5,
)
