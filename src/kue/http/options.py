"""Application options: read-only mode, environment badge, redaction, read limits."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec

from kue.http.framework.concurrent_reads import ReadLimit
from kue.http.framework.problem import forbidden
from kue.http.security.redaction import Redaction

Tone: TypeAlias = Literal["red", "amber", "neutral"]

#: How many of each are served at the same time.
LISTS_AT_ONCE, SEARCHES_AT_ONCE = 4, 2
#: Characters of a badge.
MAX_BADGE = 40
_TONES: dict[Tone, frozenset[str]] = {
    "red": frozenset({"prod", "production", "live"}),
    "amber": frozenset({"staging", "stage", "preprod", "preview", "uat", "qa"}),
}


class EnvironmentBadge(msgspec.Struct, frozen=True):
    """Names the environment, so that nobody mistakes it for another."""

    text: str
    tone: Tone = "neutral"

    @classmethod
    def of(cls, text: str) -> EnvironmentBadge | None:
        """Return the badge with *text*; words for production make it red."""
        if len(text) > MAX_BADGE:
            raise ValueError(
                f"a badge has at most {MAX_BADGE} characters, not {len(text)}"
            )
        words = set(re.findall(r"[a-z]+", text.lower()))
        for tone, known in _TONES.items():
            if words & known:
                return cls(text, tone)
        return cls(text) if text else None


@dataclass(frozen=True)
class AppOptions:
    """Options that apply to every request."""

    read_only: bool = False
    badge: EnvironmentBadge | None = None
    redaction: Redaction = field(default_factory=Redaction)
    #: Lists of jobs, and searches that read jobs by the thousand.
    lists: ReadLimit = field(default_factory=lambda: ReadLimit(LISTS_AT_ONCE))
    searches: ReadLimit = field(default_factory=lambda: ReadLimit(SEARCHES_AT_ONCE))

    def check_change(self) -> None:
        """Raise `Refused` if the server is read-only."""
        if self.read_only:
            raise forbidden(
                "this server is read-only: it was started with changes disabled"
            )
