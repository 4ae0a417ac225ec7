"""
Queues that a worker serves, by name or pattern: ``mail-*``, all but ``!mail-bulk``.

``*`` stands for any text.  Where only exclusions are given, all other queues are meant.
A pattern never matches Kue's own queues, whose names begin with ``kue.``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kue.model.errors import ConfigError
from kue.model.names import check_path_name

if TYPE_CHECKING:
    from collections.abc import Iterable

OWN = "kue."


class QueuePatterns:
    """
    Names and patterns of queues, in the order in which they are preferred.

    Raises:
        ConfigError: One of them is not a name, or there is none.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        given = list(dict.fromkeys(entries))
        for entry in given:
            _check(entry.removeprefix("!"))
        self._wanted = [entry for entry in given if not entry.startswith("!")]
        excluded = [entry[1:] for entry in given if entry.startswith("!")]
        if not given:
            raise ConfigError("no queue is named; write queues such as mail or mail-*")
        self._wanted = self._wanted or ["*"]
        self._excluded = [_regex(entry) for entry in excluded]
        self._regexes = [_regex(entry) for entry in self._wanted]

    @property
    def is_open(self) -> bool:
        """Whether queues that do not exist yet may match."""
        return any("*" in entry for entry in self._wanted)

    @property
    def literal(self) -> list[str]:
        """The queues that are named in full."""
        return [name for name in self._wanted if "*" not in name and self.rank(name)]

    def matching(self, names: Iterable[str]) -> list[str]:
        """Return those of *names* that match, the preferred first, then by name."""
        ranks = {name: rank for name in names if (rank := self.rank(name))}
        return sorted(ranks, key=lambda name: (ranks[name], name))

    def rank(self, name: str) -> int:
        """Return the number of the first entry that matches, from 1; 0 for none."""
        if any(regex.fullmatch(name) for regex in self._excluded):
            return 0
        for rank, (entry, regex) in enumerate(
            zip(self._wanted, self._regexes, strict=True), start=1
        ):
            if entry == name or (regex.fullmatch(name) and not name.startswith(OWN)):
                return rank
        return 0


def _check(name: str) -> None:
    try:
        check_path_name(name, what="queue")
    except (ValueError, TypeError) as exc:
        raise ConfigError(str(exc)) from exc


def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))))
