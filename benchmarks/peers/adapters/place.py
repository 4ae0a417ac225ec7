"""Where jobs go and which way, as the environment says."""

from __future__ import annotations

import os

HOST = "127.0.0.1"
PORT = int(os.environ.get("BENCH_PORT", "6379"))
URL = f"redis://{HOST}:{PORT}/0"
#: Which of its ways an adapter is to take.
VARIANT = os.environ.get("BENCH_VARIANT", "")
