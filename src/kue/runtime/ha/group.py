"""The failover group of a node."""

from __future__ import annotations

from dataclasses import dataclass

from kue.model.names import check_name

DEFAULT_GROUP = "__DEFAULT__"
GRACE_SECONDS = 1.0
MAX_QUORUM = 10_000
MAX_GRACE = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HA:
    """The group within which verticles fail over, and when."""

    #: Nodes of one group take over from each other, and from no others.
    group: str = DEFAULT_GROUP
    #: How many nodes the group must have for its verticles to run.
    quorum: int = 1
    #: Seconds for which a node must be gone before it is taken over from.
    grace: float = GRACE_SECONDS

    def __post_init__(self) -> None:
        check_name(self.group, what="the name of a group")
        if not 1 <= self.quorum <= MAX_QUORUM:
            raise ValueError(f"quorum must be 1 to {MAX_QUORUM:,}, not {self.quorum}")
        if not 0 <= self.grace <= MAX_GRACE:
            raise ValueError(f"grace must be 0 to {MAX_GRACE} s, not {self.grace}")
