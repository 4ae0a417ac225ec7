"""Something that must not be."""

from __future__ import annotations

from typing import NamedTuple


class Breach(NamedTuple):
    """A rule that does not hold, and where it does not."""

    #: A stable word, such as ``lost`` or ``early``.
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"
