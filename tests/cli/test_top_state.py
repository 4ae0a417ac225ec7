"""``kue top`` without a terminal: keys, order, selection, figures and frames."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kue.cli.commands.top.columns import cut
from kue.cli.commands.top.figures import short, span, trend
from kue.cli.commands.top.frame import Size, TopView, frame
from kue.cli.commands.top.keys import MAX_SEQUENCE, KeyDecoder
from kue.cli.commands.top.ordering import Sort, ordered_queues, ordered_workers
from kue.cli.commands.top.snapshot import (
    TREND_MINUTES,
    Details,
    PerMinute,
    QueueFacts,
    Snapshot,
    SnapshotReader,
    Wanted,
)
from kue.cli.commands.top.state import (
    Cursor,
    Order,
    Pane,
    Screen,
    Verb,
    ViewState,
    press,
)
from kue.client.queue import Kue
from kue.http.v1.warnings import Concern
from kue.model.job import State
from kue.store.contract import Store
from kue.store.values import Pause, WorkerStatus
from tests.support.jobs import MINUTE, T0, add_many, add_one, job_in

# -- keys ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chunks", "keys"),
    [
        ([b"jk"], ["j", "k"]),
        ([b"\x1b[A\x1bOB"], ["up", "down"]),
        ([b"\x1b", b"[", b"A"], ["up"]),
        ([b"\x1b[5~\x1b[6", b"~"], ["page-up", "page-down"]),
        ([b"\t\r\n\x7f"], ["tab", "enter", "enter", "backspace"]),
        (["é".encode()[:1], "é".encode()[1:]], ["é"]),
        ([b"\xff"], ["�"]),
        # Unknown ones, and control characters without a meaning.
        ([b"\x1b[200~\x01x"], ["x"]),
        ([b"\x1bj"], ["escape", "j"]),
        ([b"\x1b\x1b[A"], ["escape", "up"]),
    ],
)
def test_bytes_become_keys(chunks: list[bytes], keys: list[str]) -> None:
    decoder = KeyDecoder()

    found = [key for chunk in chunks for key in decoder.feed(chunk)]

    assert found == keys
    assert not decoder.is_waiting


def test_an_escape_is_a_key_when_nothing_follows() -> None:
    decoder = KeyDecoder()

    assert decoder.feed(b"\x1b") == []
    assert decoder.is_waiting
    assert decoder.flush() == ["escape"]
    assert decoder.flush() == []


def test_a_sequence_without_end_is_not_kept() -> None:
    decoder = KeyDecoder()

    decoder.feed(b"\x1b[" + b"1" * 10 * MAX_SEQUENCE)

    assert not decoder.is_waiting


# -- order ---------------------------------------------------------------------


def queue(
    name: str, *, failing: float = 0, concern: str = "", **counts: int
) -> QueueFacts:
    states = {State(state): number for state, number in counts.items()}
    rates = PerMinute(failed=failing)
    return QueueFacts(name, states, rates, concern=concern)


def worker(name: str, **facts: object) -> WorkerStatus:
    given = {"deadline": T0, "alive": True, "active": 0, **facts}
    return WorkerStatus(name, **given)  # type: ignore[arg-type]


NEEDY = [
    queue("unserved", waiting=1, concern="no-worker"),
    queue("failing", failing=2),
    queue("full", waiting=500, concern="full"),
    queue("growing", waiting=500, concern="backlog"),
    queue("held", waiting=3)._replace(pause=Pause("held", T0)),
    queue("failed", failed=1),
    queue("busier", waiting=900),
    queue("busy", waiting=2),
    queue("idle"),
    queue("paused-idle")._replace(pause=Pause("paused-idle", T0)),
]


def test_queues_that_need_someone_are_first() -> None:
    shown = ordered_queues(reversed(NEEDY), Sort.NEED)

    assert [one.type for one in shown] == [one.type for one in NEEDY]


def test_queues_of_the_same_need_do_not_change_places_with_each_job() -> None:
    few = [queue("b", waiting=8), queue("a", waiting=3)]

    assert [one.type for one in ordered_queues(few, Sort.NEED)] == ["a", "b"]


def test_queues_are_sorted_and_filtered() -> None:
    many = [
        queue("b-mail", waiting=1, failed=1),
        queue("A-MAIL", waiting=7),
        queue("c"),
    ]

    assert ordered_queues(many, Sort.WAITING)[0].type == "A-MAIL"
    assert ordered_queues(many, Sort.FAILED)[0].type == "b-mail"
    assert [one.type for one in ordered_queues(many, Sort.NAME, "mail")] == [
        "A-MAIL",
        "b-mail",
    ]
    sort, seen = Sort.NEED, []
    for _ in Sort:
        seen.append(sort)
        sort = sort.next
    assert (seen, sort) == (list(Sort), Sort.NEED)


def test_workers_with_a_problem_are_first() -> None:
    workers = [
        worker("lost", alive=False, active=1),
        worker("troubled", info={"trouble": "damage"}),
        worker("paused", paused=True),
        worker("busy", active=1),
        worker("idle"),
        worker("lost-idle", alive=False),
        worker("done", alive=False, stopped=True),
    ]

    assert ordered_workers(reversed(workers)) == workers


# -- state ---------------------------------------------------------------------

SNAPSHOT = Snapshot(
    T0,
    {
        "email": queue("email", failed=3),
        "report": queue("report")._replace(pause=Pause("report", T0)),
        "video": queue("video"),
    },
    {
        "gone": worker("gone", alive=False, stopped=True),
        "web-1": worker("web-1"),
        "web-2": worker("web-2", paused=True),
    },
)
BY_NAME = ViewState(sort=Sort.NAME).pinned(SNAPSHOT)
ON_WORKERS = replace(BY_NAME, pane=Pane.WORKERS)
ALL_PAUSED = SNAPSHOT._replace(
    queues={"email": queue("email")._replace(all_paused=True)},
    concerns=[Concern("paused", "everything is paused")],
)


def pressed(
    state: ViewState, keys: list[str], snapshot: Snapshot = SNAPSHOT
) -> ViewState:
    for key in keys:
        state, _ = press(state, key, snapshot)
    return state


@pytest.mark.parametrize(
    ("keys", "selected"),
    [
        ([], "email"),
        (["down"], "report"),
        (["j", "j", "j", "j"], "video"),
        (["j", "k", "up"], "email"),
        (["end"], "video"),
        (["G", "g"], "email"),
        (["page-down"], "video"),
    ],
)
def test_keys_select_a_queue(keys: list[str], selected: str) -> None:
    assert pressed(BY_NAME, keys).queue.name == selected


def test_the_selection_stays_with_its_name() -> None:
    state = replace(BY_NAME, queue=Cursor("report", 1))
    fewer = SNAPSHOT._replace(queues={"video": SNAPSHOT.queues["video"]})

    assert replace(state, sort=Sort.FAILED).pinned(SNAPSHOT).queue.name == "report"
    # Where it is gone, the row in its place is selected.
    assert state.pinned(fewer).queue == Cursor("video", 0)
    assert state.pinned(Snapshot(T0)).queue == Cursor()


@pytest.mark.parametrize(
    ("state", "keys", "order", "status"),
    [
        (BY_NAME, ["p"], Order(Verb.PAUSE, "email"), ""),
        (BY_NAME, ["j", "p"], Order(Verb.RESUME, "report"), ""),
        (ON_WORKERS, ["p"], Order(Verb.RESUME_WORKER, "web-2"), ""),
        (ON_WORKERS, ["j", "p"], Order(Verb.PAUSE_WORKER, "web-1"), ""),
        (ON_WORKERS, ["G", "p"], None, "gone is stopped; live workers are paused"),
        (ON_WORKERS, ["r"], None, "r retries jobs of a queue; Tab selects queues"),
        (BY_NAME, ["r", "y"], Order(Verb.RETRY, "email", 3), ""),
        (BY_NAME, ["r", "n"], None, "nothing was changed"),
        (BY_NAME, ["r", "enter"], None, "nothing was changed"),
        (BY_NAME, ["j", "r"], None, "report has no failed jobs"),
        (BY_NAME, ["P", "y"], Order(Verb.PAUSE, None), ""),
        (BY_NAME, ["s"], None, "queues are sorted by waiting"),
    ],
)
def test_keys_order_changes(
    state: ViewState, keys: list[str], order: Order | None, status: str
) -> None:
    after, found = press(pressed(state, keys[:-1]), keys[-1], SNAPSHOT)

    assert (found, after.status) == (order, status)


@pytest.mark.parametrize(
    ("key", "snapshot", "status"),
    [
        ("p", Snapshot(T0), "there is no queue to pause"),
        ("r", Snapshot(T0), "there is no queue with jobs to retry"),
        ("d", Snapshot(T0), "there is no queue to show"),
        ("p", ALL_PAUSED, "every queue is paused; P resumes them"),
    ],
)
def test_what_cannot_be_done_is_explained(
    key: str, snapshot: Snapshot, status: str
) -> None:
    state = ViewState().pinned(snapshot)

    after, order = press(state, key, snapshot)

    assert (order, after.status) == (None, status)


def test_a_question_names_the_number_and_the_queue() -> None:
    asked = pressed(BY_NAME, ["r"]).asked

    assert asked is not None
    assert asked.question == "retry 3 failed jobs of email?"


def test_a_pause_of_everything_is_ended_without_a_question() -> None:
    _, order = press(ViewState(), "P", ALL_PAUSED)

    assert order == Order(Verb.RESUME, None)


@pytest.mark.parametrize(
    ("keys", "pattern", "is_typing"),
    [
        (["/", "p", "q"], "pq", True),
        (["/", "a", "b", "backspace", "enter"], "a", False),
        (["/", "a", "escape"], "", False),
        (["/", "a", "clear", "j", "k"], "jk", True),
        (["/", *"x" * 100], "x" * 60, True),
    ],
)
def test_a_filter_is_typed(keys: list[str], pattern: str, is_typing: bool) -> None:
    state = pressed(BY_NAME, keys)

    assert (state.queue_pattern, state.is_typing) == (pattern, is_typing)
    assert state.worker_pattern == ""


def test_escape_goes_back_step_by_step_and_then_leaves() -> None:
    state = pressed(BY_NAME, ["/", "e", "enter", "d"])
    assert state.screen is Screen.DETAILS

    state = pressed(state, ["escape"])
    assert (state.screen, state.pattern) == (Screen.LISTS, "e")
    state = pressed(state, ["escape"])
    assert (state.pattern, state.is_leaving) == ("", False)
    assert pressed(state, ["escape"]).is_leaving


@pytest.mark.parametrize("before", [[], ["/"], ["r"], ["?"], ["d"]])
def test_ctrl_c_leaves_from_everywhere(before: list[str]) -> None:
    assert pressed(BY_NAME, [*before, "interrupt"]).is_leaving


# -- figures and frames --------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "width", "text"),
    [
        (0, 6, "·"),
        (0.2, 6, "<1"),
        (7, 6, "7"),
        (99_999, 6, "99,999"),
        (123_456, 6, "123.5k"),
        (123_456, 5, "123k"),
        (999_999_999, 5, "1000M"),
        (1_234_567, 7, "1.2M"),
        (10**20, 5, ">9999"),
    ],
)
def test_numbers_fit(number: float, width: int, text: str) -> None:
    assert short(number, width) == text
    assert len(text) <= width


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0ms"),
        (999, "999ms"),
        (59_999, "59s"),
        (270_000, "4m30s"),
        (99 * MINUTE, "1h39m"),
        (100 * 3_600_000, "4d04h"),
        (120 * 86_400_000, "120d"),
    ],
)
def test_durations_fit(milliseconds: int, text: str) -> None:
    assert span(milliseconds) == text
    assert len(text) <= 6


def test_a_trend_has_a_bar_for_each_number() -> None:
    assert trend([0, 1, 50, 100]) == "▁▂▅█"
    assert trend([0, 0]) == "▁▁"
    assert trend([]) == ""


def test_what_is_too_long_is_cut_by_its_cells() -> None:
    assert cut("abcdef", 4) == "abc…"
    assert cut("漢字漢字", 5) == "漢字…"
    assert cut("abc", 3) == "abc"


@pytest.mark.parametrize("columns", [20, 40, 80, 140])
@pytest.mark.parametrize("lines", [6, 24, 60])
@pytest.mark.parametrize("screen", list(Screen))
@pytest.mark.parametrize("pane", list(Pane))
def test_a_frame_is_as_large_as_the_terminal(
    columns: int, lines: int, screen: Screen, pane: Pane
) -> None:
    names = [f"a-rather-long-name-of-a-queue-{number}" for number in range(100)]
    queues = {name: queue(name, waiting=10**7) for name in names}
    snapshot = Snapshot(T0, queues, {"web-1": worker("web-1", active=3)})
    state = replace(ViewState(), screen=screen, pane=pane).pinned(snapshot)

    made = frame(TopView(state, snapshot, store="store", size=Size(columns, lines)))

    assert len(made) == lines
    assert max(len(line.plain) for line in made) <= columns


def test_rows_that_are_asked_for_are_those_that_are_shown() -> None:
    """With thousands of types, only those on the screen are read in detail."""
    queues = {f"t{number:04}": queue(f"t{number:04}") for number in range(5000)}
    snapshot = Snapshot(T0, queues)
    state = ViewState(sort=Sort.NAME, queue=Cursor("t3000")).pinned(snapshot)
    view = TopView(state, snapshot, size=Size(80, 24))

    shown = "\n".join(line.plain for line in frame(view))

    assert len(view.wanted().types) < 24
    assert "t3000" in view.wanted().types
    assert all(type in shown for type in view.wanted().types)
    assert "> t3000" in shown
    assert "of 5,000 queues" in shown


# -- reading -------------------------------------------------------------------


async def test_rates_are_those_of_the_last_sixty_seconds(
    q: Kue, kue_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_many(kue_store, 60, "email", now=T0)
    await add_many(kue_store, 7, "email", now=T0 + MINUTE)
    reader = SnapshotReader(q)
    at = T0 // MINUTE * MINUTE + MINUTE

    async def now() -> int:
        return at + 15_000

    monkeypatch.setattr(q, "now", now)
    [email] = (await reader.read()).queues.values()

    # A quarter of the current minute is over: three quarters of the one before count.
    assert email.per_minute.added == 60 * 0.75 + 7
    assert len(email.trend) == TREND_MINUTES


async def test_full_minutes_are_read_once(
    q: Kue, kue_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_one(kue_store, now=T0)
    asked: list[tuple[int, int]] = []
    moment = T0
    stats = q.stats

    async def now() -> int:
        return moment

    async def noted_stats(since: int, until: int) -> object:
        asked.append((since, until))
        return await stats(since, until)

    monkeypatch.setattr(q, "now", now)
    monkeypatch.setattr(q, "stats", noted_stats)
    reader = SnapshotReader(q)
    seen = []
    for minutes in (0, 0, 1, 5, 60):
        moment = T0 + minutes * MINUTE
        seen.append((await reader.read()).queues["email"].recent.added)

    first = T0 // MINUTE
    assert asked == [
        (first - 15, first),
        (first - 1, first),
        (first, first + 1),
        (first + 1, first + 5),
        (first + 45, first + 60),
    ]
    assert seen == [1, 1, 1, 1, 0]


async def test_the_oldest_job_is_found_behind_those_of_higher_priority(
    q: Kue, kue_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_one(kue_store, "email", now=T0, priority="low")
    await add_one(kue_store, "email", now=T0 + 4_000, priority="high")
    await job_in(kue_store, State.FAILED, "report")

    async def now() -> int:
        return T0 + 5_000

    monkeypatch.setattr(q, "now", now)
    reader = SnapshotReader(q)
    snapshot = await reader.read()
    details = await reader.details(
        snapshot, Wanted(["email", "report", "gone"], queue="report")
    )

    assert details.oldest == {"email": 5_000}
    assert details.errors is not None
    assert [group.count for group in details.errors.groups] == [1]
    assert await reader.details(snapshot, Wanted()) == Details()
