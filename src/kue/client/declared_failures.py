"""What a program declares about its failed jobs, and writing that to the store."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kue.model.failure_rule import FailureRule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kue.store.contract import Store

logger = logging.getLogger(__name__)


async def write_failure_rules(
    store: Store, declared: Mapping[str, FailureRule]
) -> None:
    """
    Write what a program declares about its types, where that is new or has changed.

    A dead letter type set at run time stays until the program declares another one.
    """
    if not declared:
        return
    stored = await store.failure_rules()
    for type, rule in declared.items():
        known = stored.get(type, FailureRule())
        new = replace(known, hooks=rule.hooks)
        if rule.declared != known.declared:
            new = replace(new, declared=rule.declared, dead_letter=rule.declared)
        elif known.dead_letter != known.declared:
            logger.info(
                "failed jobs of %s are forwarded to %s, as was set at run time",
                type,
                known.dead_letter or "nothing",
            )
        if new != known:
            await store.set_failure_rule(type, new)
