"""
Encoding of jobs: a spec as JSON, and a job's history as lines of JSON.

Both engines keep the same two texts: the *body* (a spec, one JSON line) and the *story*
(the history, one JSON line per ending).  A line starts with the run's token and the
time, which the engine writes itself.  So an ending has the time of the engine's clock,
and a repeated ending is recognized by its first bytes::

    {"run":"1794722540200123:1794722540200:1:host-1:9f2c.7","at":1794722540207,"outcome":…}
"""

from __future__ import annotations

import msgspec

from kue.model.fingerprint import LENGTH, fingerprint
from kue.model.job import BEGAN, MAX_HISTORY, Attempt, Ending, Error, Failed, Job, Spec
from kue.model.payload import MAX_RESULT, decode, encode
from kue.model.steps import MAX_SUSPENSIONS
from kue.model.stream import Chunk

#: Characters kept of an error's message and of its stack.
MAX_ERROR_TEXT = 4000
MAX_STACK_TEXT = 16_000

encode_json = msgspec.json.Encoder().encode
#: The body of a job: the JSON line of its spec.
body_of = encode_json
decode_spec = msgspec.json.Decoder(Spec).decode
decode_attempt = msgspec.json.Decoder(Attempt).decode


def tail_of(ending: Ending) -> bytes:
    """
    Return the part of a story's line after run and time, including the closing brace.

    The line of a job that failed ends with the fingerprint of its error, where engines
    find it without reading the rest.
    """
    tail = encode_json(ending)[1:]
    if type(ending) is not Failed:
        return tail
    return b'%s,"fingerprint":"%s"}' % (tail[:-1], fingerprint(ending.error).encode())


def fingerprint_in(tail: str) -> str:
    """Return the fingerprint at the end of a failed job's line."""
    return tail[-2 - LENGTH : -2]


def line_of(token: str, at: int, tail: bytes) -> bytes:
    """Return one line of a story."""
    return b'{"run":"%s","at":%d,%s' % (token.encode(), at, tail)


def begun(job: Job, mark: str) -> str:
    """Return the token after fence and time, for a run that began as *mark* states."""
    rest = job.token.split(":", 2)[2]
    for earlier in BEGAN:
        rest = rest.removesuffix(f".{earlier}")
    return f"{rest}.{mark}"


def read_story(story: bytes) -> tuple[Attempt, ...]:
    """Return the newest endings of a story, oldest first."""
    if not story:
        return ()
    lines = story.split(b"\n")[-MAX_HISTORY:]
    return tuple(decode_attempt(line) for line in lines if line)


def has_suspensions(job: Job) -> bool:
    """Return whether as many lines of the history are suspensions as it may have."""
    return sum(bool(one.suspended) for one in job.history) >= MAX_SUSPENSIONS


def error_of(exc: BaseException, stack: str = "") -> Error:
    """Return *exc* as data, even if its ``__str__`` raises."""
    try:
        message = str(exc)
    # Even SystemExit: an exception's message must not end the process.
    except BaseException as broken:
        message = f"(its message cannot be shown: {type(broken).__name__})"
    return Error(
        _clean(type(exc).__qualname__, 200),
        _clean(message, MAX_ERROR_TEXT),
        _clean(stack, MAX_STACK_TEXT, keep_end=True),
    )


def result_of(value: object) -> msgspec.Raw:
    """Return a result as JSON; raise `BadPayload` if it has none or is too large."""
    return encode(value, field="result", limit=MAX_RESULT)


def chunk_of(value: object) -> msgspec.Raw:
    """Return a chunk as JSON; raise `BadPayload` if it has none or is too large."""
    encoded = encode(value, field="chunk", limit=MAX_RESULT)
    # A tab would end it early in an event; only JSON from elsewhere may have one.
    return encode(decode(encoded)) if b"\t" in bytes(encoded) else encoded


def read_chunk(
    run: int, index: int, attempt: int, at: int, value: bytes | str
) -> Chunk:
    """Return a chunk whose value `chunk_of` has encoded."""
    text = value.encode() if isinstance(value, str) else value
    return Chunk(run, index, attempt, at, decode(text))


def _clean(text: str, limit: int, *, keep_end: bool = False) -> str:
    # Lone surrogates (bytes that were not UTF-8) have no JSON form.
    text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= limit:
        return text
    return "…" + text[-limit:] if keep_end else text[:limit] + "…"
