"""The command line, as a test types it: real commands on a real store."""

from __future__ import annotations

import asyncio
import io
import json
import re
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from kue.cli import main
from kue.store.contract import Store
from tests.support.engines import Engine
from tests.support.root_logger import lent

T = TypeVar("T")

_STYLES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Said:
    """What a command wrote and exited with."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """Lines of a pipe, cell by cell."""
        return [line.split("\t") for line in self.out.splitlines()]

    @property
    def items(self) -> list[Any]:
        """One JSON document a line."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def shown(self) -> str:
        """What a terminal shows, colours aside."""
        return _STYLES.sub("", self.out)


class CommandLine:
    """Types commands about one store."""

    def __init__(
        self,
        engine: Engine,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.engine = engine
        self.url = engine.settings.url
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("KUE_URL", self.url)
        monkeypatch.setenv("KUE_PREFIX", engine.settings.prefix)

    def __call__(self, *arguments: str | int, stdin: str = "") -> Said:
        """Run a command to its end."""
        typed = io.TextIOWrapper(io.BytesIO(stdin.encode()))
        # Between fixtures and test nobody takes log records, and Python writes them to
        # standard error: those of other threads, or of garbage of earlier tests.
        self._capsys.readouterr()
        with self._monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", typed)
            with lent(), pytest.raises(SystemExit) as stop:
                main([str(argument) for argument in arguments])
        assert isinstance(stop.value.code, int)
        captured = self._capsys.readouterr()
        assert "Traceback" not in captured.err, captured.err
        return Said(stop.value.code, captured.out, captured.err)

    def on_a_terminal(self, width: int = 120) -> None:
        """From now on, let output go to a terminal."""
        self._monkeypatch.setenv("FORCE_COLOR", "1")
        self._monkeypatch.setenv("TERM", "xterm")
        self._monkeypatch.setenv("COLUMNS", str(width))

    def arrange(self, act: Callable[[Store], Awaitable[T]]) -> T:
        """Do what only a program can, before or after commands."""

        async def with_store() -> T:
            store = self.engine.new_store()
            try:
                return await act(store)
            finally:
                await store.close()

        return asyncio.run(with_store())
