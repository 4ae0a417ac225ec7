"""
Failure reporter: turns failures that the store noted into the jobs that report them.

Each failure becomes a job that calls hooks (`TYPE`), a dead letter, a webhook, or
several of these, as the rule of its type says.  Those jobs have unique keys: when this
is done again, because a process died before the failure was deleted, none is added.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kue.model.backoff import exponential
from kue.model.dead_letter import DeadLetter
from kue.model.draft import draft
from kue.model.errors import KueError
from kue.model.failure_rule import rule_of
from kue.worker import webhook

if TYPE_CHECKING:
    from kue.aio.retry import StoreRetry
    from kue.model.failure_rule import FailureRule
    from kue.model.job import Draft, Job
    from kue.store.contract import Store
    from kue.store.values import Failure, Outcome
    from kue.worker.lane import Processor

logger = logging.getLogger(__name__)

#: The type of jobs that call hooks.
TYPE = "kue.failure"
#: Failures that are read and reported at once.
BATCH = 50
#: How often those that a cap keeps back are all tried again.
ALL_SECONDS = 60.0
#: How long a failure is known to be reported.
REMEMBER_SECONDS = 86_400.0
ATTEMPTS = 5
FIRST_RETRY, LAST_RETRY = "1s", "1h"
#: If no worker has the hooks for so long, they are not called.
EXPIRES = "7d"


class FailureOptions(NamedTuple):
    """What a program declares about failed jobs."""

    #: Types whose failures are to be reported at once: they have a rule.
    types: frozenset[str] = frozenset()
    #: Calls the program's hooks; None if it has none.
    hooks: Processor | None = None


class FailureReporter:
    """Reports failures when it is woken, until none is left."""

    def __init__(
        self, store: Store, store_retry: StoreRetry, types: frozenset[str]
    ) -> None:
        self._store = store
        self._store_retry = store_retry
        #: Types that are known to have a rule: their failures are reported at once.
        self._types = types
        self._is_wanted = asyncio.Event()
        self._is_busy = False
        #: Failures that the last pass, or this one so far, could not report.
        self._kept_back = 0
        #: When all of them are tried again, by the event loop's clock.
        self._all_at = 0.0

    def note(self, outcome: Outcome) -> None:
        """Report a failure of this worker's own run at once."""
        if outcome.job.name in self._types or outcome.job.type in self._types:
            self.wake()

    def wake(self) -> None:
        self._is_wanted.set()

    async def is_done(self) -> bool:
        """
        Return whether no failure is left that can be reported now; report what is left.

        One that a cap of waiting jobs keeps back is left to a later worker.
        """
        if self._is_busy or self._is_wanted.is_set():
            return False
        if not await self._store.failures(limit=1, skip=self._kept_back):
            return True
        self.wake()
        return False

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await self._is_wanted.wait()
            self._is_busy = True
            self._is_wanted.clear()
            await self._report_all()
            self._is_busy = False

    async def _report_all(self) -> None:
        """Report what can be; of many that are kept back, try only the oldest again."""
        now = asyncio.get_running_loop().time()
        known, self._kept_back = self._kept_back, 0
        if now >= self._all_at:
            # Others may have reported some of them, so that we missed later ones.
            known, self._all_at = 0, now + ALL_SECONDS
        while await self._store_retry.persist("failures", self._report):
            if self._kept_back == BATCH:
                self._kept_back = max(known, BATCH)

    async def _report(self) -> bool:
        """Report some failures; return whether there may be more."""
        reported = await report(self._store, self._kept_back)
        self._kept_back += reported.kept_back
        return reported.has_more


class Reported(NamedTuple):
    """What came of reporting some failures."""

    #: How many a cap of waiting jobs keeps back.
    kept_back: int
    #: Whether there may be more failures than these.
    has_more: bool


async def report(store: Store, skip: int = 0) -> Reported:
    """Add the jobs that report the oldest failures, except for the first *skip*."""
    failures = await store.failures(limit=BATCH, skip=skip)
    if not failures:
        return Reported(0, False)
    rules = await store.failure_rules()
    jobs = await store.get([failure.job_id for failure in failures])
    drafts: list[Draft] = []
    #: To which failure each draft belongs.
    owners: list[Failure] = []
    for failure, job in zip(failures, jobs, strict=True):
        name = failure.type if job is None else job.name
        rule = rule_of(rules, name, failure.type)
        made = await _drafts(store, failure, job, rule)
        drafts += made
        owners += [failure] * len(made)
    refused = await _add(store, drafts, owners)
    done = [failure for failure in failures if failure.key not in refused]
    await store.forget_failures(done)
    return Reported(len(failures) - len(done), len(failures) == BATCH)


async def _drafts(
    store: Store, failure: Failure, job: Job | None, rule: FailureRule
) -> list[Draft]:
    made: list[Draft] = []
    if rule.hooks:
        made.append(_hook_draft(failure))
    was = failure.of(job)
    if was is None:
        if rule.dead_letter or rule.webhook:
            logger.error(
                "job %d of type %s was removed before its failure was reported; keep "
                "failed jobs for longer",
                failure.job_id,
                failure.type,
            )
        return made
    if rule.dead_letter:
        made += _letters(failure, was, rule.dead_letter)
    if rule.webhook:
        made.append(await _webhook_draft(store, failure, was, rule.webhook))
    return made


async def _add(store: Store, drafts: list[Draft], owners: list[Failure]) -> set[str]:
    """Add *drafts*; return the keys of failures of which some were refused."""
    if not drafts:
        return set()
    added = await store.add(drafts, producer=secrets.token_hex(8), seq=1)
    pairs = zip(owners, added, strict=True)
    refused = {owner.key for owner, one in pairs if one.is_refused}
    if refused:
        logger.warning(
            "%d failures are not reported yet: a cap of waiting jobs is reached",
            len(refused),
        )
    return refused


def _letters(failure: Failure, job: Job, type: str) -> list[Draft]:
    """Return the dead letter of a job; none if it cannot be made, which is logged."""
    key = f"{TYPE}:{failure.key}"
    try:
        letter = DeadLetter.of(job)
        return [letter.forwarded(type, unique=key, seconds=REMEMBER_SECONDS)]
    except (ValueError, TypeError, KueError) as exc:
        # Others must be reported all the same.
        logger.error("job %d cannot be forwarded to %s: %s", job.id, type, exc)
        return []


def _hook_draft(failure: Failure) -> Draft:
    return draft(
        TYPE,
        msgspec.to_builtins(failure),
        unique=failure.key,
        unique_for=REMEMBER_SECONDS,
        attempts=ATTEMPTS,
        backoff=exponential(FIRST_RETRY, max=LAST_RETRY, jitter=0.5),
        expires=EXPIRES,
        parent=failure.job_id,
        remove_on_complete=True,
    )


async def _webhook_draft(store: Store, failure: Failure, job: Job, url: str) -> Draft:
    name = f"failure {failure.key}"
    error = job.error
    kind, message = (error.kind, error.message) if error else ("", "")
    body = {
        "id": name,
        "event": "job_failed",
        "job": job.id,
        "queue": job.type,
        "name": job.name,
        "error": {"kind": kind, "message": message},
        "attempts": job.attempts,
        "tags": job.tags,
        "at": failure.at,
        "text": f"Kue job {job.id} of {job.name} failed: {kind}: {message}",
    }
    delivery = webhook.Delivery(url, msgspec.json.encode(body).decode())
    data = {"notice": name, "job": job.id, "queue": job.type, "status": "failed"}
    return await webhook.prepare(store, delivery, data, tag="failure")
