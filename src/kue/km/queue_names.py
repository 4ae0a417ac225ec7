"""Names of KMQueue's queues: "name", or "name:safe"."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from kue.model.errors import ConfigError
from kue.model.names import check_path_name

if TYPE_CHECKING:
    from collections.abc import Iterable

DEFAULT, SAFE = "default", "safe"
_BACKUP = "back_up_queue_"


def read_queues(specs: Iterable[str]) -> dict[str, str]:
    """
    Return the mode of each queue, by name, in the order given.

    Raises:
        ConfigError: There are none, one is named twice, or a mode is unknown.
        ValueError, TypeError: It is not a name.
    """
    modes: dict[str, str] = {}
    for spec in specs:
        name, mode = _read(spec)
        if name in modes:
            raise ConfigError(f"queue {name!r} is declared twice")
        modes[name] = mode
    if not modes:
        raise ConfigError('declare at least one queue, such as "mail" or "mail:safe"')
    return modes


def gen_back_up_queue_name(*specs: str) -> str:
    """
    Return the name that stands for these queues, in this order: see the monitor.

    There is no such list here.  It names the group of queues, as in KMQueue.
    """
    names = "".join(_read(spec)[0] for spec in specs)
    digest = hashlib.md5(names.encode(), usedforsecurity=False).digest()
    return _BACKUP + base64.b64encode(digest).decode()


def _read(spec: str) -> tuple[str, str]:
    if not isinstance(spec, str):
        raise TypeError(f"a queue is named by text, not {spec!r}")
    name, _, mode = spec.strip().partition(":")
    mode = mode or DEFAULT
    if mode not in (DEFAULT, SAFE):
        raise ConfigError(
            f"the mode of queue {name!r} is {DEFAULT} or {SAFE}, not {mode!r}"
        )
    return check_path_name(name.strip(), what="queue"), mode
