"""Single calls of the Engine's API over its socket: what is sent, and what comes of every answer."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import docker
import pytest

from libs.sandbox.engine_api import ask, attach, do, ping
from libs.sandbox.errors import DockerUnavailable, ImageMissing

WITHIN = 0.5


class Engine(socketserver.ThreadingUnixStreamServer):
    """Answers every request with `answer`, bytes as they are; None: never. What was asked is in `asked`."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), Handler)
        self.answer: bytes | None = b""
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.over = threading.Event()

    def says(self, status: str, body: bytes = b"") -> None:
        self.answer = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Handler(BaseHTTPRequestHandler):
    server: Engine
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        self.close_connection = True
        self.raw_requestline = self.rfile.readline()
        if self.raw_requestline and self.parse_request():
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.server.asked.append((self.command, self.path, headers, body))
            if self.server.answer is None:
                self.server.over.wait(10)
            else:
                self.wfile.write(self.server.answer)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(tmp_path / "socket") as server:
        threading.Thread(target=server.serve_forever, args=(0.02,)).start()
        yield server
        server.over.set()
        server.shutdown()


@pytest.fixture
def client(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[docker.DockerClient]:
    config = tmp_path / "config"
    config.mkdir()
    (config / "config.json").write_text(json.dumps({"HttpHeaders": {"X-Way": "in"}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(config))
    made = docker.DockerClient(f"unix://{tmp_path}/socket", version="1.41")
    yield made
    made.close()


def test_what_is_sent(engine: Engine, client: docker.DockerClient) -> None:
    engine.says("201 Created", b'{"Id": "c0ffee"}')
    assert do(client, "POST", "/containers/create", {"Image": "ä"}, name="a b&c") == {"Id": "c0ffee"}
    [(method, path, headers, body)] = engine.asked
    assert (method, path) == ("POST", "/v1.41/containers/create?name=a%20b%26c")
    assert json.loads(body) == {"Image": "ä"}
    assert headers["content-type"] == "application/json"
    assert headers["host"] == "localhost"
    assert headers["x-way"] == "in"  # what the person has configured for the Engine


def test_an_answer_without_a_body(engine: Engine, client: docker.DockerClient) -> None:
    engine.says("204 No Content")
    assert do(client, "POST", "/containers/c0ffee/start") is None


def test_an_image_that_is_not_there(engine: Engine, client: docker.DockerClient) -> None:
    engine.says("404 Not Found", b'{"message": "No such image: x:latest"}')
    with pytest.raises(ImageMissing) as failure:
        do(client, "GET", "/images/x/json")
    assert "setup" in failure.value.hint


def test_a_container_that_is_not_there_is_no_image(engine: Engine, client: docker.DockerClient) -> None:
    engine.says("404 Not Found", b'{"message": "No such container: x"}')
    with pytest.raises(DockerUnavailable, match="No such container: x"):
        do(client, "POST", "/containers/x/start")
    answer = ask(client, "POST", "/containers/x/wait")
    assert (answer.ok, answer.status) == (False, 404)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"message": "write /x: no space left on device"}', "no space left"),
        (b"Bad gateway: nobody there", "nobody there"),
        (b'["what"]', "what"),
        (b"", "status 502"),
    ],
)
def test_every_refusal_is_told(engine: Engine, client: docker.DockerClient, body: bytes, told: str) -> None:
    engine.says("502 Bad Gateway", body)
    with pytest.raises(DockerUnavailable, match=told):
        do(client, "POST", "/containers/create", {})
    with pytest.raises(DockerUnavailable, match=told):
        attach(client, "x")


@pytest.mark.parametrize(
    "answer", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"]
)
def test_what_is_no_answer(engine: Engine, client: docker.DockerClient, answer: bytes) -> None:
    engine.answer = answer
    with pytest.raises(DockerUnavailable):
        do(client, "GET", "/info")
    if not answer:
        for ask_it in (lambda: ping(client), lambda: attach(client, "x")):
            with pytest.raises(DockerUnavailable, match="broke off"):
                ask_it()


def test_somebody_else_answers(engine: Engine, client: docker.DockerClient) -> None:
    engine.says("200 OK", b"<html>welcome</html>")
    with pytest.raises(DockerUnavailable, match="welcome"):
        do(client, "GET", "/info")
    with pytest.raises(DockerUnavailable, match="welcome"):
        ask(client, "GET", "/info").json()


def test_a_path_that_is_none(engine: Engine, client: docker.DockerClient) -> None:
    engine.says("301 Moved Permanently", b"")
    with pytest.raises(ImageMissing):
        do(client, "GET", "/images/../x/json")


def test_one_that_hangs(engine: Engine, client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.answer = None
    monkeypatch.setattr("libs.sandbox.engine_api.ANSWER_SECONDS", WITHIN)
    monkeypatch.setattr("libs.sandbox.engine_api.WORK_SECONDS", WITHIN)
    for ask_it in (
        lambda: ping(client),
        lambda: ask(client, "GET", "/info"),
        lambda: do(client, "POST", "/containers/create", {}),
        lambda: attach(client, "x"),
    ):
        with pytest.raises(DockerUnavailable, match="too long"):
            ask_it()


def test_nobody_is_there(engine: Engine, client: docker.DockerClient, tmp_path: Path) -> None:
    (tmp_path / "socket").unlink()
    for ask_it in (
        lambda: ping(client),
        lambda: ask(client, "GET", "/info"),
        lambda: attach(client, "x"),
    ):
        with pytest.raises(DockerUnavailable, match="socket is not there"):
            ask_it()
