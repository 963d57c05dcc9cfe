"""Indexes on loopback for pip and npm, with packages made as they are needed; and the proxy before them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
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
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from libs.gateway.limits import ClientLimits, EgressLimits, Timeouts
from libs.gateway.packages.links import JSON
from libs.gateway.protocol import Service
from libs.gateway.proxy import Client, Proxy
from libs.gateway.request_log import RequestLog
from libs.gateway.rules import Rules

__all__ = [
    "Answer",
    "Proxied",
    "Server",
    "html_page",
    "json_page",
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
    """File name and content of a package with one module, whose `VERSION` is its version."""
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


def tarball(name: str, version: str = "1.0.0", needs: Mapping[str, str] = {}) -> bytes:
    """An npm package whose module is its version."""
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


def html_page(
    links: Mapping[str, bytes], *, before: str = "", attributes: str = "", base: str = ""
) -> Answer:
    """A simple page with a link to each file, its hash behind it."""
    anchors = "".join(
        f'<a href="{before}{name}#sha256={hashlib.sha256(content).hexdigest()}" {attributes}>{name}</a>\n'
        for name, content in links.items()
    )
    return Answer(
        f"<!DOCTYPE html><html><head>{base}</head><body>{anchors}</body></html>".encode(), "text/html"
    )


def json_page(project: str, links: Mapping[str, bytes], *, before: str = "", **more: object) -> Answer:
    """The same as PEP 691 has it."""
    files = [
        {
            "filename": name,
            "url": before + name,
            "hashes": {"sha256": hashlib.sha256(content).hexdigest()},
            **more,
        }
        for name, content in links.items()
    ]
    page = {"meta": {"api-version": "1.0"}, "name": project, "files": files}
    return Answer(json.dumps(page).encode(), JSON)


@dataclass
class Answer:
    """What is answered to a path."""

    body: bytes | Iterable[bytes]
    kind: str = "application/octet-stream"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Server:
    """An index: its answers by path, and what it was asked."""

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
    """A server on loopback; `wrap` may put TLS around its socket."""

    class Handler(http.server.BaseHTTPRequestHandler):
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
                    if "Content-Length" in answer.headers:
                        self.close_connection = True
                return
            self.send_header("Connection", "close")
            self.end_headers()
            try:
                for piece in answer.body:
                    self.wfile.write(piece)
            except OSError:
                pass  # whoever asked has heard enough

        do_HEAD = do_POST = do_PUT = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer((host, 0), Handler)
    wrap(server)
    index = Server(f"http://{host}:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def publish(
    server: Server, name: str, version: str = "1.0.0", needs: Mapping[str, str] = {}, **more: object
) -> None:
    """Put a package into a registry, below /npm/."""
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
    """A proxy on loopback, as programs in a sandbox have one."""

    url: str
    log: Path

    def lines(self) -> list[dict[str, object]]:
        """What the request log holds; whole once the proxy is closed."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@contextmanager
def through(
    services: Mapping[str, Service],
    log: Path,
    *,
    allow: Iterable[str] = (),
    limits: EgressLimits | None = None,
    timeouts: Timeouts = Timeouts(),
) -> Iterator[Proxied]:
    """A proxy with virtual hosts, on a loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    requests = RequestLog(log)
    proxy = Proxy(rules=Rules.parse(list(allow)), services=services, log=requests, timeouts=timeouts)
    client = Client("sandbox", "thread", ClientLimits(limits))

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await proxy.serve(reader, writer, client)

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


def run_pip(
    proxy: str, folder: Path, *arguments: str, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run pip with a proxy and these variables, and nothing else that it could be set by."""
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
