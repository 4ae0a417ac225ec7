"""nginx before a server of ours, as people put it there."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.patience import PATIENCE_SECONDS
from tests.support.servers import free_port

#: Debian has it in a folder that only root has in PATH.
PROGRAM = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
CONFIG = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass {target};
            {directives}
        }}
    }}
}}
"""


@asynccontextmanager
async def nginx(target: str, directives: str, folder: Path) -> AsyncIterator[str]:
    """Forward requests to *target*, as *directives* say; yield the address."""
    assert PROGRAM is not None, "nginx is missing: make setup"
    port = free_port()
    config = folder / "nginx.conf"
    config.write_text(
        CONFIG.format(folder=folder, port=port, target=target, directives=directives)
    )
    process = await asyncio.create_subprocess_exec(
        *(PROGRAM, "-p", str(folder), "-c", str(config))
    )
    try:
        await _answers(process, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _answers(process: asyncio.subprocess.Process, port: int) -> None:
    """Return when it takes connections."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            assert process.returncode is None, "nginx ended"
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                # Nobody says when it listens.
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return
