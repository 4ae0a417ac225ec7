"""Environments of the peers, under ``build/peers``, installed from their pins."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.peers.catalogue import Language

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.peers.catalogue import Contender

ROOT = Path(__file__).parents[2]
HOME = ROOT / "build" / "peers"
#: Longer than any installation seen.
PATIENCE_SECONDS = 600

#: The package whose version counts, where it is not named like the environment.
PACKAGES = {"bullmq-python": "bullmq", "kue-node": "kue", "taskiq": "taskiq-redis"}
#: The file for a version that is not pinned.
VERSION = "version"

#: What a language needs that cannot be pinned: command, Debian package, advice.
NEEDS = {
    Language.NODE: (
        ("node", "nodejs", "Node.js 20 or newer"),
        ("npm", "npm", "npm"),
    ),
    Language.RUBY: (("sidekiq", "ruby-sidekiq", "Ruby with the gem sidekiq 6.4.1"),),
}


class NotInstalled(Exception):
    """A peer cannot be measured here; the message names what is missing."""


def home_of(peer: Contender) -> Path:
    return HOME / peer.environment


def install(peer: Contender) -> None:
    """
    Create the environment of *peer*, unless it exists with the same pins.

    Raises:
        NotInstalled: A program is missing, or an installer failed.
    """
    if peer.is_ours or _is_installed(peer):
        return
    for need in NEEDS.get(peer.language, ()):
        _need(*need)
    home = home_of(peer)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    _INSTALLERS[peer.language](peer, home)
    _stamp(peer).write_text(_fingerprint(peer))


def version_of(peer: Contender) -> str:
    """Return the version of *peer* that is measured: the installed or pinned one."""
    if peer.is_ours:
        return version("kue")
    installed = home_of(peer) / VERSION
    if installed.exists():
        return installed.read_text()
    return pins(peer)[PACKAGES.get(peer.environment, peer.environment)]


def pins(peer: Contender) -> dict[str, str]:
    """Return the pinned packages of *peer* by name."""
    lines = peer.pins.read_text().split()
    return dict(line.split("==") for line in lines)


def _install_python(peer: Contender, home: Path) -> None:
    _run([sys.executable, "-m", "venv", str(home)], peer)
    python = home / "bin" / "python"
    quiet = ["-q", "--disable-pip-version-check"]
    pip = [str(python), "-m", "pip", "install", *quiet, "--no-deps"]
    _run([*pip, "-r", str(peer.pins)], peer)


def _install_node(peer: Contender, home: Path) -> None:
    packages = [f"{name}@{version}" for name, version in pins(peer).items()]
    quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
    _run(["npm", "install", "--prefix", str(home), *quiet, *packages], peer)


def _install_ruby(peer: Contender, home: Path) -> None:
    """Record the version that Debian has installed."""
    found = _run(["ruby", "-rsidekiq", "-e", "print Sidekiq::VERSION"], peer)
    (home / VERSION).write_text(found)


_INSTALLERS: dict[Language, Callable[[Contender, Path], None]] = {
    Language.PYTHON: _install_python,
    Language.NODE: _install_node,
    Language.RUBY: _install_ruby,
}


def _need(command: str, package: str, what: str) -> None:
    if shutil.which(command):
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        _apt_install(package)
    if not shutil.which(command):
        raise NotInstalled(
            f"{what} is missing; on Debian and Ubuntu: sudo apt-get install {package}"
        )


def _apt_install(package: str) -> None:
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (
        ["update", "-qq"],
        ["install", "-y", "-qq", "--no-install-recommends", package],
    ):
        # The caller checks whether the command exists now.
        subprocess.run(
            ["apt-get", *arguments],
            env=environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE_SECONDS,
            check=False,
        )


def _run(command: list[str], peer: Contender) -> str:
    """Return the output of *command*; if it fails, its errors are kept in a file."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise NotInstalled(f"{Path(command[0]).name} did not finish in time") from exc
    if done.returncode == 0:
        return done.stdout
    log = HOME / f"{peer.environment}.log"
    log.write_text(f"{done.stdout}\n{done.stderr}")
    name, where = Path(command[0]).name, log.relative_to(ROOT)
    raise NotInstalled(f"{name} failed: {_complaint(done.stderr)} (see {where})")


def _complaint(errors: str) -> str:
    """Return the most relevant line, without URLs, which differ between machines."""
    lines = [line for line in errors.splitlines() if "error" in line.lower()]
    return re.sub(r"\w+://\S+", "…", lines[0] if lines else "it gave no reason")


def _is_installed(peer: Contender) -> bool:
    stamp = _stamp(peer)
    return stamp.exists() and stamp.read_text() == _fingerprint(peer)


def _stamp(peer: Contender) -> Path:
    return home_of(peer) / "installed"


def _fingerprint(peer: Contender) -> str:
    """Return a hash of the pins and the interpreter."""
    content = peer.pins.read_bytes() + sys.version.encode()
    return hashlib.sha256(content).hexdigest()
