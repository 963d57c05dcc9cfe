"""The list of chats; chats after a reload, a restart of the server, a stop and an error."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.page.talk import approve, cards, command, open_chat, say
from tests.servers.served import Served
from tests.support.waiting import eventually

pytestmark = pytest.mark.docker

# Its own server: the list must not contain chats of other modules, and one test restarts the server.
SETTINGS: dict[str, str] = {}
SCRIPT = r"""
conversations:
- {when: apples, replies: [{text: About apples.}, {text: More about apples.}]}
- {when: plums, replies: [{text: About plums.}]}
- {when: quinces, replies: [{text: About quinces.}]}
- when: a long one
  replies:
  - tool_calls:
    - name: execute
      args:
        command: "echo begun >> /workspace/long.txt; echo begun; \
          until [ -e /workspace/long-seen ]; do sleep 0.1; done; echo ended"
  - text: The long one is done.
- when: stop this
  replies:
  - tool_calls:
    - name: execute
      args: {command: "echo started; while sleep 0.2; do echo on >> /workspace/on.txt; done"}
  - text: I heard you.
- when: restart me
  replies:
  - text: I wait.
    tool_calls: [{name: execute, args: {command: "echo once >> /workspace/once.txt"}}]
  - text: That was after the restart.
- when: blocks to keep
  replies:
  - text: "I look.\n```bash\necho from bash\n```\n```python\nprint(6 * 7)\n```"
  - text: Both blocks are done.
- {when: it breaks, replies: [{text: So far so good.}]}
"""


@pytest.mark.thorough
def test_chats_are_listed_searched_opened_and_deleted(page: Page) -> None:
    open_chat(page)
    for fruit in ("apples", "plums"):
        say(page, f"Tell me about {fruit}")
        expect(page.get_by_text(f"About {fruit}.")).to_be_visible()
        expect(page.get_by_role("heading", level=1)).to_have_text(f"Tell me about {fruit}")
        page.get_by_role("button", name="New chat", exact=True).click()
    chats = page.get_by_role("navigation", name="Chats").locator("li")
    expect(chats.filter(has_text="Tell me about")).to_have_count(2)
    page.get_by_label("Search chats").fill("APPLE tell")
    expect(chats).to_have_count(1)
    chats.get_by_role("button", name="Tell me about apples", exact=True).click()
    expect(page.get_by_text("About apples.")).to_be_visible()
    say(page, "go on")
    expect(page.get_by_text("More about apples.")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="What shall the agent do?")).to_be_visible()
    page.go_forward()
    expect(page.get_by_text("More about apples.")).to_be_visible()
    page.get_by_label("Search chats").fill("Tell me about")
    page.on("dialog", lambda dialog: dialog.accept())
    chats.first.hover()
    page.get_by_role("button", name="Delete the chat Tell me about apples").click()
    expect(chats).to_have_count(1)
    expect(page.get_by_role("heading", name="What shall the agent do?")).to_be_visible()


@pytest.mark.thorough
def test_agent_can_be_chosen_for_a_new_chat(page: Page) -> None:
    open_chat(page)
    expect(page.locator(".model")).to_have_text("Model: scripted:script.yaml")
    chosen = page.get_by_role("combobox", name="Agent")
    expect(chosen).to_have_value("deep_agent")
    chosen.select_option("code_agent")
    say(page, "What of quinces?")
    expect(page.get_by_text("About quinces.").last).to_be_visible()
    expect(page.locator(".about .agent")).to_have_text("code agent")
    page.reload()
    expect(page.locator(".about .agent")).to_have_text("code agent")


@pytest.mark.thorough
def test_agent_can_be_chosen_after_an_upload(page: Page) -> None:
    open_chat(page)
    page.get_by_role("button", name="Files", exact=True).click()
    page.locator("#files input[type=file]").set_input_files(
        [{"name": "early.txt", "mimeType": "text/plain", "buffer": b"early"}]
    )
    uploaded = page.get_by_text("is in /workspace/data/early.txt")
    expect(uploaded).to_be_visible()
    page.reload()
    chosen = page.get_by_role("combobox", name="Agent")
    expect(chosen).to_have_value("deep_agent")
    chosen.select_option("code_agent")
    say(page, "What of quinces?")
    expect(page.get_by_text("About quinces.").last).to_be_visible()
    page.reload()
    expect(page.locator(".about .agent")).to_have_text("code agent")


@pytest.mark.thorough
def test_reload_while_a_command_runs(page: Page, page_server: Served) -> None:
    open_chat(page)
    say(page, "a long one")
    approve(page)
    expect(command(page).locator(".lines")).to_have_text("begun")
    page.reload()
    expect(command(page).locator(".lines")).to_have_text("begun")  # the earlier output is back
    expect(command(page).locator(".pill")).to_have_text("running")
    (page_server.workspace / "long-seen").touch()
    expect(page.get_by_text("The long one is done.")).to_be_visible()
    expect(command(page).locator(".lines")).to_have_text("begun\nended")
    assert (page_server.workspace / "long.txt").read_text() == "begun\n"


@pytest.mark.thorough
def test_stop_ends_the_command_and_the_thread_goes_on(page: Page, page_server: Served) -> None:
    open_chat(page)
    say(page, "stop this")
    approve(page)
    expect(command(page).locator(".lines")).to_have_text("started")
    beats = page_server.workspace / "on.txt"
    eventually(beats.exists)
    page.get_by_role("button", name="Stop the agent").click()
    expect(command(page).locator(".pill")).to_have_text("stopped")
    expect(page.get_by_placeholder("Give the agent a task")).to_be_visible()
    thread = f"{page_server.url}/threads/{page.url.rsplit('/', 1)[1]}"
    runs = httpx.get(f"{thread}/runs").json()
    assert not {run["status"] for run in runs} & {"running", "pending"}
    written = beats.stat().st_size
    page.wait_for_timeout(1_000)
    assert 0 < written == beats.stat().st_size  # the command has ended, too
    told = page.get_by_text("Stopped. Send a message to go on")
    expect(told).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    page.reload()
    expect(told).to_be_visible()
    expect(page.get_by_placeholder("Give the agent a task")).to_be_visible()
    page.wait_for_timeout(1_000)
    expect(command(page).locator(".pill")).to_have_text("stopped")
    say(page, "what now")
    expect(page.get_by_text("I heard you.")).to_be_visible()
    expect(told).to_have_count(0)
    expect(page.locator(".person p")).to_have_text(["stop this", "what now"])
    messages = httpx.get(f"{thread}/state").json()["values"]["messages"]
    assert [each["content"] for each in messages if each["type"] == "human"] == ["stop this", "what now"]


@pytest.mark.thorough
def test_question_waits_through_a_reload_and_a_restart(page: Page, page_server: Served) -> None:
    open_chat(page)
    say(page, "restart me")
    expect(cards(page)).to_contain_text("echo once")
    page.reload()
    expect(cards(page)).to_contain_text("echo once")
    page_server.kill()
    expect(page.locator(".banner")).to_contain_text("The server does not answer", timeout=15_000)
    page_server.start()
    expect(page.locator(".banner")).to_have_count(0)
    expect(cards(page)).to_contain_text("echo once")
    approve(page)
    expect(page.get_by_text("That was after the restart.")).to_be_visible()
    assert (page_server.workspace / "once.txt").read_text() == "once\n"


@pytest.mark.thorough
def test_output_of_blocks_is_kept_through_a_restart(page: Page, page_server: Served) -> None:
    open_chat(page)
    page.get_by_role("combobox", name="Agent").select_option("code_agent")
    say(page, "blocks to keep")
    page.get_by_role("button", name="Approve all 2").click()
    expect(page.get_by_text("Both blocks are done.")).to_be_visible()
    page_server.kill()  # the server forgets the events that it sent
    page_server.start()
    page.reload()
    expect(command(page, 0).locator(".lines")).to_have_text("from bash")
    expect(command(page, 1).locator(".lines")).to_have_text("42")

    state = f"/threads/{page.url.rsplit('/', 1)[1]}/state"
    with page_server.client() as http:
        messages = http.get(state).json()["values"]["messages"]
        [message] = [each for each in messages if "blocks" in each["response_metadata"]]
        for mark in message["response_metadata"]["blocks"]:
            del mark["output"]  # as in a thread of an earlier version
        values = {"values": {"messages": [message]}}
        # `langgraph dev` may take up the run again whose end it had not yet written: until then, 409.
        eventually(lambda: http.post(state, json=values).is_success)
    page.reload()
    expect(command(page, 1).locator(".lines")).to_contain_text("Block 2 (python) succeeded:")


@pytest.mark.thorough
def test_error_of_a_run_is_shown_and_the_run_can_be_tried_again(page: Page) -> None:
    open_chat(page)
    say(page, "it breaks")
    expect(page.get_by_text("So far so good.")).to_be_visible()
    say(page, "and now?")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The agent could not go on.")
    expect(alert).to_contain_text("script.yaml")  # the scripted model has no more replies
    alert.get_by_role("button", name="Try again").click()
    expect(alert).to_contain_text("script.yaml")
    page.reload()
    expect(alert).to_contain_text("script.yaml")
    changes = {"calls_tools": False, "default_agent": "code_agent"}  # as with another model
    page.route("**/page/config", lambda route: route.fulfill(json=route.fetch().json() | changes))
    page.reload()
    expect(alert).to_contain_text("start a new chat with the code agent")
    expect(alert.get_by_role("button")).to_have_count(0)
    page.unroute("**/page/config")
    for unknown in ("00000000-0000-4000-8000-000000000000", "00000000-0000-0000-0000-00000000000-", "a-b"):
        page.goto(f"/app/t/{unknown}")
        expect(alert).to_contain_text("not on the server")


@pytest.mark.thorough
def test_chat_opens_once_the_server_can_open_it(page: Page) -> None:
    open_chat(page)
    say(page, "Tell me about plums")
    expect(page.get_by_text("About plums.")).to_be_visible()
    page.route(
        "**/threads/search", lambda route: route.fulfill(status=503, json={"error": "Too much to do."})
    )
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("could not be opened. Too much to do.")
    page.unroute("**/threads/search")
    expect(page.get_by_text("About plums.")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.thorough
def test_deep_agent_is_disabled_for_a_model_without_tools(page: Page) -> None:
    changes = {"calls_tools": False, "default_agent": "code_agent"}
    page.route("**/page/config", lambda route: route.fulfill(json=route.fetch().json() | changes))
    open_chat(page)
    chosen = page.get_by_role("combobox", name="Agent")
    expect(chosen.locator("option[value=deep_agent]")).to_be_disabled()
    expect(chosen).to_have_value("code_agent")


@pytest.mark.thorough
def test_error_of_loading_grants_is_shown(page: Page) -> None:
    page.route("**/grants", lambda route: route.fulfill(status=503, json={"error": "Not now."}))
    open_chat(page)
    say(page, "What of quinces?")
    expect(page.get_by_text("What is approved for this chat could not be read. Not now.")).to_be_visible()
