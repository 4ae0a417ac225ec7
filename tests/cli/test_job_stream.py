"""``kue job stream``: what a job sends, as it comes."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kue.cli.commands.job.stream import _Printer
from kue.model.job import Completed, Ending, Failed, Retried
from kue.model.stream import Chunk, SentChunks
from kue.store.codec import chunk_of
from kue.store.contract import Store
from tests.support.command_line import CommandLine
from tests.support.jobs import OOPS, claim_one, end, start_one
from tests.support.patience import PATIENCE_SECONDS

COMPLETE = Completed()
ONE = pytest.mark.parametrize("kue", ["sqlite"], indirect=True)


def streamed(
    *values: Any, ending: Ending | None = COMPLETE
) -> Callable[[Store], Awaitable[int]]:
    """Return what brings about a job that has sent *values*."""

    async def act(store: Store) -> int:
        now = await store.now()
        job = await start_one(store, "talk", now=now, attempts=2)
        chunks = [chunk_of(value) for value in values]
        await store.append_chunks([SentChunks(job, 0, chunks)])
        if ending is not None:
            await end(store, job, ending, now=now)
        return job.id

    return act


def test_text_is_printed_in_one_piece_and_the_rest_line_by_line(
    kue: CommandLine,
) -> None:
    job_id = kue.arrange(streamed("Hel", "lo,\nwor", "ld", {"n": 1}, [2], "bye\n"))

    said = kue("job", "stream", job_id)

    assert (said.code, said.err) == (0, "")
    assert said.out == 'Hello,\nworld\n{"n":1}\n[2]\nbye\n'


@ONE
def test_chunks_are_json_if_asked_for(kue: CommandLine) -> None:
    job_id = kue.arrange(streamed("a", {"b": None}))

    items = kue("job", "stream", job_id, "--json").items

    assert [one["value"] for one in items] == ["a", {"b": None}]
    assert items[0].keys() == {"id", "attempt", "at", "value"}


@ONE
def test_text_cannot_control_a_terminal(kue: CommandLine) -> None:
    job_id = kue.arrange(streamed("\x1b[31mred\n"))
    kue.on_a_terminal()

    assert kue("job", "stream", job_id).out == "\\x1b[31mred\n"


@ONE
def test_the_failure_of_a_job_is_that_of_the_command(kue: CommandLine) -> None:
    job_id = kue.arrange(streamed("so far", ending=Failed(OOPS)))

    said = kue("job", "stream", job_id)

    assert (said.code, said.out) == (1, "so far\n")
    assert said.err == f"kue: job {job_id} failed: ValueError: oops\n"


@ONE
def test_silence_ends_the_command(kue: CommandLine) -> None:
    job_id = kue.arrange(streamed("so far", ending=None))

    said = kue("job", "stream", job_id, "--timeout", "100ms")

    assert (said.code, said.out) == (1, "so far\n")
    assert "sent no chunk and did not end within 0.1 s" in said.err


@ONE
def test_a_job_that_is_started_again_begins_again(
    kue: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id, printed = kue.arrange(streamed("old", ending=None)), threading.Event()

    def show(printer: _Printer, chunk: Chunk) -> None:
        original(printer, chunk)
        printed.set()

    original = _Printer.show
    monkeypatch.setattr(_Printer, "show", show)

    async def run_again(store: Store) -> None:
        [job] = await store.get([job_id])
        assert job is not None
        await end(store, job, Retried(OOPS), now=await store.now())
        again = await claim_one(store, "talk", now=None)
        await store.append_chunks([SentChunks(again, 0, [chunk_of("new")])])
        await end(store, again, Completed(), now=await store.now())

    def run_once_printed() -> None:
        assert printed.wait(PATIENCE_SECONDS)
        kue.arrange(run_again)

    thread = threading.Thread(target=run_once_printed)
    thread.start()
    said = kue("job", "stream", job_id, "--timeout", "60s")
    thread.join()

    assert (said.code, said.out) == (0, "old\nnew\n")
    assert said.err == f"kue: job {job_id} was started again; its stream begins again\n"


@ONE
def test_a_job_that_does_not_exist_has_no_stream(kue: CommandLine) -> None:
    kue.arrange(streamed())
    said = kue("job", "stream", 7)
    assert (said.code, said.err) == (1, "kue: job 7 does not exist\n")
