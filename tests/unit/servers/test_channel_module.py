"""How a package in the sandbox reads the answers of the host."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from libs.servers.inside import channel_module
from libs.servers.inside.channel_module import ServerError, call


@contextmanager
def answered(monkeypatch: pytest.MonkeyPatch, **answer: Any) -> Iterator[None]:
    """Answer one call, as the gateway does."""
    body = json.dumps({"content": [], "structured": None, "is_error": False, **answer}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{os.getpid()}")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0sandbox-proxy-{os.getpid()}")
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(2**16)
                connection.sendall(head.encode() + body)

        server = threading.Thread(target=serve)
        server.start()
        yield
        server.join()


@pytest.mark.parametrize("data", ["a", "data:image/png;base64,YQ==", "-_=="])
def test_file_that_is_not_base64_is_a_server_error(monkeypatch: pytest.MonkeyPatch, data: str) -> None:
    picture = {"data": data, "type": "image/png"}
    with (
        answered(monkeypatch, content=[picture]),
        pytest.raises(ServerError, match="notes-cover: the server has sent a file that is not base64"),
    ):
        call("notes", "cover", {})


@pytest.mark.parametrize("argument", [{1: "a"}, [{"b": {None: 1}}], ({True: 1},)])
def test_key_that_json_would_change_is_refused(argument: Any) -> None:
    with pytest.raises(ValueError, match="must be texts"):
        call("notes", "search", {"query": argument})


def test_half_of_a_surrogate_pair_is_named() -> None:
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        call("notes", "words", {"text": "\udcff"})


def test_path_of_a_file_beside_structured_content_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(channel_module, "_FOLDER", str(tmp_path))
    picture = {"data": "YQ==", "type": "image/png"}
    with answered(monkeypatch, content=[{"text": "{}"}, picture], structured={"n": 1}):
        assert call("notes", "cover", {}) == {"n": 1}
    assert f"saved as {tmp_path}/notes-cover-1.png" in capsys.readouterr().err
    assert (tmp_path / "notes-cover-1.png").read_bytes() == b"a"


def test_file_that_cannot_be_saved_is_a_server_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.write_text("")
    monkeypatch.setattr(channel_module, "_FOLDER", str(folder))
    with (
        answered(monkeypatch, content=[{"data": "YQ==", "type": "image/png"}]),
        pytest.raises(ServerError, match=r"the server has answered.*cannot be saved in"),
    ):
        call("notes", "cover", {})


def test_picture_is_saved_where_the_folder_is_a_link_that_leads_nowhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As after `rm -r /workspace/results`."""
    folder = tmp_path / "link"
    folder.symlink_to(tmp_path / "results")
    monkeypatch.setattr(channel_module, "_FOLDER", str(folder))
    with answered(monkeypatch, content=[{"data": "YQ==", "type": "image/png"}]):
        assert call("notes", "cover", {}) == f"{folder}/notes-cover-1.png"
    assert (tmp_path / "results" / "notes-cover-1.png").read_bytes() == b"a"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"content": [{"text": "it is locked"}], "structured": {"code": 7}}, "it is locked$"),
        ({"structured": {"code": 7}}, '{"code": 7}$'),
        ({"content": [{"text": ""}], "structured": {"code": 7}}, '{"code": 7}$'),
        ({}, "it failed and says no reason$"),
    ],
)
def test_error_holds_the_reason_of_the_server(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], told: str
) -> None:
    with (
        answered(monkeypatch, is_error=True, **answer),
        pytest.raises(ServerError, match=f"^notes.lock: {told}"),
    ):
        call("notes", "lock", {})
