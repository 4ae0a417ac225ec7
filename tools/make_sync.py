"""
Write the blocking methods of `SyncKue` and `SyncJobHandle` from the async ones.

    python tools/make_sync.py            write src/kue/client/sync/*_methods.py
    python tools/make_sync.py --check    fail if they are not what this would write

A method of the blocking side has the parameters and the docstring of the async method,
and calls it on the event loop of the blocking side.  Iterables are read by the caller's
thread: they may belong to it, as the cursor of a database does.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENT = Path("src/kue/client")
RUFF = Path(sys.executable).with_name("ruff")
HEAD = '''"""
{doc}

Written by ``tools/make_sync.py`` from the async methods; do not edit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack
{runtime}
if TYPE_CHECKING:
{typing}


class {name}({base}):
    """{doc}"""

{methods}
'''


class Twin(NamedTuple):
    """A class of blocking methods, and the async classes that it is made from."""

    name: str
    doc: str
    target: Path
    #: Modules of the client, with the class in each.
    sources: dict[str, str]
    base: str
    #: What is imported for the bodies of the methods.
    imports: tuple[str, ...]
    #: What an async method is called with, and what the function of such a call takes.
    call: str
    subject: str


TWINS = (
    Twin(
        "SyncHandleMethods",
        "Blocking methods of a job's handle.",
        CLIENT / "sync/handle_methods.py",
        {"handle": "JobHandle"},
        "BlockingHandle[T_co]",
        ("from kue.client.sync.connection import BlockingHandle, T_co",),
        "self._call",
        "job",
    ),
    Twin(
        "SyncQueueMethods",
        "Blocking methods of a queue: queries, administration, bulk actions.",
        CLIENT / "sync/queue_methods.py",
        {
            "queries": "Queries",
            "admin": "QueueAdmin",
            "batch_queries": "Batches",
            "flow_actions": "FlowActions",
            "circuits": "Circuits",
            "failures": "Failures",
            "schedules": "Schedules",
            "alerts": "Alerts",
            "bulk_actions": "BulkActions",
        },
        "BlockingCalls",
        (
            "from kue.client.sync.connection import BlockingCalls",
            "from kue.client.sync.event_iterator import iterate",
            "from kue.client.sync.handle import SyncJobHandle",
        ),
        "self.call",
        "q",
    ),
)
#: Written by hand: it does not wait for the store.
BY_HAND = {"handle", "events", "stream", "chunks"}


def main() -> int:
    is_stale = False
    for twin in TWINS:
        made = _formatted(_text(twin), twin.target)
        if "--check" not in sys.argv:
            twin.target.write_text(made)
        elif not twin.target.exists() or twin.target.read_text() != made:
            is_stale = True
            print(f"{twin.target} is out of date; run: python tools/make_sync.py")
    return is_stale


def _text(twin: Twin) -> str:
    trees = [
        ast.parse((CLIENT / f"{module}.py").read_text()) for module in twin.sources
    ]
    methods = [
        method
        for tree, name in zip(trees, twin.sources.values(), strict=True)
        for method in _methods(tree, name)
    ]
    defaults = {
        node.id
        for method in methods
        for default in (*method.args.defaults, *method.args.kw_defaults)
        if default is not None
        for node in ast.walk(default)
        if isinstance(node, ast.Name)
    }
    imports = {
        name: line
        for module, tree in zip(twin.sources, trees, strict=True)
        for name, line in _imports(module, tree)
    }
    runtime = [line for name, line in sorted(imports.items()) if name in defaults]
    known = {*defaults, *" ".join(twin.imports).replace(",", "").split()}
    typing = [line for name, line in sorted(imports.items()) if name not in known]
    return HEAD.format(
        **twin._asdict(),
        runtime="\n".join([*runtime, *twin.imports]),
        typing="\n".join(f"    {line}" for line in typing),
        methods="\n\n".join(_method(twin, method) for method in methods),
    )


def _methods(tree: ast.Module, name: str) -> Iterator[ast.AsyncFunctionDef]:
    [source] = [
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == name
    ]
    for node in source.body:
        if not isinstance(node, ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        if node.name not in BY_HAND:
            yield node


def _method(twin: Twin, method: ast.AsyncFunctionDef) -> str:
    given = _given(method.args)
    read = [name for name, arg in given if "Iterable[" in _annotation(arg)]
    named = [name for name, arg in given if arg in method.args.args]
    if method.args.vararg is not None:
        named.append(f"*{method.args.vararg.arg}")
    named += [f"{arg.arg}={arg.arg}" for arg in method.args.kwonlyargs]
    rest = method.args.kwarg
    arguments = ", ".join(named if rest is None else [*named, f"**{rest.arg}"])
    asked = f"lambda {twin.subject}: {twin.subject}.{method.name}({arguments})"
    returns = ast.unparse(method.returns) if method.returns else "None"
    call = f"{twin.call}({asked})"
    if returns.startswith("AsyncIterator["):
        returns = returns.removeprefix("Async")
        instead = f"async for … in {twin.subject}.{method.name}(…): …"
        call = f"iterate(self, {asked}, instead={instead!r})"
    elif returns.startswith("JobHandle["):
        returns = f"Sync{returns}"
        call = f"SyncJobHandle(self, {call})"
    body = [f"def {method.name}({ast.unparse(method.args)}) -> {returns}:"]
    body += [f'    """{_docstring(method)}"""']
    body += [f"    {name} = {_read(name, method.args)}" for name in read]
    body += [f"    return {call}" if returns != "None" else f"    {call}"]
    return "\n".join(f"    {line}" for line in body)


def _given(args: ast.arguments) -> list[tuple[str, ast.arg]]:
    return [(arg.arg, arg) for arg in (*args.args[1:], *args.kwonlyargs)]


def _annotation(arg: ast.arg) -> str:
    return ast.unparse(arg.annotation) if arg.annotation else ""


def _read(name: str, args: ast.arguments) -> str:
    [annotation] = [_annotation(arg) for key, arg in _given(args) if key == name]
    if "UnsetType" in annotation:
        return f"{name} if {name} is msgspec.UNSET else tuple({name})"
    if "None" in annotation:
        return f"None if {name} is None else tuple({name})"
    return f"tuple({name})"


def _docstring(method: ast.AsyncFunctionDef) -> str:
    first: Any = method.body[0]
    # As it is written, with its indentation.
    return str(first.value.value)


def _imports(module: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each name that a module imports or defines, and how to import it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if node.module not in ("__future__", "typing"):
                for alias in node.names:
                    # An async iterator becomes a plain one.
                    for name in {alias.name, alias.name.removeprefix("Async")}:
                        yield name, f"from {node.module} import {name}"
        elif isinstance(node, ast.Import):
            yield node.names[0].name, ast.unparse(node)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name, f"from kue.client.{module} import {node.name}"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            name = ast.unparse(
                node.targets[0] if isinstance(node, ast.Assign) else node.target
            )
            yield name, f"from kue.client.{module} import {name}"


def _formatted(text: str, target: Path) -> str:
    fix = ("check", "--quiet", "--fix", "--select")
    # Unused imports are removed first, so that the rest is sorted into few lines.
    for command in ((*fix, "F401"), (*fix, "I"), ("format",)):
        text = subprocess.run(
            [RUFF, *command, "--stdin-filename", str(target), "-"],
            input=text,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
    return text


if __name__ == "__main__":
    sys.exit(main())
