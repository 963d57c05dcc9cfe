"""`code-agent chat` with a model that says its answer word by word."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cli_program import Program
from screen_terminal import ScreenTerminal


class SlowTalker(ThreadingHTTPServer):
    """Answers as OpenAI's chat completions stream: the second half once `more` is set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.more = threading.Event()
        self.left = threading.Event()


class _Handler(BaseHTTPRequestHandler):
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

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def talker(program: Program) -> Iterator[SlowTalker]:
    server = SlowTalker()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    program.environment |= {
        "MODEL": "openai:slow",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1",
    }
    yield server
    server.more.set()
    server.shutdown()
    server.server_close()


def test_words_are_shown_before_the_next_are_said(program: Program, talker: SlowTalker) -> None:
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


def test_ctrl_c_leaves_a_model_that_is_still_speaking(program: Program, talker: SlowTalker) -> None:
    terminal = ScreenTerminal(program, ["chat"])
    terminal.send("tell me")
    terminal.wait_for("Once upon")
    terminal.type("\x03")
    terminal.wait_for("The conversation goes on.")
    assert talker.left.wait(10)
    talker.more.set()
    terminal.send("again")
    terminal.wait_for("Once upon a time.")
    terminal.send("/exit")
    assert terminal.end() == 0
    assert "Traceback" not in terminal.text


def test_what_is_missing_is_said_and_can_be_mended_at_the_prompt(program: Program) -> None:
    program.script("Here I am.")
    program.environment["MODEL"] = "openai:gpt-5-mini"
    terminal = ScreenTerminal(program, ["chat"])
    terminal.wait_for("OPENAI_API_KEY")
    terminal.send("are you there?")
    terminal.wait_for("OPENAI_API_KEY")
    terminal.send("/model scripted:script.yaml")
    terminal.wait_for("deep agent, model scripted:script.yaml")
    terminal.send("are you there?")
    terminal.wait_for("Here I am.")
    terminal.send("/exit")
    assert terminal.end() == 0
    assert "Traceback" not in terminal.text
