"""A proxy in front of the shared Engine that hangs, or breaks a connection, from a certain request on."""

from __future__ import annotations

import select
import socket
import socketserver
import threading
from pathlib import Path

from libs.sandbox.docker.engine import endpoint


class EngineProxy:
    """The Engine at `address`: the socket `path`, or a TCP port without `path`.

    After the first request that contains `hold_at`, nothing passes until `go_on`. Connections whose request
    contains `break_at` are closed.
    """

    def __init__(self, path: Path | None = None, *, hold_at: bytes = b"", break_at: bytes = b"") -> None:
        self._going = threading.Event()
        self._going.set()
        self._hold_at, self._break_at = hold_at, break_at
        self._engine = endpoint().removeprefix("unix://")
        self.reached = False
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with socket.socket(socket.AF_UNIX) as engine:
                    engine.connect(proxy._engine)
                    proxy._pass_on(self.request, engine)

        self._server: socketserver.ThreadingUnixStreamServer | socketserver.ThreadingTCPServer
        if path:
            self._server = socketserver.ThreadingUnixStreamServer(str(path), Handler)
            self.address = f"unix://{path}"
        else:
            self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
            self.address = f"tcp://127.0.0.1:{self._server.server_address[1]}"
        # The client keeps idle connections.
        self._server.daemon_threads, self._server.block_on_close = True, False
        threading.Thread(target=self._server.serve_forever, args=(0.02,)).start()

    def _pass_on(self, client: socket.socket, engine: socket.socket) -> None:
        ways = {client: engine, engine: client}
        while True:
            for source in select.select(list(ways), [], [])[0]:
                try:
                    data = source.recv(65_536)
                    if source is client and self._break_at and self._break_at in data:
                        return
                    if source is client and self._hold_at and self._hold_at in data and not self.reached:
                        self.reached = True
                        self._going.clear()
                    self._going.wait()
                    if not data:
                        return
                    ways[source].sendall(data)
                except OSError:
                    if ways[source] is engine:
                        return
                    # The client has left. The Engine executes the request anyway, as one that hung would.
                    continue

    def go_on(self) -> None:
        self._going.set()

    def __enter__(self) -> EngineProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on()
        self._server.shutdown()
        self._server.server_close()
