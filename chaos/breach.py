"""A breach of a rule that must hold."""

from __future__ import annotations

from typing import NamedTuple


class Breach(NamedTuple):
    """A rule that does not hold, and for what."""

    #: A stable word, such as ``lost`` or ``early``.
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"
