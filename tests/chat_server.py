"""A server on loopback that follows OpenAI's chat completions as they are documented, and plays its part."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["HOLD", "Answer", "ChatServer", "played", "serving"]

HOLD = "hold: no answer until the client leaves"
"""What makes the server wait, instead of an answer."""

Answer = str | dict[str, Any] | tuple[int, Any]
"""What a reply says; an object, for its JSON; or a status and a body in its place."""


def played(body: dict[str, Any]) -> Answer:
    """The reply that the task itself asks for: it is a JSON list, and the n-th call gets the n-th."""
    said = sum(message["role"] == "assistant" for message in body["messages"])
    task = next(message["content"] for message in body["messages"] if message["role"] == "user")
    replies: list[Answer] = json.loads(task)
    reply = replies[min(said, len(replies) - 1)]
    return (reply[0], reply[1]) if isinstance(reply, list) else reply


class ChatServer(ThreadingHTTPServer):
    """Answers `POST /v1/chat/completions` with what `reply` makes of the request's body."""

    request_queue_size = 128
    daemon_threads = True

    def __init__(self, reply: Callable[[dict[str, Any]], Answer] = played) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.reply = reply
        self.requests: list[dict[str, Any]] = []
        """Each the body, with `path` and `auth`."""
        self.held = threading.Semaphore(0)
        """Counts the requests that are being held."""
        self.left = threading.Semaphore(0)
        """Counts those whose client has left."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: ChatServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body leave together: apart, a client's delayed ACK would cost 40 ms

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        told = {"path": self.path, "auth": self.headers["Authorization"], **body}
        self.server.requests.append(told)
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
        payload = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def _hold(self) -> None:
        self.server.held.release()
        self.connection.settimeout(60)
        if self.connection.recv(1) == b"":
            self.server.left.release()
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(reply: Callable[[dict[str, Any]], Answer] = played) -> Iterator[ChatServer]:
    """A server for the length of the block."""
    with ChatServer(reply) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def main() -> None:
    """Play the three checks of run-lite, for trying them by hand; prints its address."""
    with serving(checks) as server:
        print(server.url, flush=True)
        while True:
            time.sleep(3600)


def checks(body: dict[str, Any]) -> Answer:
    """What a model may reply in `tests/e2e/run_lite_checks.sh`."""
    task = body["messages"][1]["content"]
    last = body["messages"][-1]
    if last["role"] == "user" and last["content"].startswith('{"type": "tool_result"'):
        return {"type": "final", "content": json.loads(last["content"])["result"]}
    if task.startswith("List"):
        return {"type": "tool", "name": "list_files", "args": {}}
    if task.startswith("Write"):
        args = {"path": "checks/hello.txt", "content": "hello from run-lite"}
        return {"type": "tool", "name": "write_file", "args": args}
    return {"type": "tool", "name": "read_file", "args": {"path": "checks/hello.txt"}}


if __name__ == "__main__":
    main()
