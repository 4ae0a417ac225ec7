"""Facts of a run of flows, as journals have them."""

from __future__ import annotations

from typing import Any

import msgspec


class Ran(msgspec.Struct, frozen=True, omit_defaults=True):
    """A handler began, or is about to return or raise."""

    #: "start" or "end".
    what: str
    node: str
    #: Which copy of its portion: see `Begun`.
    copy: int
    job: int
    #: The fencing token of the run.
    run: str
    #: The results of other jobs that it was called with.
    inputs: Any = None


class Begun(msgspec.Struct, frozen=True):
    """A producer is about to add a portion; after a failure that is another copy."""

    portion: str
    copy: int


class Acknowledged(msgspec.Struct, frozen=True):
    """A portion was added: its jobs by their keys, and a batch by its own."""

    portion: str
    copy: int
    ids: dict[str, int]
    flow: int
