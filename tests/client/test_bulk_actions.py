"""Acting on many jobs: those named, and all ended ones that match."""

from __future__ import annotations

import msgspec
import pytest

from kue import InvalidTransition, JobNotFound, Kue, State
from kue.client.bulk_actions import MAX_GROUPS, ErrorCounter
from kue.client.selection import Selection
from kue.model.fingerprint import shape
from kue.model.job import Error, Failed
from kue.model.job_json import job_detail
from kue.store.contract import Store
from kue.store.values import Result
from tests.support.jobs import DAY, MINUTE, add_many, claim, end, get_one, job_in

#: Sweeps leave alone what ends after they began: these jobs must have ended before.
PAST = 1_700_000_000_000


async def fail(store: Store, type: str, *messages: str, now: int = PAST) -> list[int]:
    """Let jobs fail, one for each message."""
    await add_many(store, len(messages), type, now=now)
    jobs = await claim(store, type, limit=len(messages), now=now)
    for job, message in zip(jobs, messages, strict=True):
        await end(store, job, Failed(Error("OSError", message)), now=now)
    return [job.id for job in jobs]


async def test_each_job_of_many_is_answered_for(q: Kue, kue_store: Store) -> None:
    failed = await job_in(kue_store, State.FAILED, "a")
    delayed = await job_in(kue_store, State.DELAYED, "b")
    waiting = await job_in(kue_store, State.WAITING, "c")

    answers = await q.retry_many([failed, delayed, waiting, 999, failed])

    assert [answer.job_id for answer in answers] == [failed, delayed, waiting, 999]
    assert answers[0].error is None
    assert isinstance(answers[1].error, InvalidTransition)
    assert str(answers[1].error) == f"job {delayed} is delayed and cannot be retried"
    assert answers[2].word is Result.ALREADY
    assert isinstance(answers[3].error, JobNotFound)


async def test_jobs_as_they_were_read_are_retried_from_that_ending_alone(
    q: Kue, kue_store: Store
) -> None:
    """R-1: the second of two bulk retries of the same failures does nothing."""
    await fail(kue_store, "email", "one", "two")
    jobs = [job async for batch in q.ended(Selection()) for job in batch]

    first = await q.retry_many(jobs)
    again = await claim(kue_store, "email", limit=1, now=PAST)
    await end(kue_store, again[0], Failed(Error("OSError", "again")), now=PAST)
    second = await q.retry_many(jobs)

    assert {answer.word for answer in first} == {Result.DONE}
    assert {answer.word for answer in second} == {Result.ALREADY}
    assert await q.count(State.FAILED) == 1


async def test_many_are_promoted_if_they_still_wait(q: Kue, kue_store: Store) -> None:
    """R-1: what has ended is not run again."""
    delayed = await job_in(kue_store, State.DELAYED, "a")
    blocked = await job_in(kue_store, State.BLOCKED, "b")
    done = await job_in(kue_store, State.COMPLETE, "c")

    answers = await q.promote_many([delayed, blocked, done])

    words = [answer.word for answer in answers]
    assert words == [Result.DONE, Result.DONE, Result.REFUSED]
    assert str(answers[2].error) == f"job {done} is complete and cannot be promoted"


async def test_a_retry_with_a_delay_comes_later(q: Kue, kue_store: Store) -> None:
    job_id = await job_in(kue_store, State.FAILED)

    [answer] = await q.retry_many([job_id], delay="1h")

    assert answer.error is None
    assert (await get_one(kue_store, job_id)).state is State.DELAYED


async def test_many_are_cancelled_moved_and_removed(q: Kue, kue_store: Store) -> None:
    ids = await add_many(kue_store, 1_100)

    assert all(a.word is Result.DONE for a in await q.cancel_many(ids, reason="no"))
    await q.move_many(ids[:3], State.WAITING)
    [refused, done] = await q.remove_many([ids[0], ids[5]], states=[State.CANCELLED])

    assert await q.counts("email") == dict.fromkeys(State, 0) | {
        State.WAITING: 3,
        State.CANCELLED: 1_096,
    }
    assert str(refused.error) == f"job {ids[0]} is waiting and cannot be removed"
    assert done.error is None


async def test_a_running_job_is_removed_by_force_only(q: Kue, kue_store: Store) -> None:
    job_id = await job_in(kue_store, State.ACTIVE)

    [refused] = await q.remove_many([job_id])
    [removed] = await q.remove_many([job_id], force=True)

    assert refused.word is Result.REFUSED
    assert removed.error is None
    assert not await q.exists(job_id)


async def test_all_that_match_are_retried_and_no_others(
    q: Kue, kue_store: Store
) -> None:
    await fail(kue_store, "mail", *["timeout"] * 400)
    await fail(kue_store, "mail", *["timeout"] * 200)
    await fail(kue_store, "mail", "refused")
    await fail(kue_store, "other", "timeout")
    seen: list[int] = []

    swept = await q.retry_all(
        Selection(type="mail", error="TIMEOUT"), on_progress=seen.append
    )

    assert swept == (600, 0, 0)
    assert seen[-1] == 600
    assert await q.count(State.WAITING, "mail") == 600
    assert await q.count(State.FAILED) == 2


async def test_a_unique_key_that_is_taken_holds_a_retry_back(
    q: Kue, kue_store: Store
) -> None:
    await job_in(kue_store, State.FAILED, unique="k", now=PAST)
    await job_in(kue_store, State.WAITING, unique="k", now=PAST)

    assert await q.retry_all(Selection()) == (0, 0, 1)


async def test_jobs_are_selected_by_when_they_ended(q: Kue, kue_store: Store) -> None:
    old = await fail(kue_store, "mail", "a", "b", now=PAST)
    new = await fail(kue_store, "mail", "c", now=PAST + DAY)

    async def ids(**wanted: int) -> list[int]:
        selection = Selection(**wanted)  # type: ignore[arg-type]
        return [job.id async for jobs in q.ended(selection) for job in jobs]

    assert await ids(since=PAST + MINUTE) == new
    assert await ids(since=PAST + DAY, until=PAST + DAY + 1) == new
    assert await ids(until=PAST + DAY) == old
    assert await q.remove_all(Selection(until=PAST + DAY)) == (2, 0, 0)
    assert await ids() == new


async def test_the_newest_come_first_when_asked(q: Kue, kue_store: Store) -> None:
    old = await fail(kue_store, "mail", "a", now=PAST)
    new = await fail(kue_store, "mail", "b", now=PAST + DAY)

    def wanted(since: int | None) -> Selection:
        return Selection(since=since, until=PAST + 2 * DAY)

    async def ids(since: int | None) -> list[int]:
        pages = q.ended(wanted(since), descending=True)
        return [job.id async for jobs in pages for job in jobs]

    assert await ids(None) == new + old
    assert await ids(PAST + 1) == new


async def test_errors_that_differ_in_numbers_are_one_group(
    q: Kue, kue_store: Store
) -> None:
    ids = await fail(
        kue_store, "mail", "order 7: refused", "order 12: refused", "no such file"
    )

    many, one = await q.group_errors(Selection())

    assert (many.type, many.kind, many.count) == ("mail", "OSError", 2)
    assert (many.message, many.job_id) == ("order 12: refused", ids[1])
    assert (one.message, one.count) == ("no such file", 1)


async def test_errors_beyond_number_are_counted_by_kind(kue_store: Store) -> None:
    words = [f"{chr(97 + i % 26)}{'z' * (i // 26)}" for i in range(MAX_GROUPS + 5)]
    tally = ErrorCounter()
    for start in range(0, len(words), 500):
        ids = await fail(kue_store, "mail", *words[start : start + 500])
        for job in await kue_store.get(ids):
            assert job is not None
            tally.count(job)

    groups = tally.groups()

    assert len(groups) == MAX_GROUPS + 1
    assert (groups[0].message, groups[0].count) == ("", 5)


def test_the_shape_of_a_message_leaves_out_what_varies() -> None:
    a = shape("job 7 at 0xdeadbeef01 of 123e4567-e89b-12d3-a456-426614174000\nmore")

    assert a == "job # at # of #"


def test_jobs_that_have_not_ended_cannot_be_selected() -> None:
    with pytest.raises(ValueError, match="jobs do not end as active; they end as"):
        Selection(state=State.ACTIVE)


async def test_a_document_says_everything_but_the_token(
    q: Kue, kue_store: Store
) -> None:
    job_id = await job_in(kue_store, State.FAILED, "mail", tags=["a"], attempts=1)

    job = await get_one(kue_store, job_id)
    said = msgspec.json.decode(msgspec.json.encode(job_detail(job)))

    assert (said["id"], said["state"], said["tags"]) == (job_id, "failed", ["a"])
    assert said["error"] == {"kind": "ValueError", "message": "oops"}
    [attempt] = said["history"]
    assert (attempt["outcome"], attempt["worker"]) == ("failed", "w1")
    assert "token" not in said
    assert "run" not in attempt


async def test_errors_are_told_and_retried_by_fingerprint(q: Kue) -> None:
    await fail(q.store, "email", "no user 7", "no user 8", "gone")
    errors = await q.errors("email", limit=1)
    [group] = errors.groups

    swept = await q.retry_all(Selection(fingerprint=group.fingerprint))

    assert (group.count, errors.total, swept.done) == (2, 2, 2)
    assert [group.message for group in (await q.errors()).groups] == ["gone"]
