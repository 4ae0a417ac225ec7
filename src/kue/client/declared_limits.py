"""Named limits that a program's tasks declare, and writing them to the store."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kue.model.errors import ConfigError
from kue.model.named_limits import StoredLimit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kue.model.named_limits import LimitRule, TaskLimit
    from kue.store.contract import Store

logger = logging.getLogger(__name__)


class DeclaredLimits:
    """The limits of a queue's tasks, by name, and the types that share each."""

    def __init__(self) -> None:
        self.rules: dict[str, LimitRule] = {}
        self.types: dict[str, list[str]] = {}

    def add(self, limit: TaskLimit, type: str) -> None:
        """
        Note that jobs of *type* count against *limit*, which has a name.

        Raises:
            ValueError: Another task declares another rule under its name.
        """
        name = limit.name or ""
        known = self.rules.setdefault(name, limit.rule)
        if known != limit.rule:
            raise ValueError(
                f"limit {name!r} is {known.words} for {self.types[name][0]!r} and "
                f"{limit.rule.words} for {type!r}; give one of them another name="
            )
        self.types.setdefault(name, []).append(type)


async def write_limits(store: Store, declared: DeclaredLimits) -> ConfigError | None:
    """
    Write limits that are new, or declared differently than before.

    A rule that was changed at run time stays until the program declares another one.
    Returns an error when the store cannot keep one of them.
    """
    stored = await store.named_limits()
    for name, rule in declared.rules.items():
        known = stored.get(name)
        if known is not None and known.declared == rule:
            _report_change(name, known)
            continue
        types = list(dict.fromkeys(declared.types[name]))
        try:
            await store.set_named_limit(name, StoredLimit(rule, rule), types=types)
        except ValueError as exc:
            return ConfigError(str(exc))
        word = "added" if known is None else "changed"
        logger.info("limit %s %s: %s", name, word, rule.words)
    return None


def _report_change(name: str, stored: StoredLimit) -> None:
    if stored.declared is not None and stored.rule != stored.declared:
        logger.info(
            "limit %s is %s, as it was set at run time; the program declares %s",
            name,
            stored.rule.words,
            stored.declared.words,
        )


def limited_by(
    limits: tuple[TaskLimit, ...], data: Mapping[str, object]
) -> dict[str, str]:
    """
    Return names and keys of the limits that a job with this *data* counts against.

    Raises:
        ValueError: The data has no key for one of them.
    """
    found: dict[str, str] = {}
    for limit in limits:
        key = limit.key_in(data)
        if key is not None:
            found[limit.name or ""] = key
    return found
