"""Adapters as processes: each in its own session, on its cores, with a log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.peers.catalogue import Language
from benchmarks.peers.cores import pin
from benchmarks.peers.environments import HOME, ROOT, home_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from benchmarks.peers.catalogue import Contender
    from benchmarks.peers.cores import Cores

ADAPTERS = Path(__file__).parent / "adapters"
#: Longer than any producer takes; one that hangs must not block the others.
PATIENCE_SECONDS = 120.0


class Failed(Exception):
    """An adapter failed; the message has the last line of its log."""


@dataclass(frozen=True)
class Workspace:
    """Where a contender is measured: a server, and a folder for its tallies."""

    port: int
    folder: Path
    jobs: int


def forget_logs(contenders: Iterable[Contender]) -> None:
    """Remove the logs of earlier runs, which would be misleading."""
    for contender in contenders:
        _log(contender).unlink(missing_ok=True)


def produce(
    contender: Contender, workspace: Workspace, cores: Cores, *arguments: object
) -> float:
    """Run a verb of the adapter that adds jobs; return the seconds it took."""
    process = _start(contender, workspace, cores, arguments, stdout=subprocess.PIPE)
    try:
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        raise Failed(f"{arguments[0]} took over {PATIENCE_SECONDS:.0f} s") from None
    finally:
        _end(process)
    try:
        # A queue may have printed other lines before.
        return float(json.loads(output.splitlines()[-1])["seconds"])
    except (IndexError, ValueError):
        line = _last_line(contender)
        raise Failed(f"{arguments[0]} failed: {line}") from None


@contextmanager
def workers(
    contender: Contender,
    workspace: Workspace,
    cores: Cores,
    task: str,
    *,
    count: int = 1,
) -> Iterator[Workers]:
    """Run *count* workers during the body, and kill them after it."""
    slots = contender.nap_slots if task == "nap" else contender.slots
    arguments = ("work", task, slots)
    started: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            started.append(_start(contender, workspace, cores, arguments))
        yield Workers(contender, started)
    finally:
        for process in started:
            _end(process)


class Workers:
    """Processes that run jobs."""

    def __init__(
        self, contender: Contender, processes: Sequence[subprocess.Popen[bytes]]
    ) -> None:
        self._contender = contender
        self._processes = processes

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def check(self) -> None:
        """Raise `Failed` if one of them has ended."""
        for process in self._processes:
            if process.poll() is not None:
                line = _last_line(self._contender)
                raise Failed(f"a worker ended ({process.returncode}): {line}")


def _start(
    contender: Contender,
    workspace: Workspace,
    cores: Cores,
    arguments: tuple[object, ...],
    *,
    stdout: int | None = None,
) -> subprocess.Popen[bytes]:
    with _log(contender).open("ab") as log:
        process = subprocess.Popen(
            [*_command(contender), *map(str, arguments)],
            cwd=ROOT,
            env=_environ(contender, workspace),
            stdin=subprocess.DEVNULL,
            stdout=log if stdout is None else stdout,
            stderr=log,
            start_new_session=True,
        )
    # Before it starts processes, which inherit this.
    pin(process.pid, cores)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and all that it started, which share its session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _command(contender: Contender) -> list[str]:
    program = str(ADAPTERS / f"through_{contender.adapter}")
    if contender.language is Language.NODE:
        return ["node", f"{program}.js"]
    if contender.language is Language.RUBY:
        return ["ruby", f"{program}.rb"]
    of_peer = str(home_of(contender) / "bin" / "python")
    python = sys.executable if contender.is_ours else of_peer
    return [python, "-m", "benchmarks.peers.adapters", contender.adapter]


def _environ(contender: Contender, workspace: Workspace) -> dict[str, str]:
    """Return an adapter's environment, without variables that could affect it."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KUE_", "REDIS_", "PYTHON", "NODE_", "RUBY"))
    }
    return {
        **kept,
        "BENCH_PORT": str(workspace.port),
        "BENCH_FOLDER": str(workspace.folder),
        "BENCH_JOBS": str(workspace.jobs),
        "BENCH_VARIANT": contender.variant,
        "NODE_PATH": str(home_of(contender) / "node_modules"),
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
    }


def _log(contender: Contender) -> Path:
    HOME.mkdir(parents=True, exist_ok=True)
    return HOME / f"{contender.name}.log"


def _last_line(contender: Contender) -> str:
    lines = _log(contender).read_text(errors="replace").strip().splitlines()
    where = _log(contender).relative_to(ROOT)
    return f"{lines[-1][:200] if lines else 'its log is empty'} (see {where})"
