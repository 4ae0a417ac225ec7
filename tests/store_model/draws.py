"""What Hypothesis may draw: few values, so that they meet often, and odd ones."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from kue.model import backoff
from kue.model.draft import draft
from kue.model.fingerprint import fingerprint
from kue.model.job import (
    Cancelled,
    Completed,
    Draft,
    Ending,
    Error,
    Failed,
    Released,
    Retried,
    Stalled,
    State,
)
from kue.model.schedule import Schedule
from kue.model.schedule_options import MIN_EVERY_MS, schedule_of
from kue.model.settings import Keep
from kue.store.values import Filter, Limits, WhenFull
from tests.support.schedules import moment

#: The second has everything that structures keys and headers.
TYPES = ("mail", 'a:{b}%41"\\ é')
WORKERS = ("w1", 'w:2"{}')
GROUPS = ("red", "blue:{x}")
KEYS = ("one", "two:{%}")
SCHEDULES = ("s1", "s:2")
INTERVALS = (MIN_EVERY_MS, 1000, 3000, 61_000)
OOPS = Error("Oops", 'it "broke"\n\\n', "line 1\nline 2")

types = st.sampled_from(TYPES)
concurrency = st.sampled_from([None, 1, 1, 2])
some_types = st.sampled_from([TYPES[:1], TYPES[1:], TYPES, TYPES])
workers = st.sampled_from(WORKERS)
states = st.sampled_from(State)
payloads: st.SearchStrategy[Any] = st.sampled_from(
    [None, {}, [], {"i": 1}, "text\n\x00", 2**70, {"a": [None, "é", {"b": ""}]}]
)
percents = st.integers(0, 100)
priorities = st.sampled_from([-1024, -10, 0, 0, 0, 10, 1023])
steps = st.sampled_from([1, 10, 500, 1000, 1000, 3000, 3000, 6000, 61_000])
steps_back = st.sampled_from([-1, -500, -3000])
bounds = st.integers(-4, 4)
repeats = st.sampled_from([0, 0, 0, 1])
verbs = st.sampled_from(
    ["add", "add", "claim", "claim", "settle", "settle", "settle", "time", "tend"]
)
overdue = st.sampled_from(["", "", "", "", "lease", "ttl"])
sizes = st.integers(1, 4)
leases = st.sampled_from([4000, 4000, 4000, 1000])

#: Signals, and waits for them.
signals = st.sampled_from(["go", "go", "stop"])
WAITS = ("wait:1:go", "wait:1:go", "wait:2:go", "wait:1:stop")
endings: st.SearchStrategy[Ending] = st.one_of(
    st.builds(Completed, payloads),
    st.builds(Completed, payloads),
    st.builds(Retried, st.just(OOPS), st.sampled_from([0, 0, 1000])),
    st.builds(Failed, st.just(OOPS)),
    st.builds(
        Released,
        st.sampled_from([0, 1000]),
        st.booleans(),
        st.sampled_from(["", 'not "now"']),
    ),
    st.builds(
        Released,
        st.sampled_from([0, 1000, 3000]),
        suspended=st.sampled_from(["sleep:1", "sleep:2", *WAITS]),
    ),
    st.builds(Stalled, st.just(OOPS), st.sampled_from([0, 1000])),
    st.builds(Cancelled, st.sampled_from(["", "enough\n"])),
)

limits = st.builds(
    Limits,
    concurrency=st.sampled_from([None, None, 1, 2]),
    rate=st.sampled_from([None, None, 1, 3]),
    per=st.sampled_from([1000, 3000]),
    per_key=st.sampled_from([None, 1, 1, 2]),
)

#: Which jobs start first, in types that have an order.
orders: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"fair": True},
        {"fair": True, "weights": {GROUPS[0]: 2, GROUPS[1]: 60}},
        # Such that jobs of different priorities rarely have the same rank.
        {"ageing": 97},
        {"ageing": 3001},
    ]
)


@st.composite
def ordered_limits(draw: st.DrawFn) -> Limits:
    """Draw limits with an order and a cap, or with one of them."""
    order = draw(orders)
    reactions = [WhenFull.REFUSE, WhenFull.WAIT]
    reactions += [] if order.keys() & {"fair", "ageing"} else [WhenFull.DROP_OLDEST] * 2
    cap = draw(st.sampled_from([None, None, 2, 4]))
    when_full = draw(st.sampled_from(reactions))
    others = draw(st.one_of(st.just(Limits()), limits))
    return msgspec.structs.replace(
        others, **order, max_waiting=cap, when_full=when_full
    )


_counts = st.sampled_from([None, None, 0, 1, 2])
_ages = st.sampled_from([None, None, 1, 3000])
keeps = st.one_of(
    st.none(), st.builds(Keep, _counts, _ages, _counts, _ages, _counts, _ages)
)


def limit_of(type: str) -> str:
    """Return the limit of *type*: types on different shards cannot share one."""
    return f"limit of {type}"


def rarely(*values: Any) -> st.SearchStrategy[Any]:
    """Draw None most of the time."""
    return st.sampled_from([None] * (2 * len(values)) + list(values))


@st.composite
def key_rules(draw: st.DrawFn, *, waits: bool) -> dict[str, Any]:
    """Draw options about a unique key; those of a job that *waits* replace none."""
    if not waits and draw(st.sampled_from([False, False, False, True])):
        return {"debounce": 3, "debounce_max": draw(st.sampled_from([None, 5]))}
    conflicts = ["existing", "reject"] if waits else ["existing", "replace", "replace"]
    return {
        "delay": draw(st.sampled_from([0, 0, 0, 1, 3])),
        "unique_for": draw(st.sampled_from([0, 0, 5])),
        "unique_until": draw(st.sampled_from(["end", "end", "start"])),
        "unique_at_most": draw(st.sampled_from([None, None, 6])),
        "on_conflict": draw(st.sampled_from(conflicts)),
    }


@st.composite
def drafts(draw: st.DrawFn, parents: list[int], keys: tuple[str, ...] = KEYS) -> Draft:
    """Draw a draft, which may wait for some of *parents*."""
    links = draw(st.sampled_from([0, 0, 0, 1, 2])) if parents else 0
    after = [draw(st.sampled_from(parents)) for _ in range(links)]
    unique = draw(rarely(None, *keys))
    type = draw(types)
    # One of both: which of them lets a job start first is not for the model to say.
    group = draw(st.sampled_from([None, *GROUPS]))
    limit = draw(rarely("", KEYS[1])) if group is None else None
    rules: dict[str, Any] = {"delay": draw(st.sampled_from([0, 0, 0, 1, 3]))}
    if unique is not None:
        rules = draw(key_rules(waits=bool(after)))
    return draft(
        type,
        draw(payloads),
        priority=draw(priorities),
        attempts=draw(st.integers(1, 3)),
        backoff=draw(rarely(backoff.fixed(1), backoff.listed(0, 2))),
        ttl=draw(rarely(2, 20)),
        expires=draw(rarely(4, 12)),
        unique=unique,
        **rules,
        group=group,
        limited_by=None if limit is None else {limit_of(type): limit},
        tags=draw(st.sampled_from([(), (), ("red",), ("red", "blue")])),
        after=after,
        after_any=bool(after) and draw(st.booleans()),
        remove_on_complete=draw(st.sampled_from([False, False, False, True])),
        retention=draw(rarely(0, 5)),
        delivery=draw(
            st.sampled_from(["at-least-once", "at-least-once", "at-most-once"])
        ),
    )


@st.composite
def schedules(
    draw: st.DrawFn, name: str, now: int, stored: Schedule | None
) -> Schedule:
    """Draw a schedule, which may take the place of the *stored* one."""
    # Who holds a key when a schedule fires depends on what else upkeep does, and in
    # which order; a walk of its own looks at that.
    drawn = draw(drafts([], keys=()))
    if stored is not None:
        drawn = msgspec.structs.replace(drawn, type=stored.draft.type)
    missed = draw(st.sampled_from(["once", "skip", "all"]))
    # One that makes up for all it missed in a walk must not add hundreds of jobs.
    interval = 61_000 if missed == "all" else draw(st.sampled_from(INTERVALS))
    start = moment(now + draw(st.sampled_from([-5000, 0, 1000])))
    timing: dict[str, Any] = draw(
        st.sampled_from(
            [
                {"every": interval / 1000, "start": start},
                {"every": interval / 1000, "end": moment(now + 9000)},
                {"cron": "* * * * *", "jitter": "3s"},
                {"at": start, "jitter": "1s"},
            ]
        )
    )
    overlap = draw(st.sampled_from(["allow", "skip", "queue-one"]))
    options = {"stored": stored, "missed": missed, "overlap": overlap, **timing}
    return schedule_of(name, drawn, now=now, **options)


filters = st.builds(
    Filter,
    type=rarely(*TYPES),
    state=rarely(*State),
    tag=rarely("red", "blue"),
    text=rarely("é", '"I"', "line"),
    error=rarely("oops", "BROKE"),
    worker=rarely(*WORKERS),
    group=rarely(*GROUPS),
    priority=rarely(0, -10),
    fingerprint=rarely(fingerprint(OOPS)),
)
