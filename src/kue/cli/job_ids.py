"""Job ids: on the command line, or on standard input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kue.cli.params import Parsed
from kue.cli.stdin import STDIN, InputLine, read_lines
from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


def batches(ids: Collection[int | str]) -> Iterator[list[int]]:
    """
    Yield the ids given, up to 500 at a time; ``-`` stands for those on standard input.

    Of a line there only the text before the first tab counts, so the output of
    `kue job list` can be piped in.
    """
    named = [value for value in ids if isinstance(value, int)]
    for start in range(0, len(named), MAX_BATCH):
        yield named[start : start + MAX_BATCH]
    if STDIN in ids:
        for lines in read_lines():
            yield [_id_of(line) for line in lines]


def _id_of(line: InputLine) -> int:
    text = line.text.partition(b"\t")[0].strip().decode(errors="replace")
    try:
        return _job_id(text)
    except ValueError as exc:
        message = f"{line.location}: {exc}"
        raise click.UsageError(message, click.get_current_context()) from None


def _job_id(text: str | int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number < 2**63:
        raise ValueError(f"{text!r} is not a job id; ids are whole numbers such as 7")
    return number


JOB_ID = Parsed("id", _job_id)
#: A job's id, or ``-`` for ids from standard input.
JOB_IDS = Parsed("id", lambda value: value if value == STDIN else _job_id(value))
