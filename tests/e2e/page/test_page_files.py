"""The file panel: browse, preview, upload and download files of the workspace."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import FilePayload, Locator, Page, expect

from tests.e2e.page.talk import say
from tests.servers.served import Served
from tests.support.small_files import pdf, png

pytestmark = pytest.mark.docker

SCRIPT = """\
conversations:
- when: make a file
  replies:
  - tool_calls: [{name: write_file, args: {file_path: /results/made.txt, content: "made by the agent"}}]
  - text: It is made.
- when: ask by letter
  replies:
  - tool_calls: [{name: execute, args: {command: "echo ran > /workspace/letter.txt"}}]
  - text: It has run.
"""


@pytest.fixture
def thread(page_server: Served) -> str:
    made = httpx.post(f"{page_server.url}/threads", json={"metadata": {"graph_id": "deep_agent"}})
    return str(made.raise_for_status().json()["thread_id"])


@pytest.fixture
def files(page: Page, thread: str) -> Page:
    """The page with a thread and the open file panel."""
    page.goto(f"/app/t/{thread}")
    page.get_by_role("button", name="Files").click()
    expect(item(page, "results")).to_be_visible()
    return page


def item(page: Page, name: str) -> Locator:
    """The row of a file or folder in the tree."""
    return page.get_by_role("treeitem").filter(has=page.get_by_text(name, exact=True))


def preview(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=f"File {name}")


DROP = """(panel, [name, content]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(content)], name));
  for (const kind of ["dragenter", "dragover", "drop"])
    panel.dispatchEvent(new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true}));
}"""


def drop(place: Locator, name: str, content: bytes | int) -> None:
    """Drop a file on an element. A number as content is a size in bytes."""
    place.evaluate(DROP, [name, content if isinstance(content, int) else list(content)])


def test_dropped_file_can_be_previewed_and_downloaded(
    files: Page, page_server: Served, tmp_path: Path
) -> None:
    content = b"name,n\nfirst,1\n"
    drop(files.locator(".file-panel"), "dropped.csv", content)
    expect(files.get_by_role("status").get_by_text("is in /workspace/data/dropped.csv")).to_be_visible()
    assert (page_server.workspace / "data/dropped.csv").read_bytes() == content
    expect(preview(files, "dropped.csv").get_by_role("cell", name="first")).to_be_visible()
    with files.expect_download() as download:
        preview(files, "dropped.csv").get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "dropped.csv"
    assert Path(download.value.path()).read_bytes() == content


@pytest.mark.thorough
def test_chosen_file_replaces_another_only_after_a_question(files: Page, page_server: Served) -> None:
    there = page_server.workspace / "data/there.txt"
    there.write_text("before")
    after: FilePayload = {"name": "there.txt", "mimeType": "text/plain", "buffer": b"after"}
    files.once("dialog", lambda dialog: dialog.dismiss())
    with files.expect_file_chooser() as opened:
        files.get_by_role("button", name="Upload").click()
    opened.value.set_files(after)
    expect(files.get_by_role("status").get_by_text("was not replaced")).to_be_visible()
    assert there.read_text() == "before"
    files.once("dialog", lambda dialog: dialog.accept())
    files.locator("input[type=file]").set_input_files(after)
    expect(preview(files, "there.txt").get_by_text("after")).to_be_visible()
    assert there.read_text() == "after"


@pytest.mark.thorough
def test_file_dropped_on_a_folder_goes_into_it_unless_too_large(files: Page, page_server: Served) -> None:
    drop(item(files, "scripts"), "here.py", b"print(1)")
    expect(item(files, "here.py")).to_be_visible()
    assert (page_server.workspace / "scripts/here.py").read_text() == "print(1)"
    drop(files.locator(".file-panel"), "large.bin", (16 << 20) + 1)
    expect(files.get_by_role("status").get_by_text("The limit is 16 MiB")).to_be_visible()
    assert not (page_server.workspace / "data/large.bin").exists()


@pytest.mark.thorough
def test_file_dropped_on_a_new_chat_creates_its_thread(page: Page, page_server: Served) -> None:
    page.goto("/app")
    page.get_by_role("button", name="Files").click()
    drop(page.locator(".file-panel"), "begins.txt", b"x")
    expect(preview(page, "begins.txt")).to_be_visible()
    assert re.search(r"/app/t/[0-9a-f-]{36}$", page.url)
    assert (page_server.workspace / "data/begins.txt").exists()


def test_panel_shows_files_that_a_run_made(files: Page, page_server: Served) -> None:
    item(files, "results").click()
    say(files, "make a file")
    expect(files.get_by_text("It is made.")).to_be_visible()
    expect(item(files, "made.txt")).to_be_visible()
    item(files, "made.txt").click()
    expect(preview(files, "made.txt").get_by_text("made by the agent")).to_be_visible()
    (page_server.workspace / "results/made.txt").write_text("changed since")
    files.get_by_role("button", name="Refresh").click()
    expect(preview(files, "made.txt").get_by_text("changed since")).to_be_visible()


@pytest.mark.thorough
def test_letter_key_in_the_tree_approves_nothing(files: Page, page_server: Served) -> None:
    say(files, "ask by letter")
    expect(files.get_by_role("button", name="Approve").first).to_be_visible()
    item(files, "data").focus()
    files.wait_for_timeout(600)  # the keys of the approval card work after half a second
    files.keyboard.press("a")
    files.wait_for_timeout(500)
    expect(files.get_by_role("button", name="Approve").first).to_be_visible()
    assert not (page_server.workspace / "letter.txt").exists()


@pytest.mark.thorough
def test_previews_of_pictures_text_and_pdf(files: Page, page_server: Served) -> None:
    results = page_server.workspace / "results"
    (results / "plot.png").write_bytes(png(300, 200, (200, 80, 40)))
    (results / "broken.png").write_bytes(b"no picture")
    (results / "report.pdf").write_bytes(pdf("one", "two"))
    (results / "program.py").write_text("def answer():\n    return 42  # it\n")
    (results / "long.log").write_text("line\n" * 100_000)
    (results / "book.xlsx").write_bytes(b"PK")
    item(files, "results").click()

    def opened(name: str) -> Locator:
        item(files, name).click()
        return preview(files, name)

    shown = opened("plot.png").get_by_role("img", name="The picture plot.png")
    expect(shown).to_be_visible()
    assert shown.evaluate("image => [image.naturalWidth, image.naturalHeight]") == [300, 200]
    expect(opened("broken.png").get_by_role("alert")).to_contain_text("not PNG, JPEG, GIF, WebP or SVG")
    report = opened("report.pdf")
    expect(report.get_by_role("img", name="Page 1 of 2 of report.pdf")).to_be_visible()
    report.get_by_role("button", name="Next").click()
    expect(report.get_by_role("img", name="Page 2 of 2 of report.pdf")).to_be_visible()
    expect(report.get_by_role("button", name="Next")).to_be_disabled()
    expect(opened("program.py").locator(".hljs-keyword").first).to_have_text("def")
    expect(opened("long.log").get_by_text("Only the beginning of the file")).to_be_visible()
    expect(opened("book.xlsx").get_by_text("Download it to open it")).to_be_visible()


@pytest.mark.thorough
def test_tables_show_a_hundred_rows_at_a_time(files: Page, page_server: Served) -> None:
    lines = ["city,people", *(f"place {n},{n}" for n in range(1, 1235))]
    (page_server.workspace / "data/cities.csv").write_text("\n".join(lines))
    (page_server.workspace / "data/empty.csv").touch()
    item(files, "data").click()
    item(files, "empty.csv").click()
    expect(preview(files, "empty.csv").get_by_text("The file is empty.")).to_be_visible()
    item(files, "cities.csv").click()
    shown = preview(files, "cities.csv")
    expect(shown.get_by_role("status")).to_have_text("Rows 1 to 100 of 1,234")
    expect(shown.get_by_role("columnheader")).to_have_text(["city", "people"])
    shown.get_by_role("button", name="Next").click()
    expect(shown.get_by_role("status")).to_have_text("Rows 101 to 200 of 1,234")
    expect(shown.get_by_role("cell", name="place 101", exact=True)).to_be_visible()
    shown.get_by_role("button", name="Back").click()
    expect(shown.get_by_role("status")).to_have_text("Rows 1 to 100 of 1,234")


@pytest.mark.thorough
def test_tree_works_by_keyboard(files: Page, page_server: Served) -> None:
    (page_server.workspace / "scripts/keys.py").write_text("x = 1\n")
    item(files, "data").focus()
    for name, key in (("scripts", "ArrowRight"), ("keys.py", "Enter")):
        while name not in files.evaluate("document.activeElement.innerText"):
            files.keyboard.press("ArrowDown")
        files.keyboard.press(key)
        expect(item(files, "keys.py")).to_be_visible()
    expect(preview(files, "keys.py")).to_be_visible()
    files.keyboard.press("ArrowLeft")
    files.keyboard.press("ArrowLeft")
    expect(item(files, "scripts")).to_have_attribute("aria-expanded", "false")
    files.keyboard.press("End")
    expect(files.get_by_role("treeitem").last).to_be_focused()
    files.keyboard.press("Home")
    assert files.locator("[role=treeitem][tabindex='0']").count() == 1  # one stop of the Tab key


@pytest.mark.thorough
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_panel_is_accessible_and_fits(files: Page, page_server: Served, scheme: str, width: int) -> None:
    files.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    files.set_viewport_size({"width": width, "height": 780})
    table = "a,b,c\n" + "long text here,and more of it,1\n" * 30
    (page_server.workspace / "data/axe.csv").write_text(table)
    (page_server.workspace / "data/axe.pdf").write_bytes(pdf("axe"))
    item(files, "data").click()
    for name in ("axe.csv", "axe.pdf"):
        item(files, name).click()
        expect(preview(files, name)).to_be_visible()
        expect(preview(files, name).get_by_text("Loading")).to_have_count(0)
        found = Axe().run(files, context=".file-panel")
        assert found.violations_count == 0, found.generate_report()
        panel = files.locator(".file-panel").bounding_box()
        assert panel and panel["x"] >= 0 and panel["x"] + panel["width"] <= width
