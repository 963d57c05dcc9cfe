"""A call that has run already: the page shows what it did, and a person keeps or undoes that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.page.talk import cards, open_chat, say
from tests.servers.served import Served

pytestmark = pytest.mark.docker

SCRIPT = "- text: Never played."

GRAPH = '''\
"""A graph whose only node asks about a call that has run, and says what was decided."""

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from agent.graph import stream_transformers
from libs.middleware.approvals import Request, answer_by_id

COMMAND = "rm /data/old.csv \\n```diff\\n-not a diff\\n```\\n\\u202e"
EFFECT = {
    "created": ["/data/new.csv"],
    "changed": ["/data/notes.txt"],
    "deleted": [f"/data/old-{number}.csv" for number in range(3)],
    "more": {"deleted": 40},
    "exit_code": 1,
    "output": "rm: one\\nrm: two\\n",
    "seconds": 2.5,
}
SAID = """It has run.

Deleted (43):
  /data/old-0.csv (12 bytes)

```diff
--- /data/notes.txt before
+++ /data/notes.txt
@@ -1 +1 @@
-keep me
+keep you
```

Output: 2 lines"""


def ask(state):
    request = Request("execute", {"command": COMMAND}, "call_1", note="It asks for allowed.example.")
    question = {
        "action_requests": [{
            "name": "execute", "args": {"command": COMMAND}, "digest": request.digest, "id": "call_1",
            "description": f"{request.description}\\n\\n{SAID}", "effect": EFFECT,
        }],
        "review_configs": [{"action_name": "execute", "allowed_decisions": ["approve", "reject"]}],
        "scopes": ["call"],
    }
    [answer] = interrupt(question).values()
    [decision] = answer["decisions"]
    return {"messages": [AIMessage(f"{decision['type']}: {decision.get('message')}")]}


graph = answer_by_id(StateGraph(MessagesState).add_node(ask).add_edge(START, "ask").compile())
'''


@pytest.fixture(scope="module")
def page_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    server = Served(tmp_path_factory.mktemp("page"), SCRIPT)
    server.serve_graph("deep_agent", GRAPH)
    server.start()
    yield server
    server.end()


@pytest.mark.thorough
def test_effect_is_shown_and_kept_or_undone(page: Page) -> None:
    open_chat(page)
    say(page, "clean up")
    card = cards(page)
    expect(card.get_by_role("heading")).to_have_text("This command has ended. Keep what it did?")
    expect(card.get_by_text("It asks for allowed.example.")).to_be_visible()
    expect(card.get_by_role("group", name="The command")).to_contain_text("-not a diff")
    expect(card.get_by_text("exit 1")).to_be_visible()
    words = card.get_by_role("group", name="What it did")
    expect(words).to_contain_text("/data/old-0.csv (12 bytes)")
    expect(words).not_to_contain_text("not a diff")
    diff = card.get_by_role("group", name="Changes of texts")
    expect(diff.locator(".hljs-deletion")).to_have_text("-keep me")
    expect(diff.locator(".hljs-addition")).to_have_text("+keep you")
    paths = card.locator("details").first
    expect(paths.locator("summary")).to_have_text("Paths: 43 deleted, 1 changed, 1 made")
    expect(paths.locator("li").first).to_be_hidden()
    paths.locator("summary").click()
    listed = ["deleted /data/old-0.csv", "deleted /data/old-1.csv", "deleted /data/old-2.csv", "and 40 more"]
    expect(paths.locator("li")).to_have_text([*listed, "changed /data/notes.txt", "made /data/new.csv"])
    output = card.get_by_role("group", name="Output")
    expect(output).to_be_hidden()
    card.get_by_text("Output", exact=True).click()
    expect(output).to_have_text("rm: one\nrm: two")
    card.get_by_role("button", name="Undo").click()
    expect(page.get_by_label("Why?")).to_be_focused()
    page.keyboard.type("they are needed")
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(page.get_by_text("reject: they are needed")).to_be_visible()
    say(page, "again")
    card.get_by_role("button", name="Keep").click()
    expect(page.get_by_text("approve: None")).to_be_visible()
