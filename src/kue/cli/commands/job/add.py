"""``kue job add``: enqueue one job, or one for each line of standard input."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, get_args

import click

from kue.cli.context import adds, as_usage_error, json_option
from kue.cli.input import read_argument, read_json, read_lines
from kue.cli.output.console import output, print_message
from kue.cli.output.listing import progress_bar, show_one
from kue.cli.output.text import jobs
from kue.cli.params import (
    ATTEMPTS,
    DURATION,
    JOB_ID,
    LIMITED_BY,
    POSITIVE,
    PRIORITY,
    TIME,
    TYPE,
    options,
)
from kue.cli.unknown_names import warn_of_unhandled_type
from kue.model.errors import DuplicateJob, QueueFull
from kue.model.job import OnConflict, OnParentFailure, UniqueUntil
from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kue.client.handle import JobHandle
    from kue.client.queue import Kue
    from kue.model.job import Draft
    from kue.model.payload import JSON

#: Options of a job that do not say when it runs, which schedules have as well;
#: `job_options` reads them.
draft_options = options(
    click.option("--queue", help="The queue to wait in; else the one named TYPE."),
    click.option(
        "--priority", type=PRIORITY, help="critical, high, normal, low or -10."
    ),
    click.option("--attempts", type=ATTEMPTS, help="The most attempts; else 1."),
    click.option("--max-exceptions", type=int, help="Fail it after this many errors."),
    click.option(
        "--retry-until", type=TIME, help="No further attempt after this: 2h, or a time."
    ),
    click.option("--backoff", help="Wait between attempts: 30s, 1s,10s,1m, or JSON."),
    click.option("--timeout", type=DURATION, help="How long one run may take."),
    click.option(
        "--soft-timeout", type=DURATION, help="Ask the handler to stop after this."
    ),
    click.option(
        "--max-stalls", type=int, help="Fail it when more workers than this were lost."
    ),
    click.option(
        "--ttl", type=DURATION, help="How long a run may go without a sign of life."
    ),
    click.option("--expires", type=DURATION, help="Fail it if not ended within this."),
    click.option("--unique", help="A unique key: skip if an unfinished job has it."),
    click.option(
        "--unique-for", type=DURATION, help="Hold the key at least this long."
    ),
    click.option(
        "--unique-until",
        type=click.Choice(get_args(UniqueUntil)),
        help="Hold the key until the job ends (default), or starts.",
    ),
    click.option(
        "--unique-at-most", type=DURATION, help="Hold the key at most this long."
    ),
    click.option(
        "--on-conflict",
        type=click.Choice(get_args(OnConflict)),
        help="If the key is taken: print that job (default), fail, or replace it.",
    ),
    click.option(
        "--throttle", type=DURATION, help="At most one job per key in this time."
    ),
    click.option(
        "--debounce",
        type=DURATION,
        help="Wait this long after the last add of the key, with its data.",
    ),
    click.option(
        "--debounce-max", type=DURATION, help="The longest wait since the first add."
    ),
    click.option("--group", help="Share the type's per-key limit with this group."),
    click.option(
        "--limited-by",
        type=LIMITED_BY,
        multiple=True,
        help="Count against this limit: stripe, or customer=42; may be repeated.",
    ),
    click.option("--tag", "tags", multiple=True, help="A tag; may be repeated."),
)
#: Options of a job that waits for others; `job_options` reads them.
parent_options = options(
    click.option(
        "--after",
        type=JOB_ID,
        multiple=True,
        metavar="ID",
        help="Wait until this job has succeeded; may be repeated, to wait for all.",
    ),
    click.option(
        "--on-parent-failure",
        type=click.Choice(get_args(OnParentFailure)),
        help="When a job of --after fails: block until it is retried (default), cancel "
        "this one, run it once all have ended, or only run it if one fails.",
    ),
)


@adds
@click.argument("type", type=TYPE)
@click.argument("data", required=False)
@click.option("--delay", type=DURATION, help="Wait this long before the run: 10m.")
@click.option("--at", type=TIME, help="Not before this time: 2026-11-15T09:30:00Z.")
@parent_options
@draft_options
@click.option("--count", type=POSITIVE, default=1, help="Add this many copies.")
@click.option("--stdin", is_flag=True, help="Add one for each line of JSON on stdin.")
@json_option(help="Write one JSON object per line: id, type, new, replaced.")
async def add(
    q: Kue,
    /,
    type: str,
    data: str | None,
    count: int,
    stdin: bool,
    as_json: bool,
    at: datetime | timedelta | None,
    **given: Any,
) -> None:
    """
    Add a job of TYPE and print its id.

    DATA is JSON; - reads it from standard input.  With --count or --stdin many are
    added, 500 at a time; their ids are printed one per line, on a terminal only their
    number.  When as many jobs of TYPE wait as its cap allows, nothing is added, and the
    exit code is 1.

    With --after the job waits for others, by their ids.  It is refused, with exit code
    1, if one of them was never added.

    \b
      kue job add email '{"to": "ann"}' --priority high --attempts 3
      kue job add report --at 2026-11-15T09:30:00Z
      kue job add email --stdin < addresses.jsonl
      kue job add report --after 7 --after 8 --on-parent-failure cancel
    """
    batches = _batches(data, count=count, stdin=stdin)
    given |= _times(at, given.pop("delay"))
    drafts = _drafts(q, type, batches, job_options(given))
    if count == 1 and not stdin:
        [draft] = next(drafts)
        [handle] = await q.enqueue_many([draft])
        if draft.on_conflict == "reject" and not handle.is_new:
            raise DuplicateJob(handle.id, draft.unique or "")
        show_added(handle, as_json=as_json)
    else:
        await _add_many(q, drafts, None if stdin else count, as_json=as_json)
    await warn_of_unhandled_type(q, given.get("queue") or type)


def _times(
    at: datetime | timedelta | None, delay: timedelta | None
) -> dict[str, datetime | timedelta | None]:
    if at is not None and delay is not None:
        raise click.UsageError("give --delay or --at, not both")
    # "--at 10m" means the same as "--delay 10m".
    return {"delay": at} if isinstance(at, timedelta) else {"at": at, "delay": delay}


def _batches(data: str | None, *, count: int, stdin: bool) -> Iterator[list[JSON]]:
    if stdin:
        if data is not None or count != 1:
            raise click.UsageError("--stdin cannot be combined with DATA or --count")
        return (
            [read_json(line.text, what=line.location) for line in lines]
            for lines in read_lines()
        )
    value = None if data is None else read_argument(data, what="data")
    return ([value] * min(MAX_BATCH, left) for left in range(count, 0, -MAX_BATCH))


def job_options(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a job that were given, as `Kue.draft` takes them."""
    found = {name: value for name, value in given.items() if value not in (None, ())}
    if "backoff" in found:
        found["backoff"] = _read_backoff(found["backoff"])
    if "limited_by" in found:
        found["limited_by"] = _read_limits(found["limited_by"])
    if "on_parent_failure" in found and "after" not in found:
        raise click.UsageError("--on-parent-failure needs --after: which jobs")
    return found


def _read_backoff(text: str) -> JSON:
    """Read ``1s,10s`` as a list, and text that begins with a brace as JSON."""
    if text.startswith("{"):
        return read_json(text, what="backoff")
    parts = [DURATION.convert(part.strip(), None, None) for part in text.split(",")]
    return parts if len(parts) > 1 else parts[0]


def _read_limits(given: tuple[tuple[str, str], ...]) -> dict[str, str]:
    limits = dict(given)
    if len(limits) < len(given):
        raise click.UsageError("a job counts against one key of a limit, not several")
    return limits


def _drafts(
    q: Kue, type: str, batches: Iterable[list[JSON]], options: dict[str, Any]
) -> Iterator[list[Draft]]:
    for values in batches:
        with as_usage_error():
            made = [q.draft(type, value, **options) for value in values]
        yield made


async def _add_many(
    q: Kue, batches: Iterable[list[Draft]], total: int | None, *, as_json: bool
) -> None:
    is_quiet = output().is_terminal and not as_json
    added = existed = 0
    with progress_bar("Adding jobs", total) as update:
        try:
            for drafts in batches:
                handles = await q.enqueue_many(drafts)
                added += sum(handle.is_new for handle in handles)
                existed += sum(not handle.is_new for handle in handles)
                update(added + existed)
                if not is_quiet:
                    _show(handles, as_json=as_json)
        except click.UsageError:
            print_message(f"{jobs(added)} had been added before this:")
            raise
        except QueueFull as exc:
            print_message(f"{jobs(added + exc.added)} had been added before this:")
            raise
    held = f"; {existed:,} had their unique key taken" if existed else ""
    print_message(f"added {jobs(added)}{held}")


def show_added(handle: JobHandle[Any], *, as_json: bool) -> None:
    """Write the id of a job that was added, or why none was."""
    _show([handle], as_json=as_json)
    if handle.has_replaced:
        print_message(f"job {handle.id} had this unique key; it was replaced")
    elif not handle.is_new:
        print_message(f"job {handle.id} has this unique key already; nothing was added")


def _show(handles: Iterable[JobHandle[Any]], *, as_json: bool) -> None:
    for handle in handles:
        item = {
            "id": handle.id,
            "type": handle.type,
            "new": handle.is_new,
            "replaced": handle.has_replaced,
        }
        show_one(item, str(handle.id), as_json=as_json)
