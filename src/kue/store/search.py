"""
Search: reads jobs page by page, and returns those that match a filter.

How far one call looks is bounded, in jobs and in bytes.  The log of a job is read only
if everything else matches, and words are left that are neither in its data nor in its
error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from kue.model.job import Job
from kue.model.search_text import LOG_LINES, missing
from kue.store.batches import bytes_of_job
from kue.store.values import (
    MAX_BATCH,
    MAX_PAGE_BYTES,
    MAX_SCAN,
    MAX_SCAN_BYTES,
    Filter,
    Page,
    PageRequest,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kue.store.contract import Store

#: Logs read at once.
_LOGS_AT_ONCE = 20
#: Jobs read at once while few are left to find.
_FEW = 50


class Redactor(Protocol):
    """Hides secrets: only what it leaves is searched."""

    def job(self, job: Job, /) -> Job: ...

    def text(self, text: str, /) -> str: ...


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A search for jobs, and how far one call looks."""

    wanted: Filter
    limit: int = 50
    cursor: str | None = None
    descending: bool = False
    scan: int = MAX_SCAN
    #: A second condition, for each job that matches all others but words.
    accept: Callable[[Job], bool] | None = None
    redact: Redactor | None = None

    def page(self, cursor: str | None, found: int, scan: int) -> PageRequest:
        """Return the next page to read, when *found* jobs were found so far."""
        # A job that was read cannot be returned to the cursor: read no more than still
        # fit once the page is nearly full, and many while it is empty.
        room = min(MAX_BATCH, max(self.limit - found, _FEW)) if found else MAX_BATCH
        return PageRequest(
            self.wanted.state,
            self.wanted.type,
            limit=min(room, scan),
            cursor=cursor,
            descending=self.descending,
            needles=self.wanted.needles,
            scan=scan,
        )


async def find(store: Store, request: SearchRequest) -> Page:
    """Return up to as many jobs that match as wanted, in the order of pages."""
    found: list[Job] = []
    size, looked_at, looked_bytes, step = 0, 0, 0, MAX_BATCH
    cursor = request.cursor
    while looked_at < request.scan and looked_bytes < MAX_SCAN_BYTES:
        scan = min(step, request.scan - looked_at)
        page = await store.page(request.page(cursor, len(found), scan))
        for index in await _matching(store, page.jobs, request):
            job = page.jobs[index]
            found.append(job)
            size += bytes_of_job(job)
            if len(found) == request.limit or size > MAX_PAGE_BYTES:
                number = page.numbers[index] if page.numbers else index + 1
                is_last = number == page.looked_at and page.cursor is None
                rest = (
                    None if is_last else store.cursor_after(job, request.wanted.state)
                )
                return Page(found, rest, looked_at + number, looked_bytes)
        looked_at += page.looked_at
        looked_bytes += page.looked_bytes
        cursor = page.cursor
        if cursor is None:
            break
        # Rare things are looked for in longer steps.
        step = MAX_BATCH if found else 4 * step
    return Page(found, cursor, looked_at, looked_bytes)


async def _matching(
    store: Store, jobs: list[Job], request: SearchRequest
) -> Iterable[int]:
    """Return the positions of jobs that match, in order."""
    wanted, redact = request.wanted, request.redact
    terms = wanted.terms
    #: By position, the words that neither data nor error has.
    matching: dict[int, tuple[str, ...]] = {}
    for index, job in enumerate(jobs):
        if not wanted.suits(job) or not (request.accept is None or request.accept(job)):
            continue
        shown = job
        if redact is not None and wanted.is_by_content:
            shown = redact.job(job)
            if not wanted.suits(shown):
                continue
        matching[index] = missing(terms, wanted.texts_of(shown)) if terms else ()
    unsure = [index for index, words in matching.items() if words]
    for at in range(0, len(unsure), _LOGS_AT_ONCE):
        part = unsure[at : at + _LOGS_AT_ONCE]
        logs = await store.newest_logs([jobs[index].id for index in part], LOG_LINES)
        for index, lines in zip(part, logs, strict=True):
            texts = (line.text for line in lines)
            if missing(matching[index], map(redact.text, texts) if redact else texts):
                del matching[index]
    return matching
