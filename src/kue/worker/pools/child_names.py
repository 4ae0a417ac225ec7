"""
Names by which a worker and its child processes mean the same module or class.

The program that was started is ``__main__`` here, but a child imports it by its name or
runs its file.
"""

from __future__ import annotations

import sys

#: What a child calls the file it ran, so that this does not act as a program.
CHILD_MAIN = "__kue_child__"
MAIN = "__main__"


def module_name(module: str) -> str:
    """Return the name that a child imports *module* by; ``__main__`` if it cannot."""
    if module == CHILD_MAIN:
        return MAIN
    if module != MAIN:
        return module
    spec = getattr(sys.modules[MAIN], "__spec__", None)
    # Started by ``python -m package``: its name can be imported.
    return spec.name if spec is not None and spec.name else MAIN


def class_name(kind: type) -> str:
    return f"{module_name(kind.__module__)}.{kind.__qualname__}"


def class_names(kind: type) -> tuple[str, ...]:
    """Return the names of a class and its bases."""
    return tuple(class_name(one) for one in kind.__mro__)
