"""A person changes a call before the call runs, on a server that allows the decision `edit`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.page.talk import cards, command, open_chat, say
from tests.servers.served import Served

pytestmark = pytest.mark.docker

SCRIPT = r"""
- tool_calls:
  - {name: execute, args: {command: "echo as the model wrote it > /workspace/edited.txt"}}
  - {name: execute, args: {command: "echo as it is"}}
- text: That is done.
- text: That was later.
"""

GRAPH = """\
import agent.config

agent.config.INTERRUPT_ON = {**agent.config.INTERRUPT_ON, "execute": True}

from agent.graph import graph, stream_transformers
"""


@pytest.fixture(scope="module")
def page_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    server = Served(tmp_path_factory.mktemp("page"), SCRIPT)
    server.serve_graph("deep_agent", GRAPH)
    server.start()
    yield server
    server.end()


@pytest.mark.thorough
def test_edited_command_runs_and_is_shown(page: Page, page_server: Served) -> None:
    open_chat(page)
    say(page, "go")
    first, second = cards(page).nth(0), cards(page).nth(1)
    first.get_by_role("button", name="Edit").click()
    field = first.get_by_label("command")
    expect(field).to_have_value("echo as the model wrote it > /workspace/edited.txt")
    changed = "echo as a person wrote it > /workspace/edited.txt; echo changed"
    field.fill(changed)
    first.get_by_role("button", name="Run as changed").click()
    expect(first).to_contain_text("Runs as you have changed it")
    expect(first.locator("pre")).to_have_text(changed)
    second.get_by_role("button", name="Approve", exact=False).first.click()
    expect(page.get_by_text("That is done.")).to_be_visible()

    def ran_as_changed() -> None:
        expect(command(page, 0).locator(".lines")).to_have_text("changed")
        expect(command(page, 0).locator("pre").first).to_have_text(changed)
        expect(command(page, 0)).to_contain_text("A person changed this call before it ran")
        expect(command(page, 1)).not_to_contain_text("A person changed")

    ran_as_changed()
    say(page, "and now?")  # the state of the gate tells of the latest turn only
    expect(page.get_by_text("That was later.")).to_be_visible()
    page.reload()
    ran_as_changed()
    assert (page_server.workspace / "edited.txt").read_text() == "as a person wrote it\n"
