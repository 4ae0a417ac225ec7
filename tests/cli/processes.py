"""``kue`` in a process of its own, run to its end or started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

KUE = str(Path(sys.executable).with_name("kue"))


def run_kue(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    how: dict[str, Any] = {
        "capture_output": True,
        "text": True,
        "timeout": 50,
        "check": False,
    }
    return subprocess.run([KUE, *arguments], **how | settings)


def start_kue(*arguments: str, **settings: Any) -> subprocess.Popen[str]:
    """Start a command, whose output is read while it runs."""
    how: dict[str, Any] = {
        "env": os.environ | {"PYTHONUNBUFFERED": "1"},
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }
    return subprocess.Popen([KUE, *arguments], **how | settings)
