"""
Generate clients from the OpenAPI document, and use them on a real server (S-9).

Run by ``make test-clients``, in environments that tools/clients/setup.sh made.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

import httpx

from kue import Kue
from kue.http import create_app
from kue.http.auth.startup_token import LocalhostGuard, StartupToken
from kue.http.server.address import ListenAddress
from kue.http.server.serve import ServeOptions, listen, serving

HERE = Path(__file__).parent
BUILT = HERE.parents[1] / ".venv" / "clients"


async def run(*command: str) -> None:
    """Run a command to its end, which must be a good one."""
    # Generators look for tools of theirs in PATH.
    path = f"{BUILT / 'python' / 'bin'}:{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        *command, cwd=BUILT, env=os.environ | {"PATH": path}
    )
    if await process.wait():
        raise SystemExit(f"failed: {' '.join(command)}")


async def check_python(base: str, token: str) -> None:
    programs = BUILT / "python" / "bin"
    await run(
        *(str(programs / "openapi-python-client"), "generate", "--overwrite"),
        *("--path", "openapi.json", "--meta", "none", "--output-path", "kue_client"),
    )
    shutil.copy(HERE / "check_python.py", BUILT)
    await run(str(programs / "python"), "check_python.py", base, token)


async def check_typescript(base: str, token: str) -> None:
    programs = BUILT / "node_modules" / ".bin"
    await run(str(programs / "openapi-typescript"), "openapi.json", "-o", "api.d.ts")
    shutil.copy(HERE / "check.ts", BUILT)
    flags = ("--strict", "--module", "nodenext", "--target", "es2022")
    await run(str(programs / "tsc"), *flags, "--lib", "es2022,dom", "check.ts")
    await run("node", "check.js", base, token)


async def main() -> None:
    startup = StartupToken()
    listener = listen(ListenAddress.of("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with Kue("memory://") as q:
        app = create_app(q, guard=LocalhostGuard(startup))
        async with (
            serving(app, listener, ServeOptions()),
            httpx.AsyncClient() as client,
        ):
            bearer = {"Authorization": f"Bearer {startup.secret}"}
            answer = await client.get(f"{origin}/api/v1/openapi.json", headers=bearer)
            document = answer.json()
            (BUILT / "openapi.json").write_text(json.dumps(document))
            base = origin + document["servers"][0]["url"]
            await check_python(base, startup.secret)
            await check_typescript(base, startup.secret)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
