"""The facts that processes write down while they run."""

from __future__ import annotations

import msgspec

#: Later than any time there is, Unix ms.
FOR_EVER = 2**62


class Attempted(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    A producer tried to add a job.

    Without *ended* it was never answered; without *id* it was refused or timed out, and
    nobody can say whether the job was added.
    """

    key: str
    at: int
    ended: int = 0
    id: int = 0
    #: False when an unfinished job with the same unique key answered for it.
    is_new: bool = True
    #: Acknowledged, it survives a fail-over.
    is_durable: bool = False
    #: Acknowledged, with the warning that a fail-over could lose it.
    is_warned: bool = False
    error: str = ""


class Started(msgspec.Struct, frozen=True, omit_defaults=True):
    """A handler was called."""

    id: int
    key: str
    type: str
    fence: int
    attempt: int
    #: By the store's clock.
    started_at: int
    #: The process that called it, and its parent.
    pid: int
    parent: int
    once: bool = False


class Given(msgspec.Struct, frozen=True, omit_defaults=True):
    """An operator gave an order, and what the answer was."""

    verb: str
    at: int
    ended: int
    #: What the store said; "error" when it could not be reached: perhaps done.
    word: str
    id: int = 0
    type: str = ""
    #: Which ending a retry was for, as `kue.model.job.Job.ending` has it.
    ending: str = ""


class Came(msgspec.Struct, frozen=True):
    """A process began to run jobs."""

    pid: int
    at: int


class Idled(msgspec.Struct, frozen=True):
    """A process was stopped for a while, or asked to end for good."""

    pid: int
    since: int
    until: int = FOR_EVER


class Died(msgspec.Struct, frozen=True):
    """A process was killed, or ended itself in the middle of its jobs."""

    pid: int
    at: int


class Loss(msgspec.Struct, frozen=True):
    """The store lost what was written in this time, or everything."""

    since: int
    until: int
    is_all: bool = False


class Away(msgspec.Struct, frozen=True):
    """The store could not be used, or not reliably, for a while."""

    since: int
    until: int
