"""Facts that processes record in their journals while they run."""

from __future__ import annotations

import msgspec

#: Later than any time, Unix ms.
FOREVER = 2**62


class Attempted(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    A producer tried to add a job.

    Without *ended* it was never answered; without *id* it was refused or timed out, and
    it is unknown whether the job was added.
    """

    key: str
    at: int
    ended: int = 0
    id: int = 0
    #: False when an unfinished job with the same unique key was returned instead.
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
    """An operator gave an order, and got an answer."""

    verb: str
    at: int
    ended: int
    #: The store's answer; "error" when it was unavailable: perhaps done.
    word: str
    id: int = 0
    type: str = ""
    #: Which ending a retry was for: `kue.model.job.Job.ending`.
    ending: str = ""


class Came(msgspec.Struct, frozen=True):
    """A process began to run jobs."""

    pid: int
    at: int


class Idled(msgspec.Struct, frozen=True):
    """A process was stopped for a while, or asked to end."""

    pid: int
    since: int
    until: int = FOREVER


class Died(msgspec.Struct, frozen=True):
    """A process was killed, or ended itself in the middle of its jobs."""

    pid: int
    at: int


class Loss(msgspec.Struct, frozen=True):
    """The store lost writes of this time, or everything."""

    since: int
    until: int
    is_all: bool = False


class Away(msgspec.Struct, frozen=True):
    """The store was unavailable, or unreliable, for a while."""

    since: int
    until: int
