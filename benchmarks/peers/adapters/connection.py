"""Connection to Redis, and the variant, from the environment."""

from __future__ import annotations

import os

HOST = "127.0.0.1"
PORT = int(os.environ.get("BENCH_PORT", "6379"))
URL = f"redis://{HOST}:{PORT}/0"
#: Selects one of several variants of an adapter.
VARIANT = os.environ.get("BENCH_VARIANT", "")
