"""A model that cannot be reached, and a run that is stopped while its model writes a reply."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.page.talk import open_chat, say
from tests.servers.http_server import QuietHandler, QuietServer, running
from tests.servers.served import Served, served

pytestmark = [pytest.mark.docker, pytest.mark.thorough]


class _Model(QuietHandler):
    """Streams half of a first reply and waits until the client leaves. Later replies are whole.

    A request with the message "hang up" gets no answer.
    """

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = [message["content"] for message in body["messages"] if message["role"] == "user"]
        if asked == ["hang up"]:
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        first = len(asked) == 1
        self._piece({"role": "assistant", "content": "Half of a reply" if first else "A whole reply"})
        if first:
            self.connection.settimeout(120)
            self.connection.recv(1)
        self._piece({}, "stop")
        self.wfile.write(b"data: [DONE]\n\n")

    def _piece(self, delta: dict[str, str], finished: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finished}
        head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        piece = {**head, "choices": [choice]}
        self.wfile.write(f"data: {json.dumps(piece)}\n\n".encode())
        self.wfile.flush()


@pytest.fixture(scope="module")
def page_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with running(QuietServer(_Model)) as model:
        settings = {"MODEL": "openai:m", "OPENAI_API_KEY": "sk-any", "OPENAI_BASE_URL": f"{model.url}/v1"}
        with served(tmp_path_factory.mktemp("page"), "", **settings) as server:
            yield server


def test_model_that_does_not_answer_is_explained(page: Page) -> None:
    open_chat(page)
    say(page, "hang up")
    told = page.get_by_role("alert")
    expect(told).to_contain_text(
        "The agent could not go on. The model could not be reached or refused: Connection error."
    )
    page.reload()
    expect(told).to_contain_text(
        "The agent could not go on. The model could not be reached or refused: Connection error."
    )


@pytest.mark.parametrize("reloaded", [False, True])
def test_half_reply_does_not_move_below_newer_messages(page: Page, reloaded: bool) -> None:
    open_chat(page)
    say(page, "go")
    expect(page.get_by_text("Half of a reply")).to_be_visible()
    page.get_by_role("button", name="Stop the agent").click()
    expect(page.get_by_text("A reply that was not finished is not kept.")).to_be_visible()
    expect(page.get_by_text("Half of a reply")).to_have_count(0)
    if reloaded:
        page.reload()
        expect(page.get_by_text("A reply that was not finished is not kept.")).to_be_visible()
    say(page, "and now?")
    expect(page.get_by_text("A whole reply")).to_be_visible()
    expect(page.locator(".person p, .reply .markdown")).to_have_text(["go", "and now?", "A whole reply"])
