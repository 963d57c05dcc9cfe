"""The file panel: the workspace is seen, put in and taken out, by mouse, keyboard and finger (V4)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.served import Served
from tests.small_files import pdf, png

pytestmark = pytest.mark.docker

SETTINGS = {"HTTP_MAX_BODY": "1m"}
SCRIPT = """\
conversations:
- when: make a file
  replies:
  - tool_calls: [{name: write_file, args: {file_path: /results/made.txt, content: "made by the agent"}}]
  - text: It is made.
- when: ask first
  replies:
  - tool_calls: [{name: execute, args: {command: "echo ran > /workspace/ran.txt"}}]
  - text: It has run.
"""


@pytest.fixture
def thread(page_server: Served) -> str:
    made = httpx.post(f"{page_server.url}/threads", json={"metadata": {"graph_id": "deep_agent"}})
    return str(made.raise_for_status().json()["thread_id"])


@pytest.fixture
def files(page: Page, thread: str) -> Page:
    """The page at a thread, its files shown."""
    page.goto(f"/app/t/{thread}")
    page.get_by_role("button", name="Files").click()
    expect(item(page, "results")).to_be_visible(timeout=30_000)
    return page


def item(page: Page, name: str) -> Locator:
    """A file or folder in the tree."""
    return page.get_by_role("treeitem").filter(has=page.get_by_text(name, exact=True))


def preview(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=f"File {name}")


def refresh(page: Page) -> None:
    page.get_by_role("button", name="Refresh").click()


DROP = """(panel, [name, content]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(content)], name));
  for (const kind of ["dragenter", "dragover", "drop"])
    panel.dispatchEvent(new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true}));
}"""


def drop(place: Locator, name: str, content: bytes) -> None:
    """Let a file go above a place of the page."""
    place.evaluate(DROP, [name, list(content)])


def test_a_file_is_dropped_seen_and_taken_out_again(
    files: Page, page_server: Served, picture: Callable[..., Path], tmp_path: Path
) -> None:
    content = b"name,n\nfirst,1\n"
    drop(files.locator(".file-panel"), "dropped.csv", content)
    expect(files.get_by_role("status").get_by_text("is in /workspace/data/dropped.csv")).to_be_visible()
    assert (page_server.workspace / "data/dropped.csv").read_bytes() == content
    expect(preview(files, "dropped.csv").get_by_role("cell", name="first")).to_be_visible()
    expect(item(files, "dropped.csv")).to_have_attribute("aria-selected", "true")
    with files.expect_download() as download:
        preview(files, "dropped.csv").get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "dropped.csv"
    assert Path(download.value.path()).read_bytes() == content
    picture(files)


def test_a_file_dropped_on_a_folder_goes_into_it(files: Page, page_server: Served) -> None:
    drop(item(files, "scripts"), "here.py", b"print(1)")
    expect(item(files, "here.py")).to_be_visible()
    assert (page_server.workspace / "scripts/here.py").read_text() == "print(1)"


def test_a_file_is_chosen_and_replaces_one_only_if_a_person_says_so(files: Page, page_server: Served) -> None:
    there = page_server.workspace / "data/there.txt"
    there.write_text("before")
    asked: list[str] = []
    chooser = files.locator("input[type=file]")
    files.once("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    chooser.set_input_files({"name": "there.txt", "mimeType": "text/plain", "buffer": b"after"})
    expect(files.get_by_role("status").get_by_text("There is a file of this name already")).to_be_visible()
    assert there.read_text() == "before"
    files.once("dialog", lambda dialog: dialog.accept())
    chooser.set_input_files({"name": "there.txt", "mimeType": "text/plain", "buffer": b"after"})
    expect(preview(files, "there.txt").get_by_text("after")).to_be_visible()
    assert there.read_text() == "after"
    assert "there.txt" in asked[0]


def test_the_button_opens_the_chooser(files: Page) -> None:
    with files.expect_file_chooser() as chooser:
        files.get_by_role("button", name="Upload").click()
    assert chooser.value.is_multiple()


def test_one_that_is_too_large_is_not_sent(files: Page, page_server: Served) -> None:
    drop(files.locator(".file-panel"), "large.bin", bytes((1 << 20) + 1))
    expect(files.get_by_role("status").get_by_text("at most 1.0 MB are taken (HTTP_MAX_BODY")).to_be_visible()
    assert not (page_server.workspace / "data/large.bin").exists()


def test_a_file_dropped_on_a_new_chat_begins_it(page: Page, page_server: Served) -> None:
    page.goto("/app")
    page.get_by_role("button", name="Files").click()
    expect(page.get_by_text("as soon as the chat has begun")).to_be_visible()
    drop(page.locator(".file-panel"), "begins.txt", b"x")
    expect(preview(page, "begins.txt")).to_be_visible()
    assert re.search(r"/app/t/[0-9a-f-]{36}$", page.url)
    assert (page_server.workspace / "data/begins.txt").exists()


def test_what_a_run_makes_is_there_without_asking(files: Page, page_server: Served) -> None:
    item(files, "results").click()
    files.get_by_label("Message to the agent").fill("make a file")
    files.get_by_label("Message to the agent").press("Enter")
    expect(files.get_by_text("It is made.")).to_be_visible(timeout=30_000)
    expect(item(files, "made.txt")).to_be_visible()
    item(files, "made.txt").click()
    expect(preview(files, "made.txt").get_by_text("made by the agent")).to_be_visible()
    (page_server.workspace / "results/made.txt").write_text("changed since")
    refresh(files)
    expect(preview(files, "made.txt").get_by_text("changed since")).to_be_visible()


def test_a_letter_typed_among_the_files_approves_nothing(files: Page, page_server: Served) -> None:
    """In the chat, `a` says yes; in a tree, a letter goes to the next name that begins with it."""
    (page_server.workspace / "a-file.txt").write_text("x")
    files.get_by_label("Message to the agent").fill("ask first")
    files.get_by_label("Message to the agent").press("Enter")
    expect(files.get_by_role("button", name="Approve").first).to_be_visible(timeout=30_000)
    refresh(files)
    expect(item(files, "a-file.txt")).to_be_visible()
    item(files, "data").focus()
    files.wait_for_timeout(600)  # the chat's keys count from half a second on
    files.keyboard.press("a")
    expect(item(files, "a-file.txt")).to_be_focused()
    files.keyboard.press("r")
    expect(item(files, "results")).to_be_focused()
    files.wait_for_timeout(500)
    expect(files.get_by_role("button", name="Approve").first).to_be_visible()
    assert not (page_server.workspace / "ran.txt").exists()


class TestPreviews:
    def test_pictures(self, files: Page, page_server: Served, picture: Callable[..., Path]) -> None:
        folder = page_server.workspace / "results"
        (folder / "plot.png").write_bytes(png(300, 200, (200, 80, 40)))
        (folder / "broken.png").write_bytes(b"no picture")
        item(files, "results").click()
        item(files, "plot.png").click()
        shown = preview(files, "plot.png").get_by_role("img", name="The picture plot.png")
        expect(shown).to_be_visible()
        assert shown.evaluate("image => [image.naturalWidth, image.naturalHeight]") == [300, 200]
        picture(files)
        item(files, "broken.png").click()
        expect(preview(files, "broken.png").get_by_role("alert")).to_contain_text("no PNG, JPEG, GIF or WebP")

    def test_tables_by_hundreds_of_rows(
        self, files: Page, page_server: Served, picture: Callable[..., Path]
    ) -> None:
        lines = ["city,people", *(f"place {n},{n}" for n in range(1, 1235))]
        (page_server.workspace / "data/cities.csv").write_text("\n".join(lines))
        item(files, "data").click()
        item(files, "cities.csv").click()
        shown = preview(files, "cities.csv")
        expect(shown.get_by_role("status")).to_have_text("Rows 1 to 100 of 1,234")
        expect(shown.get_by_role("columnheader")).to_have_text(["city", "people"])
        expect(shown.get_by_role("row")).to_have_count(101)
        picture(files)
        shown.get_by_role("button", name="Next").click()
        expect(shown.get_by_role("status")).to_have_text("Rows 101 to 200 of 1,234")
        expect(shown.get_by_role("cell", name="place 101", exact=True)).to_be_visible()
        shown.get_by_role("button", name="Back").click()
        expect(shown.get_by_role("status")).to_have_text("Rows 1 to 100 of 1,234")
        shown.get_by_role("button", name="As text").click()
        expect(shown.get_by_text("city,people")).to_be_visible()

    def test_pages_of_a_pdf(self, files: Page, page_server: Served, picture: Callable[..., Path]) -> None:
        (page_server.workspace / "results/report.pdf").write_bytes(pdf("one", "two"))
        item(files, "results").click()
        item(files, "report.pdf").click()
        shown = preview(files, "report.pdf")
        expect(shown.get_by_role("img", name="Page 1 of 2 of report.pdf")).to_be_visible(timeout=15_000)
        picture(files)
        shown.get_by_role("button", name="Next").click()
        expect(shown.get_by_role("img", name="Page 2 of 2 of report.pdf")).to_be_visible(timeout=15_000)
        expect(shown.get_by_role("button", name="Next")).to_be_disabled()

    def test_text_with_colours(self, files: Page, page_server: Served) -> None:
        scripts = page_server.workspace / "scripts"
        (scripts / "program.py").write_text("def answer():\n    return 42  # it\n")
        (scripts / "long.log").write_text("line\n" * 100_000)
        (scripts / "empty.txt").write_text("")
        (scripts / "data.bin.txt").write_bytes(b"\0\1")
        item(files, "scripts").click()
        item(files, "program.py").click()
        expect(preview(files, "program.py").locator(".hljs-keyword").first).to_have_text("def")
        item(files, "long.log").click()
        expect(preview(files, "long.log").get_by_text("The beginning of it")).to_be_visible()
        item(files, "empty.txt").click()
        expect(preview(files, "empty.txt").get_by_text("The file is empty.")).to_be_visible()
        item(files, "data.bin.txt").click()
        expect(preview(files, "data.bin.txt").get_by_role("alert")).to_contain_text("NUL")

    def test_links_fifos_and_others(self, files: Page, page_server: Served) -> None:
        (page_server.workspace / "out").symlink_to("/etc/passwd")
        os.mkfifo(page_server.workspace / "waits")
        (page_server.workspace / "book.xlsx").write_bytes(b"PK")
        refresh(files)
        item(files, "out").click()
        expect(preview(files, "out").get_by_role("alert")).to_contain_text("leads out of /workspace")
        item(files, "waits").click()
        expect(preview(files, "waits").get_by_role("alert")).to_contain_text("FIFO")
        item(files, "book.xlsx").click()
        expect(preview(files, "book.xlsx").get_by_text("Download it to open it")).to_be_visible()


class TestForEverybody:
    def test_by_keyboard_alone(self, files: Page, page_server: Served) -> None:
        (page_server.workspace / "scripts/keys.py").write_text("x = 1\n")
        refresh(files)
        item(files, "data").focus()
        for _ in range(10):
            if files.evaluate("document.activeElement.innerText").startswith("scripts"):
                break
            files.keyboard.press("ArrowDown")
        files.keyboard.press("ArrowRight")
        expect(item(files, "scripts")).to_have_attribute("aria-expanded", "true")
        expect(item(files, "keys.py")).to_be_visible()
        while "keys.py" not in files.evaluate("document.activeElement.innerText"):
            files.keyboard.press("ArrowDown")
        files.keyboard.press("Enter")
        expect(preview(files, "keys.py")).to_be_visible()
        files.keyboard.press("ArrowLeft")
        files.keyboard.press("ArrowLeft")
        expect(item(files, "scripts")).to_have_attribute("aria-expanded", "false")
        files.keyboard.press("End")
        files.keyboard.press("Home")
        assert files.locator("[role=treeitem][tabindex='0']").count() == 1, "one stop of the Tab key"

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_axe_finds_nothing(self, files: Page, page_server: Served, scheme: str) -> None:
        files.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        (page_server.workspace / "data/axe.csv").write_text("a,b\n1,2\n")
        (page_server.workspace / "data/axe.pdf").write_bytes(pdf("axe"))
        refresh(files)
        item(files, "data").click()
        for name in ("axe.csv", "axe.pdf"):
            item(files, name).click()
            expect(preview(files, name)).to_be_visible()
            expect(preview(files, name).get_by_text("Loading")).to_have_count(0, timeout=15_000)
            found = Axe().run(files, context=".file-panel")
            assert found.violations_count == 0, found.generate_report()

    def test_on_a_phone(
        self, page: Page, thread: str, page_server: Served, picture: Callable[..., Path]
    ) -> None:
        page.set_viewport_size({"width": 390, "height": 780})
        (page_server.workspace / "data/phone.csv").write_text(
            "a,b,c\n" + "long text here,and more of it,1\n" * 30
        )
        page.goto(f"/app/t/{thread}")
        page.get_by_role("button", name="Files").click()
        item(page, "data").click()
        item(page, "phone.csv").click()
        expect(preview(page, "phone.csv").get_by_role("table")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, "nothing sticks out"
        panel = page.locator(".file-panel").bounding_box()
        assert panel is not None
        assert panel["x"] >= 0
        assert panel["x"] + panel["width"] <= 390
        picture(page)
