"""Startup message of ``kue worker``, shown when its first child is up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.version import version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.supervisor.options import SupervisorOptions
    from kue.supervisor.protocol import Hello


def banner(
    options: SupervisorOptions, hello: Hello, more: Sequence[tuple[str, str]] = ()
) -> str:
    """Return the facts in several lines, for people."""
    facts = [
        *more,
        ("store", hello.store),
        ("", hello.durability),
        ("processes", _size(options, hello)),
        *_types(hello),
        ("stop", f"Ctrl-C or SIGTERM: jobs may end within {options.grace:g} s"),
        ("", "twice: they are requeued at once"),
    ]
    if hello.beats_itself:
        facts.append(("note", "no other process sees these jobs"))
    if options.reload:
        facts.append(("reload", "when a Python file changes"))
    lines = [f"  {name:<9}  {fact}" for name, fact in facts]
    return "\n".join([_title(options), *lines])


def record(
    options: SupervisorOptions, hello: Hello, more: Sequence[tuple[str, str]] = ()
) -> str:
    """Return the same in one line, for logs."""
    types = ", ".join(hello.types)
    extra = "".join(f"; {name}: {fact}" for name, fact in more)
    return (
        f"{_title(options)} on {hello.store}: {hello.durability}; "
        f"{_size(options, hello)}; types: {types}{extra}"
    )


def _title(options: SupervisorOptions) -> str:
    return f"kue {version()} works on {options.target}"


def _size(options: SupervisorOptions, hello: Hello) -> str:
    jobs = "1 job" if hello.concurrency == 1 else f"{hello.concurrency} jobs"
    return f"{options.processes} × {jobs} at once"


def _types(hello: Hello) -> list[tuple[str, str]]:
    return [
        ("" if number else "types", name) for number, name in enumerate(hello.types)
    ]
