"""Files and texts of an agent try to run as the page's origin and to approve a waiting command.

Each attempt carries the same program. The program prints a line and approves every waiting question. The last
test shows that both effects would be seen.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, expect
from playwright.sync_api import Error as BrowserError

from tests.clients.cli_program import execute
from tests.e2e.page.talk import run_thread
from tests.servers.served import Served
from tests.support.small_files import png
from tests.support.waiting import eventually

pytestmark = [pytest.mark.docker, pytest.mark.thorough]

SETTINGS: dict[str, str] = {}
"""Its own server, because the program of the last test approves every question on the server."""

RUNS = "HOSTILE-CODE-RUNS"
ATTACK = (
    f"console.log('{RUNS}');"
    "const send = (path, body) => fetch(BASE + path, {method: 'POST', body: JSON.stringify(body),"
    " headers: {'content-type': 'application/json'}});"
    "send('/threads/search', {}).then(r => r.json()).then(all => all.forEach(each =>"
    " send('/threads/' + each.thread_id + '/runs', {assistant_id: 'deep_agent',"
    " command: {resume: {decisions: [{type: 'approve'}]}}})))"
)
PROGRAM = ATTACK.replace("BASE", "location.origin")

HTML = f"<!doctype html><body onload=\"console.log('{RUNS}')\"><script>{PROGRAM}</script>"
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" '
    f"onload=\"console.log('{RUNS}')\"><script>{PROGRAM}</script></svg>"
)
NAMES = [
    f'<img src=x onerror="console.log(`{RUNS}`)">',
    "<svg onload=alert(1)>.png",
    "javascript:alert(1)",
    "\u202egnp.exe",
    "{{constructor.constructor('alert(1)')()}}.txt",
]
ANSWER = f"""\
<script>console.log("{RUNS}")</script>
<img src=x onerror="console.log('{RUNS}')">
<iframe srcdoc="<script>console.log('{RUNS}')</script>"></iframe>
<svg onload="console.log('{RUNS}')"></svg>
<a href="javascript:console.log('{RUNS}')">first link</a>
<form action="/threads"><button>send</button></form>

[second link](javascript:console.log%28%22{RUNS}%22%29)
[third link](data:text/html,%3Cscript%3Econsole.log%28%22{RUNS}%22%29%3C/script%3E)
[fourth link](  JaVaScRiPt:console.log%28%22{RUNS}%22%29)
[fifth link](/files/THREAD/content?path=/workspace/results/evil.html)
![first](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9ImFsZXJ0KDEpIj48L3N2Zz4=)
![second](/workspace/results/evil.svg)
![third](/workspace/results/evil.png)
![fourth](http://127.0.0.1:9/pixel.png)
![fifth](/files/x/../../threads)

```html
{SVG}
```

| {NAMES[0].replace("|", "")} |
|---|
| <b onmouseover="console.log('{RUNS}')">cell</b> |

That was all of it.
"""
SCRIPT = json.dumps(
    {
        "conversations": [
            {
                "when": "ask first",
                "replies": [{"tool_calls": [execute(f"echo {NAMES[0]!r} > /workspace/ran.txt")]}],
            },
            {"when": "answer with markup", "replies": [{"text": ANSWER}]},
            {
                "when": "print markup",
                "replies": [{"tool_calls": [execute("cat /workspace/results/evil.*")]}, {"text": "Printed."}],
            },
        ]
    }
)


@dataclass
class Seen:
    """A browser, and what hostile code printed or asked in any of its tabs and frames."""

    context: BrowserContext
    hostile: list[str]


@pytest.fixture
def seen(browser: Browser, page_server: Served) -> Iterator[Seen]:
    context = browser.new_context(base_url=page_server.url)
    seen = Seen(context, [])
    context.on("console", lambda line: seen.hostile.append(line.text) if RUNS in line.text else None)
    context.on("dialog", lambda dialog: (seen.hostile.append(dialog.message), dialog.dismiss()))
    yield seen
    context.close()


@pytest.fixture(scope="module")
def waiting(page_server: Served) -> str:
    """The id of a thread that waits for an approval and has hostile files in its workspace."""
    thread = run_thread(page_server, "ask first")
    httpx.get(f"{page_server.url}/files/{thread}/list", timeout=60).raise_for_status()  # starts its sandbox
    results = page_server.workspace / "results"
    for name, content in {
        "evil.html": HTML,
        "evil.svg": SVG,
        "evil.js": PROGRAM,
        "evil.css": "body::before { content: 'HOSTILE' } body { display: none }",
        "evil.xhtml": f'<html xmlns="http://www.w3.org/1999/xhtml"><script>{PROGRAM}</script></html>',
        "evil.csv": f'"{NAMES[0].replace(chr(34), chr(34) * 2)}",b\n"=cmd|calc","<script>{RUNS}</script>"\n',
        "evil.md": ANSWER,
    }.items():
        (results / name).write_text(content)
    (results / "evil.png").write_text(HTML)
    (results / "polyglot.gif").write_bytes(b"GIF89a/*" + b"\0" * 20 + b"*/=1;" + PROGRAM.encode())
    (results / "real.png").write_bytes(png() + HTML.encode())
    for name in NAMES:
        (page_server.workspace / "scripts" / name).write_text(HTML)
    return thread


def nothing_happened(seen: Seen, server: Served, waiting: str) -> None:
    """Fail if hostile code has run or the question was answered."""
    assert seen.hostile == []
    with server.client() as http:
        assert http.get(f"/threads/{waiting}/state").json()["interrupts"], "answered"
        assert len(http.get(f"/threads/{waiting}/runs").json()) == 1
    assert not (server.workspace / "ran.txt").exists()


EVIL = ["evil.html", "evil.svg", "evil.xhtml", "evil.js", "evil.png", "polyglot.gif", "real.png"]
VIEWS = ["", "&view=text", "&view=image"]


@pytest.mark.parametrize("view", VIEWS)
def test_hostile_file_opened_by_its_address_does_not_run(
    seen: Seen, page_server: Served, waiting: str, view: str
) -> None:
    for name in EVIL:
        page = seen.context.new_page()
        saved: list[str] = []
        page.on("download", lambda download, saved=saved: saved.append(download.suggested_filename))
        try:
            answer = page.goto(f"/files/{waiting}/content?path=/workspace/results/{name}{view}")
        except BrowserError as error:
            assert "Download is starting" in str(error)
            deadline = time.monotonic() + 5
            while not saved and time.monotonic() < deadline:
                page.wait_for_timeout(50)
            assert saved == [name]
        else:
            assert answer is not None
            assert answer.status == 422, name
            assert answer.headers["content-type"] == "application/json"
        page.wait_for_timeout(200)
        assert seen.hostile == [], name
    nothing_happened(seen, page_server, waiting)


ADD = "const add = (name, more) => document.body.append(Object.assign(document.createElement(name), more));"
INSERTED = {
    "a frame": "add('iframe', {src: url})",
    "an object": "add('object', {data: url})",
    "an embed": "add('embed', {src: url})",
    "a picture": "add('img', {src: url})",
    "a script": "add('script', {src: url})",
    "a module": "add('script', {type: 'module', src: url})",
    "an import": "import(url).catch(() => {})",
    "a worker": "try { new Worker(url) } catch {}",
    "a service worker": "navigator.serviceWorker.register(url, {scope: '/files/'}).catch(() => {})",
    "a style": "add('link', {rel: 'stylesheet', href: url})",
    "markup": "fetch(url).then(r => r.text()).then(innerHTML => add('div', {innerHTML}))",
    "a window": "window.open(url)",
}


def test_hostile_file_put_into_the_page_does_not_run(seen: Seen, page_server: Served, waiting: str) -> None:
    """The security policy, the content type and `nosniff` stop content that a script puts into the page."""
    names = ["evil.html", "evil.svg", "evil.js", "evil.css", "polyglot.gif"]
    names += ["evil.html&view=text", "evil.svg&view=image"]
    urls = [f"/files/{waiting}/content?path=/workspace/results/{name}" for name in names]
    urls.append(f"/files/{waiting}/table?path=/workspace/results/evil.csv")
    for how, program in INSERTED.items():
        page = seen.context.new_page()
        page.goto("/app")
        page.evaluate(f"urls => {{ {ADD} for (const url of urls) {{ {program} }} }}", urls)
        page.wait_for_load_state("networkidle")
        assert seen.hostile == [], how
        assert page.evaluate("getComputedStyle(document.body).display") != "none", f"{how}: the style applies"
    page.wait_for_timeout(1_000)
    nothing_happened(seen, page_server, waiting)


def test_markup_in_an_answer_does_not_run(seen: Seen, page_server: Served, waiting: str) -> None:
    thread = run_thread(page_server, "answer with markup")
    page = seen.context.new_page()
    page.goto(f"/app/t/{thread}")
    expect(page.get_by_text("That was all of it.")).to_be_visible()
    for words in ("first", "second", "third", "fourth", "fifth"):
        for link in page.get_by_text(f"{words} link", exact=False).all():
            link.click()
    page.get_by_text("cell").last.hover()
    page.wait_for_timeout(500)
    nothing_happened(seen, page_server, waiting)
    assert page.locator("main iframe, main form[action], main script, main object, main embed").count() == 0
    links = page.eval_on_selector_all("main a", "all => all.map(each => each.href)")
    assert [each for each in links if not each.startswith(("http://", "https://"))] == []
    assert page.url.endswith(f"/app/t/{thread}")
    assert len(seen.context.pages) == 1, "a link has opened a tab"


def test_markup_in_file_names_and_contents_does_not_run(
    seen: Seen, page_server: Served, waiting: str
) -> None:
    page = seen.context.new_page()
    page.goto(f"/app/t/{waiting}")
    page.get_by_role("button", name="Files").click()
    for folder in ("results", "scripts"):
        item = page.get_by_role("treeitem").filter(has=page.get_by_text(folder, exact=True))
        expect(item).to_be_visible()
        item.click()
    expect(page.get_by_role("treeitem").filter(has_text="‹U+202E›gnp.exe")).to_be_visible()
    for name in (*EVIL, "evil.csv", "evil.md", "evil.css", *NAMES):
        shown = name.replace("\u202e", "‹U+202E›")
        page.get_by_role("treeitem").filter(has=page.get_by_text(shown, exact=True)).click()
        preview = page.get_by_role("region", name=f"File {shown}", exact=True)
        expect(preview).to_be_visible()
        expect(preview.get_by_text("Loading …")).to_have_count(0)
        if name == "evil.csv":
            expect(preview.get_by_role("columnheader", name=NAMES[0])).to_be_visible()
        if name == "evil.svg":
            expect(preview.get_by_text("<script>")).to_be_visible()
    page.wait_for_timeout(500)
    nothing_happened(seen, page_server, waiting)


def test_markup_in_a_command_and_its_output_does_not_run(
    seen: Seen, page_server: Served, waiting: str
) -> None:
    page = seen.context.new_page()
    page.goto(f"/app/t/{waiting}")
    expect(page.get_by_text("/workspace/ran.txt").first).to_be_visible()
    printed = run_thread(page_server, "print markup")
    with page_server.client() as http:
        approve = {"assistant_id": "deep_agent", "command": {"resume": {"decisions": [{"type": "approve"}]}}}
        http.post(f"/threads/{printed}/runs/wait", json=approve).raise_for_status()
    page.goto(f"/app/t/{printed}")
    expect(page.get_by_text("Printed.")).to_be_visible()
    for card in page.locator("details").all():
        card.evaluate("card => card.open = true")
    page.wait_for_timeout(500)
    nothing_happened(seen, page_server, waiting)


def test_attack_by_the_page_itself_is_seen(seen: Seen, page_server: Served, waiting: str) -> None:
    """Runs last: when the page itself runs the program, its line and its approval are seen."""
    page = seen.context.new_page()
    page.goto("/app")
    page.evaluate(PROGRAM)
    assert seen.hostile
    eventually((page_server.workspace / "ran.txt").exists)
