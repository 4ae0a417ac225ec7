"""The guide to shared data: its examples run, with a Redis."""

from __future__ import annotations

import ast
from types import CoroutineType
from typing import Any

from tests.project.test_docs import DOCS, examples
from tests.support.servers import RedisServer

GUIDE = DOCS / "guides" / "shared-data.md"


async def test_the_examples_run_one_after_the_other(redis_server: RedisServer) -> None:
    redis_server.empty()
    scope: dict[str, Any] = {}
    for example in examples(GUIDE):
        source = example.source.replace("redis://localhost:6379/0", redis_server.url)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(source, GUIDE.name, "exec", flags, dont_inherit=True)
        running = eval(code, scope)
        if isinstance(running, CoroutineType):
            await running
