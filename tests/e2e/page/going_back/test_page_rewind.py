"""Going back in a chat with its files, the undo, the files of each turn, and copies of a chat."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.e2e.page.talk import approve, open_chat, say
from tests.servers.served import Served

pytestmark = pytest.mark.docker

SCRIPT = r"""
conversations:
- when: look first
  replies:
  - tool_calls: [{name: execute, args: {command: "head -n 1 /data/sales.csv"}}]
  - text: There are two columns.
  - tool_calls:
    - name: execute
      args:
        command: "rm /data/sales.csv; echo broken > /scripts/report.py; \
          for n in 1 2 3; do echo $n > /results/$n.txt; done"
  - text: All is tidy.
  - text: I am careful now.
- when: make a pipe
  replies:
  - tool_calls: [{name: execute, args: {command: "mkfifo /workspace/pipe"}}]
  - text: The pipe is made.
- when: work for long
  replies:
  - tool_calls: [{name: execute, args: {command: "echo 1 > /results/long.txt"}}]
  - text: That was short.
  - tool_calls: [{name: execute, args: {command: "sleep 600"}}]
  - text: That was long.
"""

SALES = "region,revenue\nnorth,1\n"
REPORT = "print('a report')\n"
SPOILT = {"report.py": "broken\n", "1.txt": "1\n", "2.txt": "2\n", "3.txt": "3\n"}


def files(workspace: Path) -> dict[str, str]:
    """The contents of all files by their names."""
    return {
        path.name: path.read_text()
        for path in workspace.rglob("*")
        if path.is_file() and ".output" not in path.parts
    }


def back_to(page: Page, words: str) -> Locator:
    """Press the button at a message, and return the dialog that opens."""
    page.locator(".person", has_text=words).locator("+ .person-actions").get_by_role(
        "button", name="Back to here"
    ).click()
    return page.get_by_role("dialog", name="Go back to before this message")


def listed(dialog: Locator, name: str) -> Locator:
    return dialog.get_by_role("list", name=re.compile(f"^{name}")).get_by_role("listitem")


@pytest.fixture
def tidied(page: Page, page_server: Served) -> Page:
    """A chat whose second turn has deleted, spoilt and made files; then a person has saved a report."""
    workspace = page_server.workspace
    for name in files(workspace):
        next(workspace.rglob(name)).unlink()
    for name, content in (("data/sales.csv", SALES), ("scripts/report.py", REPORT)):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(content)
    open_chat(page)
    say(page, "look first")
    approve(page)
    expect(page.get_by_text("There are two columns.")).to_be_visible()
    say(page, "tidy up")
    approve(page)
    expect(page.get_by_text("All is tidy.")).to_be_visible()
    (workspace / "results/mine.md").write_text("saved by a person")
    return page


@pytest.mark.thorough
def test_chat_and_files_go_back_and_return(tidied: Page, page_server: Served) -> None:
    page, workspace = tidied, page_server.workspace
    mine = {"mine.md": "saved by a person"}
    assert files(workspace) == SPOILT | mine

    dialog = back_to(page, "tidy up")
    expect(listed(dialog, "Comes back")).to_have_text(["/data/sales.csv"])
    expect(listed(dialog, "Gets its earlier content")).to_have_text(["/scripts/report.py"])
    expect(listed(dialog, "Is deleted")).to_have_text([f"/results/{n}.txt" for n in (1, 2, 3)])
    expect(listed(dialog, "Stays as it is")).to_have_text(
        ["/results/mine.md: it was changed by somebody else"]
    )
    found = Axe().run(page, context=".move-dialog")
    assert found.violations_count == 0, found.generate_report()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert files(workspace) == SPOILT | mine, "the dialog alone changes nothing"

    back_to(page, "tidy up").get_by_role("button", name="Go back").click()
    field = page.get_by_label("Message to the agent")
    expect(field).to_have_value("tidy up")
    expect(field).to_be_focused()
    expect(page.locator(".person p")).to_have_text(["look first"])
    assert files(workspace) == {"sales.csv": SALES, "report.py": REPORT} | mine

    page.reload()
    page.get_by_role("button", name="Undo").click()
    undo = page.get_by_role("dialog", name="Undo going back")
    expect(listed(undo, "Is deleted")).to_have_text(["/data/sales.csv"])
    undo.get_by_role("button", name="Undo").click()
    expect(page.locator(".person p")).to_have_text(["look first", "tidy up"])
    expect(page.get_by_text("All is tidy.")).to_be_visible()
    expect(field).to_have_value("")
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    assert files(workspace) == SPOILT | mine


@pytest.mark.thorough
def test_changed_message_is_sent_instead(tidied: Page) -> None:
    page = tidied
    back_to(page, "tidy up").get_by_role("button", name="Go back").click()
    expect(page.get_by_label("Message to the agent")).to_have_value("tidy up")
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    say(page, "tidy up with care")
    approve(page)
    expect(page.get_by_text("All is tidy.")).to_be_visible()
    for _ in range(2):
        expect(page.locator(".person p")).to_have_text(["look first", "tidy up with care"])
        expect(page.locator("details.run")).to_have_count(2)
        expect(page.get_by_text("All is tidy.")).to_have_count(1)
        expect(page.get_by_role("button", name="Undo")).to_have_count(0)
        page.reload()


@pytest.mark.thorough
def test_files_of_a_turn_open_as_they_were(tidied: Page, page_server: Served) -> None:
    page = tidied
    for name in ("results/1.txt", "scripts/report.py"):
        (page_server.workspace / name).write_text("changed since")
    turn = page.locator(".turn-files")
    for _ in range(2):
        expect(turn.locator("summary")).to_have_text("Files of this turn: 3 made, 1 changed, 1 deleted")
        page.reload()
    turn.locator("summary").click()
    expect(turn.locator("li")).to_have_text(
        [*(f"made/results/{n}.txt" for n in (1, 2, 3)), "changed/scripts/report.py", "deleted/data/sales.csv"]
    )
    for name, moment, text in (
        ("/results/1.txt", "after", "1"),
        ("/scripts/report.py", "after", "broken"),
        ("/data/sales.csv", "before", "north,1"),
    ):
        turn.get_by_role("button", name=name).click()
        shown = turn.get_by_role("region", name=f"File {Path(name).name}, as it was {moment} this turn")
        expect(shown.locator("pre")).to_contain_text(text)
    with page.expect_download() as download:
        shown.get_by_role("link", name="Download").click()
    assert Path(download.value.path()).read_text() == SALES
    found = Axe().run(page, context=".turn-files")
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.thorough
def test_files_that_the_snapshot_of_a_turn_leaves_out_are_named(page: Page, page_server: Served) -> None:
    open_chat(page)
    say(page, "make a pipe")
    approve(page)
    turn = page.locator(".turn-files")
    expect(turn.locator("summary")).to_have_text("Files of this turn: 1 not kept")
    turn.locator("summary").click()
    expect(turn.locator("li")).to_have_text(["not kept /workspace/pipe: a FIFO"])
    (page_server.workspace / "pipe").unlink()


@pytest.mark.thorough
def test_fork_is_refused_where_threads_share_the_workspace(tidied: Page) -> None:
    tidied.get_by_role("button", name="Fork from here").last.click()
    expect(tidied.get_by_role("alert")).to_have_text(
        re.compile("All threads share one workspace.*SANDBOX_SCOPE=thread")
    )


@pytest.mark.thorough
def test_dialog_stops_a_run_that_is_under_way(page: Page, page_server: Served) -> None:
    open_chat(page)
    say(page, "work for long")
    approve(page)
    expect(page.get_by_text("That was short.")).to_be_visible()
    say(page, "and longer")
    approve(page)
    dialog = back_to(page, "work for long")
    expect(dialog.get_by_role("alert")).to_contain_text("The agent is at work in this chat.")
    expect(dialog.get_by_role("button", name="Go back")).to_be_disabled()
    dialog.get_by_role("button", name="Stop the agent").click()
    expect(listed(dialog, "Is deleted")).to_have_text(["/results/long.txt"])
    dialog.get_by_role("button", name="Go back").click()
    expect(page.get_by_label("Message to the agent")).to_have_value("work for long")
    expect(page.locator(".person")).to_have_count(0)
    assert not (page_server.workspace / "results/long.txt").exists()
