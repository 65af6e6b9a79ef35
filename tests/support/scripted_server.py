"""A small HTTP server whose answers are scripted."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ScriptedServer:
    """Sends scripted answers, and records the requests.

    Attributes:
        answers: (status, headers, body) of the next requests; the last one is repeated.
        asked: (method, path, headers, body) of the requests so far.
        held: events that requests wait for, by path.
    """

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.held: dict[str, threading.Event] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                outer.asked.append((self.command, self.path, dict(self.headers), body))
                if self.path in outer.held:
                    outer.held[self.path].wait()
                script = outer.answers
                status, headers, content = script.pop(0) if len(script) > 1 else script[0]
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_DELETE = _answer  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever)
        self._thread.start()

    def hold(self, path: str, until: threading.Event) -> None:
        """Answer requests of a path only after an event."""
        self.held[path] = until

    def will_answer(self, status: int, body: Any, **headers: str) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answers.append((status, headers, content))

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
