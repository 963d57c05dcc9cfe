"""`code-agent chat` with a model that streams its answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer

import pytest

from tests.clients.cli_program import Program
from tests.clients.screen_terminal import ScreenTerminal
from tests.servers.http_server import QuietHandler, running

pytestmark = pytest.mark.thorough


class SlowTalker(ThreadingHTTPServer):
    """Streams chat completions as OpenAI does; the second half follows when `more` is set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.more = threading.Event()
        self.left = threading.Event()


class _Handler(QuietHandler):
    server: SlowTalker

    def do_POST(self) -> None:
        assert json.loads(self.rfile.read(int(self.headers["Content-Length"])))["stream"]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            self._say("Once upon")
            while not self.server.more.wait(0.1):
                self.wfile.write(b": still here\n\n")
                self.wfile.flush()
            self._say(" a time.", "stop")
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            self.server.left.set()

    def _say(self, words: str, finish: str | None = None) -> None:
        choice = {"index": 0, "delta": {"role": "assistant", "content": words}, "finish_reason": finish}
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "slow"}
        self.wfile.write(f"data: {json.dumps({**head, 'choices': [choice]})}\n\n".encode())
        self.wfile.flush()


@pytest.fixture
def talker(program: Program) -> Iterator[SlowTalker]:
    with running(SlowTalker()) as server:
        base_url = f"http://127.0.0.1:{server.server_port}/v1"
        program.environment |= {"MODEL": "openai:slow", "OPENAI_BASE_URL": base_url}
        yield server
        server.more.set()


@pytest.mark.docker
def test_reply_is_shown_while_the_model_streams(program: Program, talker: SlowTalker) -> None:
    terminal = ScreenTerminal(program, ["chat"])
    terminal.send("tell me")
    terminal.wait_for("Once upon")
    assert not talker.more.is_set()
    talker.more.set()
    terminal.wait_for(" a time.")
    terminal.prompted()
    assert terminal.shown.count("Once upon a time.") == 1
    terminal.type("two\x1b\rlines")  # Alt-Enter
    terminal.prompted_with("two")
    terminal.type("\r")
    terminal.wait_for("Once upon a time.")
    terminal.send("/thread")
    terminal.prompted()
    terminal.type("\x04")
    assert terminal.end() == 0


@pytest.mark.docker
def test_ctrl_c_ends_a_streaming_reply(program: Program, talker: SlowTalker) -> None:
    terminal = ScreenTerminal(program, ["chat"])
    terminal.send("tell me")
    terminal.wait_for("Once upon")
    terminal.type("\x03")
    terminal.wait_for("You can continue the conversation.")
    assert talker.left.wait(10)
    talker.more.set()
    terminal.send("again")
    terminal.wait_for("Once upon a time.")
    terminal.send("/exit")
    assert terminal.end() == 0
    assert "Traceback" not in terminal.text
