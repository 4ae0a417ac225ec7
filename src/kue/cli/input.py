"""Input: standard input, read in batches as it arrives, and JSON typed by hand."""

from __future__ import annotations

import asyncio
import io
import re
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kue.model.payload import JSON

#: Stands for ids or data on the command line: read them from standard input.
STDIN = "-"
#: Bytes to read at a time at most.
BLOCK = 1 << 16


class InputLine(NamedTuple):
    """A line that is not empty, and its number."""

    number: int
    text: bytes

    @property
    def location(self) -> str:
        """Where the line was, for messages."""
        return f"line {self.number} of standard input"


def read_all() -> bytes:
    """Read to the end."""
    with _interruptible():
        return sys.stdin.buffer.read()


def read_lines() -> Iterator[list[InputLine]]:
    """Yield the lines that have arrived, up to 500 at a time, and wait for more."""
    first = 1
    for block in _whole_lines():
        numbered = enumerate(block, first)
        lines = [InputLine(number, text) for number, text in numbered if text.strip()]
        first += len(block)
        for start in range(0, len(lines), MAX_BATCH):
            yield lines[start : start + MAX_BATCH]


def _whole_lines() -> Iterator[list[bytes]]:
    buffer, rest = sys.stdin.buffer, b""
    assert isinstance(buffer, io.BufferedIOBase)
    while True:
        with _interruptible():
            block = buffer.read1(BLOCK)
        if not block:
            break
        *lines, rest = (rest + block).split(b"\n")
        yield lines
    yield [rest]


@contextmanager
def _interruptible() -> Iterator[None]:
    """
    Let Ctrl-C interrupt the body of the context.

    An event loop turns the signal into a cancellation, which a blocking read would not
    notice.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # The signal came just before; the read would block despite it.
            raise KeyboardInterrupt
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def read_argument(text: str, *, what: str) -> JSON:
    """Return the value of the JSON *text*, read from standard input for ``-``."""
    return read_json(read_all() if text == STDIN else text, what=what)


def read_json(text: str | bytes, *, what: str) -> JSON:
    """Return the value of JSON *text*; a usage error names the position."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as exc:
        raise click.UsageError(_explain(text, what, exc)) from None


def _explain(text: str | bytes, what: str, exc: Exception) -> str:
    whole = text if isinstance(text, str) else text.decode(errors="replace")
    position = re.search(r"\(byte (\d+)\)", str(exc))
    reason = str(exc).removeprefix("JSON is malformed: ")
    shown = whole.strip()
    if position is not None:
        at = len(
            whole.encode(errors="replace")[: int(position[1])].decode(errors="ignore")
        )
        reason = reason.replace(position[0], "").strip() + f" at character {at + 1}"
        shown = whole[max(0, at - 20) : at + 20].strip()
    return (
        f"{what} is not JSON: {reason}, near {shown[:60]!r}; "
        'write it like \'{"to": "ann"}\', text in double quotes'
    )
