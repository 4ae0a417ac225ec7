"""
App loader: imports the queue that ``app:q`` names.

The supervisor must not call it: it runs no code of its users.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from kue.client.queue import Kue
from kue.model.errors import ConfigError

if TYPE_CHECKING:
    from types import ModuleType, TracebackType

HOW = "write module:attribute, such as app:q, or path/to/app.py:q"


class BadTarget(ConfigError):
    """The target is not a queue; *detail* is the traceback of code that failed."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


def split(target: str) -> tuple[str, str]:
    """Return the module or file and the attribute, or "", of *target*."""
    source, colon, attribute = target.rpartition(":")
    if not colon:
        source, attribute = target, ""
    is_named = not colon or all(part.isidentifier() for part in attribute.split("."))
    if not source or not is_named:
        raise BadTarget(f"the target {target!r} cannot be read; {HOW}")
    return source, attribute


def load(target: str) -> tuple[Kue, ModuleType]:
    """Import the module of *target*; return the queue and the module."""
    source, attribute = split(target)
    # A program that is run from its folder imports modules from there; so do we.
    _import_first_from(Path.cwd())
    is_path = source.endswith(".py") or os.sep in source
    module = _import_file(Path(source)) if is_path else _import(source)
    if attribute:
        return _named(module, attribute), module
    return _only(module), module


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise BadTarget(f"there is no file {str(path)!r} in {Path.cwd()}; {HOW}")
    # Resolved now: the module may change the working folder.
    whole = path.resolve()
    folder, name = _module_of(whole)
    _import_first_from(folder)
    module = _import(name)
    found = getattr(module, "__file__", None)
    if found is None or not os.path.samefile(found, whole):
        raise BadTarget(
            f"the file {str(path)!r} cannot be imported: Python already has another "
            f"module {name!r}; give the file another name"
        )
    return module


def _module_of(path: Path) -> tuple[Path, str]:
    """Return the folder to import from and the full module name, also in packages."""
    parts, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    return folder, ".".join(parts)


def _import_first_from(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name is not None and f"{name}.".startswith(f"{exc.name}."):
            raise BadTarget(
                f"there is no module {exc.name!r} in {Path.cwd()} nor among the "
                f"installed packages; {HOW}"
            ) from exc
        raise _failed(name, exc) from exc
    # Whatever a module raises, even SystemExit, is reported and does not end us.
    except BaseException as exc:
        raise _failed(name, exc) from exc


def _failed(name: str, exc: BaseException) -> BadTarget:
    lines = traceback.format_exception(exc.with_traceback(_user_frames(exc)))
    what = traceback.format_exception_only(exc)[-1].strip()
    return BadTarget(f"importing {name!r} failed: {what}", "".join(lines))


def _user_frames(exc: BaseException) -> TracebackType | None:
    """Skip the frames of this module and of the import system."""
    trace = exc.__traceback__
    hidden = (__file__, importlib.__file__)
    while trace is not None and (
        trace.tb_frame.f_code.co_filename in hidden
        or trace.tb_frame.f_code.co_filename.startswith("<frozen importlib")
    ):
        trace = trace.tb_next
    return trace


def _named(module: ModuleType, attribute: str) -> Kue:
    try:
        found: object = attrgetter(attribute)(module)
    except AttributeError:
        raise BadTarget(
            f"the module {module.__name__!r} has no {attribute!r}; {_offer(module)}"
        ) from None
    if not isinstance(found, Kue):
        raise BadTarget(
            f"{module.__name__}:{attribute} is {_a(found)}, not a queue; "
            f"{_offer(module)}"
        )
    return found


def _only(module: ModuleType) -> Kue:
    queues = _queues(module)
    if len({id(queue) for queue in queues.values()}) != 1:
        raise BadTarget(
            f"which queue of the module {module.__name__!r} is meant? {_offer(module)}"
        )
    return next(iter(queues.values()))


def _queues(module: ModuleType) -> dict[str, Kue]:
    return {
        name: value for name, value in vars(module).items() if isinstance(value, Kue)
    }


def _offer(module: ModuleType) -> str:
    names = sorted(_queues(module))
    if not names:
        return "there is no queue in it: write q = kue.Kue() and register tasks with it"
    return "its queues are " + ", ".join(f"{module.__name__}:{name}" for name in names)


def _a(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
