"""A server on loopback with the documented interface of OpenAI's chat completions and scripted replies."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.servers.http_server import QuietHandler, QuietServer, running

HOLD = "hold: no answer until the client leaves"
"""Reply that makes the server wait instead of answering."""

Answer = str | dict[str, Any] | tuple[int, Any]
"""The text of a reply, an object that is sent as JSON text, or a status and a body."""


def played(body: dict[str, Any]) -> Answer:
    """Return the next reply of the task: the task is a JSON list, and the n-th call gets the n-th item."""
    said = sum(message["role"] == "assistant" for message in body["messages"])
    task = next(message["content"] for message in body["messages"] if message["role"] == "user")
    replies: list[Answer] = json.loads(task)
    reply = replies[min(said, len(replies) - 1)]
    return (reply[0], reply[1]) if isinstance(reply, list) else reply


class ChatServer(QuietServer):
    """Answers `POST /v1/chat/completions` with the result of `reply` for the request's body."""

    request_queue_size = 128

    def __init__(self, reply: Callable[[dict[str, Any]], Answer] = played) -> None:
        super().__init__(_Handler)
        self.reply = reply
        self.keep_alive = True
        """Whether a connection is open for further requests."""
        self.requests: list[dict[str, Any]] = []
        """The body of each request, with `path` and `auth`."""
        self.held = threading.Semaphore(0)
        """Counts the requests that wait."""
        self.left = threading.Semaphore(0)
        """Counts the waiting requests whose client has left."""

    @property
    def url(self) -> str:
        return f"{super().url}/v1"


class _Handler(QuietHandler):
    server: ChatServer
    wbufsize = -1  # send head and body together: otherwise a client's delayed ACK costs 40 ms

    def setup(self) -> None:
        self.protocol_version = "HTTP/1.1" if self.server.keep_alive else "HTTP/1.0"
        super().setup()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = {"path": self.path, "auth": self.headers["Authorization"], **body}
        self.server.requests.append(request)
        answer = self.server.reply(body)
        if answer == HOLD:
            self._hold()
        elif isinstance(answer, tuple):
            self._send(*answer)
        else:
            content = answer if isinstance(answer, str) else json.dumps(answer)
            message = {"role": "assistant", "content": content}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"]}
            self._send(200, {**head, "choices": [choice]})

    def _send(self, status: int, body: Any) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        kind = "text/event-stream" if text.startswith("data: ") else "application/json"
        self.answer(status, text.encode(), kind)

    def _hold(self) -> None:
        self.server.held.release()
        self.connection.settimeout(60)
        if self.connection.recv(1) == b"":
            self.server.left.release()
        self.close_connection = True


@contextmanager
def serving(reply: Callable[[dict[str, Any]], Answer] = played) -> Iterator[ChatServer]:
    """Run a server until the block ends."""
    with running(ChatServer(reply)) as server:
        yield server


def checks(body: dict[str, Any]) -> Answer:
    """Reply as a model may in `tests/e2e/run_lite_checks.sh`."""
    task = body["messages"][1]["content"]
    results = [json.loads(message["content"])["result"] for message in body["messages"][3::2]]
    path = {"filePath": "checks/hello.txt"}
    if task.startswith("List"):
        uses = [("list_files", {})]
    elif task.startswith("Write"):
        uses = [("write_file", {**path, "content": "hello from run-lite"}), ("read_file", path)]
    else:
        uses = [("run_shell", {})]
    if len(results) == len(uses):
        return {"type": "final", "content": results[-1]}
    name, args = uses[len(results)]
    return {"type": "tool", "name": name, "args": args}
