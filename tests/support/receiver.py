"""A local HTTP server that receives webhooks, and answers as a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Received(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """What was received, and the statuses to answer with; then 204."""

    def __init__(self, server: ThreadingHTTPServer, *statuses: int) -> None:
        self.received: list[Received] = []
        self.statuses = list(statuses)
        self.url = f"http://127.0.0.1:{server.server_port}/hooks/private?key=1"


@contextmanager
def receiving(*statuses: int) -> Iterator[Receiver]:
    """Receive webhooks on a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(length)
            status = receiver.statuses.pop(0) if receiver.statuses else 204
            receiver.received.append(Received(self.path, dict(self.headers), body))
            self.send_response(status)
            self.send_header("Location", receiver.url)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(server, *statuses)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
