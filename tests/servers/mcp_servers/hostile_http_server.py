"""An MCP server over HTTP, without the SDK, whose tools answer in ways that HTTP allows and MCP does not."""

from __future__ import annotations

import gzip
import json
import threading
from typing import Any

from tests.servers.http_server import QuietHandler, QuietServer

__all__ = ["TOOLS", "HostileServer"]

TOOLS = (
    *("fine", "endless", "endless_event", "large_error", "compressed", "redirects", "page"),
    *("nonsense", "slow_head", "another_id", "cut", "unfit", "refuses", "closed"),
)


SLOW = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
"""The time that Python needs to match the pattern doubles with each letter."""


class HostileServer(QuietServer):
    def __init__(self) -> None:
        super().__init__(_Handler)
        self.closing = threading.Event()
        self.refusal: tuple[int, int, str] | None = None
        """Status, code and message for every request but the first of a new session, as after a restart."""


class _Handler(QuietHandler):
    server: HostileServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in asked:
            self.answer(202, b"")
        elif self.server.refusal and asked["method"] != "initialize":
            self.error(asked["id"], *self.server.refusal)
        elif asked["method"] == "tools/call":
            getattr(self, asked["params"]["name"])(asked["id"])
        elif asked["method"] == "initialize":
            self.server.refusal = None
            version = asked["params"]["protocolVersion"]
            information = {"name": "hostile", "version": "1"}
            self.result(
                asked["id"],
                {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": information},
            )
        elif asked["method"] == "tools/list":
            schema = {"type": "object"}
            tools = [{"name": name, "inputSchema": schema, "outputSchema": SLOW} for name in TOOLS]
            self.result(asked["id"], {"tools": tools})
        else:
            error = {"code": -32601, "message": "unknown"}
            self.answer(200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}).encode())

    def do_GET(self) -> None:
        self.answer(405, b"")

    def result(self, number: int, result: dict[str, Any], **headers: str) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()
        self.answer(200, gzip.compress(body) if headers else body, **headers)

    def fine(self, number: int) -> None:
        self.result(number, {"content": [{"type": "text", "text": "fine"}]})

    def unfit(self, number: int) -> None:
        self.result(number, {"content": [], "structuredContent": {"a": "a" * 24 + "!"}})

    def endless(self, _: int, kind: str = "application/json", begin: bytes = b"", status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        piece = begin + b"x" * 2**20
        while not self.server.closing.is_set():
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))

    def endless_event(self, number: int) -> None:
        self.endless(number, "text/event-stream", b"data: ")

    def large_error(self, number: int) -> None:
        self.endless(number, status=500)

    def compressed(self, number: int) -> None:
        self.result(
            number, {"content": [{"type": "text", "text": "x" * 10**6}]}, **{"Content-Encoding": "gzip"}
        )

    def refuses(self, number: int) -> None:
        self.error(number, 200, -32000, "the quota is used up")

    def closed(self, number: int) -> None:
        self.error(number, 200, -32600, "Session not found")

    def error(self, number: int, status: int, code: int, message: str) -> None:
        body = {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
        self.answer(status, json.dumps(body).encode())

    def redirects(self, _: int) -> None:
        self.answer(307, b"", Location=self.server.url + "/mcp")

    def page(self, _: int) -> None:
        self.answer(200, b"<h1>Sign in</h1>", "text/html")

    def nonsense(self, _: int) -> None:
        self.answer(200, b'{"jsonrpc": "2.0"')

    def slow_head(self, _: int) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: ")
        self.server.closing.wait(60)

    def another_id(self, number: int) -> None:
        self.fine(number + 1_000)

    def cut(self, _: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b'{"jsonrpc"')
        self.close_connection = True
