"""Package indexes for pip and npm on loopback, packages for them, and the proxy in front of them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import http.client
import http.server
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from libs.gateway.gateway_limits import ClientLimits
from libs.gateway.gateway_protocol import Client, Service
from libs.gateway.gateway_streams import SocketStream
from libs.gateway.packages.host_index_settings import Index, NetworkSettings, PipSettings
from libs.gateway.packages.pip_index import PipIndex
from libs.gateway.proxy import Proxy
from libs.gateway.request_log import RequestLog
from libs.gateway.rules.addresses import Resolve, resolve_public
from libs.gateway.rules.allow_list import Rules
from tests.servers.http_server import QuietHandler, running

__all__ = [
    "CONTENT",
    "FILE",
    "NAME",
    "PAGE",
    "Answer",
    "Proxied",
    "Server",
    "StartProxy",
    "ask",
    "html_page",
    "pip_service",
    "publish",
    "run_pip",
    "served",
    "tarball",
    "through",
    "wheel",
]


def wheel(
    name: str, version: str = "1.0", *, needs: Iterable[str] = (), more: bytes = b""
) -> tuple[str, bytes]:
    """Return file name and content of a package. Its module has `VERSION`."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": f"VERSION = {version!r}\n".encode(),
        f"{info}/METADATA": metadata(name, version, needs),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if more:
        files[f"{name}/more.bin"] = more
    record = "".join(
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip('=')},"
        f"{len(content)}\n"
        for path, content in files.items()
    )
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return f"{name}-{version}-py3-none-any.whl", buffer.getvalue()


def metadata(name: str, version: str, needs: Iterable[str] = ()) -> bytes:
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    return "\n".join([*lines, *(f"Requires-Dist: {need}" for need in needs), ""]).encode()


NAME, CONTENT = wheel("thing")
PAGE = "/simple/thing/"
FILE = f"/files/0/thing/{NAME}"
"""Path at the virtual host of a file that an index has at `/files/`."""


def tarball(name: str, version: str = "1.0.0", needs: Mapping[str, str] = {}) -> bytes:
    """Return an npm package. Its module exports the version."""
    described = {"name": name, "version": version, "main": "index.js", "dependencies": dict(needs)}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for path, content in {
            "package/package.json": json.dumps(described).encode(),
            "package/index.js": f"module.exports = {version!r}\n".encode(),
        }.items():
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(content), 0o644
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def html_page(links: Mapping[str, bytes], *, before: str = "", attributes: str = "") -> Answer:
    """Return an HTML index page with a link and a hash for each file."""
    anchors = "".join(
        f'<a href="{before}{name}#sha256={hashlib.sha256(content).hexdigest()}" {attributes}>{name}</a>\n'
        for name, content in links.items()
    )
    return Answer(f"<!DOCTYPE html><html><body>{anchors}</body></html>".encode(), "text/html")


@dataclass
class Answer:
    """The answer to requests of a path."""

    body: bytes | Iterable[bytes]
    kind: str = "application/octet-stream"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Server:
    """An index: its answers by path, and the requests it got."""

    url: str
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    """Method, path, headers with names in lower case."""

    def add(self, path: str, answer: Answer | bytes) -> None:
        self.answers[path] = Answer(answer) if isinstance(answer, bytes) else answer

    def paths(self) -> list[str]:
        return [path for _, path, _ in self.asked]


@contextmanager
def served(
    host: str = "127.0.0.1", wrap: Callable[[http.server.HTTPServer], None] = lambda _: None
) -> Iterator[Server]:
    """Run an index on loopback. `wrap` may add TLS to its socket."""

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            index.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
            answer = index.answers.get(self.path.partition("?")[0]) or Answer(
                b"nothing here", "text/plain", 404
            )
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if isinstance(answer.body, bytes):
                if "Content-Length" not in answer.headers:
                    self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(answer.body)
                    self.close_connection |= "Content-Length" in answer.headers
                return
            self.send_header("Connection", "close")
            self.end_headers()
            with suppress(OSError):  # the client may have read enough
                for piece in answer.body:
                    self.wfile.write(piece)

        do_HEAD = do_POST = do_PUT = do_GET

    server = http.server.ThreadingHTTPServer((host, 0), Handler)
    wrap(server)
    index = Server(f"http://{host}:{server.server_port}")
    with running(server):
        yield index


def publish(
    server: Server, name: str, version: str = "1.0.0", needs: Mapping[str, str] = {}, **more: object
) -> None:
    """Add a package to a registry, below /npm/."""
    content = tarball(name, version, needs)
    path = f"/npm/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
    integrity = base64.b64encode(hashlib.sha512(content).digest()).decode()
    described = {
        "name": name,
        "version": version,
        "dependencies": dict(needs),
        "dist": {"tarball": server.url + path, "integrity": f"sha512-{integrity}"},
        **more,
    }
    page = {"name": name, "dist-tags": {"latest": version}, "versions": {version: described}}
    server.add(f"/npm/{name.replace('/', '%2f')}", Answer(json.dumps(page).encode(), "application/json"))
    server.add(path, content)


@dataclass
class Proxied:
    """A proxy on loopback, like the proxy of programs in a sandbox."""

    url: str
    log: Path

    def lines(self) -> list[dict[str, object]]:
        """Return the request log. It is complete when the proxy is closed."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


StartProxy = Callable[..., Proxied]
"""Starts a proxy for indexes of pip, with the arguments of `pip_service`."""


@contextmanager
def through(services: Mapping[str, Service], log: Path) -> Iterator[Proxied]:
    """Run a proxy with virtual hosts, on an event loop in its own thread."""
    loop = asyncio.new_event_loop()
    requests = RequestLog(log)
    proxy = Proxy(rules=Rules.parse([]), services=services, log=requests)
    client = Client("sandbox", "thread", ClientLimits())

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await proxy.serve(SocketStream(reader, writer), client)

    server = loop.run_until_complete(asyncio.start_server(connected, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    host, port = server.sockets[0].getsockname()[:2]

    async def end() -> None:
        server.close()
        await server.wait_closed()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=5)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    try:
        yield Proxied(f"http://{host}:{port}", log)
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        requests.close()


def pip_service(
    *indexes: str | Index,
    pages: Iterable[str] = (),
    network: NetworkSettings | None = None,
    resolve: Resolve = resolve_public,
    writable: Iterable[Path] = (),
) -> PipIndex:
    """Return the virtual host for pip, with these indexes and pages as the host's settings of pip."""
    made = tuple(each if isinstance(each, Index) else Index(each) for each in indexes)
    settings = PipSettings(made, tuple(map(Index, pages)), network or NetworkSettings())
    return PipIndex(settings=lambda: settings, resolve=resolve, writable=list(writable))


def ask(
    proxy: Proxied, host: str, path: str, method: str = "GET", **headers: str
) -> tuple[int, str, bytes, dict[str, str]]:
    """Send a request to a virtual host; return status, reason, body and headers."""
    connection = http.client.HTTPConnection(proxy.url.removeprefix("http://"), timeout=30)
    try:
        connection.request(method, f"http://{host}{path}", headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.reason, answer.read(), dict(answer.getheaders())
    finally:
        connection.close()


def run_pip(
    proxy: str, folder: Path, *arguments: str, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run pip with a proxy and these variables, and without any other settings."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PIP_CONFIG_FILE": os.devnull,
        "HTTP_PROXY": proxy,
        "HTTPS_PROXY": proxy,
        **variables,
    }
    command = [sys.executable, "-m", "pip", *arguments]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120)
