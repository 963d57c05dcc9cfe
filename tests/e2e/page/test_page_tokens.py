"""A server with tokens, in a browser: it asks for one as a password; no other page gains by that (V3, V7)."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from agent.tokens import new_token
from tests.served import Served
from tests.small_files import png

pytestmark = pytest.mark.docker

ALICE, ALICES = new_token("alice")
BOB, BOBS = new_token("bob")
SETTINGS = {"AUTH_TOKENS": f"{ALICES},{BOBS}"}
SCRIPT = """\
conversations:
- when: ask first
  replies:
  - text: I ask.
    tool_calls: [{name: execute, args: {command: "echo ran > /workspace/ran.txt"}}]
  - text: It has run.
"""
BEARER = {"Authorization": f"Bearer {ALICE}"}


def signed_in(browser: Browser, server: Served, password: str) -> BrowserContext:
    """A browser whose person types this when they are asked for a name and a password."""
    return browser.new_context(
        base_url=server.url, http_credentials={"username": "whoever", "password": password}
    )


@pytest.fixture
def alice(browser: Browser, page_server: Served) -> Iterator[BrowserContext]:
    context = signed_in(browser, page_server, ALICE)
    yield context
    context.close()


def waiting_thread(server: Served) -> str:
    """A thread of alice's that waits for an approval."""
    with httpx.Client(base_url=server.url, timeout=60, headers=BEARER) as http:
        thread = http.post("/threads", json={"metadata": {"graph_id": "deep_agent"}}).json()["thread_id"]
        given = {"messages": [{"role": "user", "content": "ask first"}]}
        run = {"assistant_id": "deep_agent", "input": given}
        http.post(f"/threads/{thread}/runs/wait", json=run).raise_for_status()
        assert http.get(f"/threads/{thread}/state").json()["interrupts"]
    return str(thread)


class TestSigningIn:
    def test_whoever_has_no_token_is_asked_for_one(self, page_server: Served) -> None:
        """As Chromium asks; its dialogue is beyond what a test can reach."""
        opened = {"sec-fetch-mode": "navigate", "sec-fetch-site": "none", "sec-fetch-dest": "document"}
        answer = httpx.get(f"{page_server.url}/app", headers=opened)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'Basic realm="code-agent", charset="UTF-8"'
        assert "token" in answer.json()["error"]

    def test_a_wrong_one_is_asked_for_again(self, browser: Browser, page_server: Served) -> None:
        context = signed_in(browser, page_server, "cea_wrong")
        answer = context.new_page().goto("/app")
        assert answer is not None
        assert answer.status == 401
        context.close()

    def test_the_whole_page_works_with_the_token_as_the_password(
        self, alice: BrowserContext, page_server: Served
    ) -> None:
        page = alice.new_page()
        refused: list[str] = []
        page.on("response", lambda each: refused.append(each.url) if each.status == 401 else None)
        answer = page.goto("/app")
        assert answer is not None
        assert answer.status == 200
        page.get_by_label("Message to the agent").fill("ask first")
        page.get_by_label("Message to the agent").press("Enter")
        expect(page.get_by_text("I ask.")).to_be_visible(timeout=30_000)
        page.get_by_role("button", name="Approve").first.click()
        expect(page.get_by_text("It has run.")).to_be_visible(timeout=30_000)
        page.get_by_role("button", name="Files").click()
        expect(page.get_by_role("treeitem").filter(has_text="ran.txt")).to_be_visible(timeout=30_000)
        page.get_by_role("treeitem").filter(has_text="ran.txt").click()
        with page.expect_download() as download:
            page.get_by_role("link", name="Download").click()
        assert download.value.path().read_text() == "ran\n"
        # The first request is answered with 401, which is how the browser is asked; the others bring it.
        assert [url for url in refused if not url.endswith("/app")] == []

    def test_no_script_has_the_token(self, alice: BrowserContext) -> None:
        page = alice.new_page()
        page.goto("/app")
        expect(page.get_by_label("Message to the agent")).to_be_visible(timeout=20_000)
        kept = page.evaluate(
            "JSON.stringify([localStorage, sessionStorage, document.cookie, location.href, history.state,"
            " document.documentElement.outerHTML])"
        )
        typed = base64.b64encode(f"whoever:{ALICE}".encode()).decode()
        assert ALICE not in kept
        assert typed not in kept
        assert page.evaluate("fetch('/page/config').then(r => r.json())")["owner"] == "alice"

    def test_anothers_thread_is_not_there(self, browser: Browser, page_server: Served) -> None:
        thread = waiting_thread(page_server)
        context = signed_in(browser, page_server, BOB)
        page = context.new_page()
        page.goto("/app")
        for path in (f"/threads/{thread}", f"/files/{thread}/list", f"/page/threads/{thread}/grants"):
            assert page.evaluate("path => fetch(path).then(r => r.status)", path) == 404, path
        assert page.evaluate("fetch('/page/config').then(r => r.json())")["owner"] == "bob"
        context.close()


class Elsewhere(ThreadingHTTPServer):
    """A site of somebody else's on this machine; every path is an empty page."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _EmptyPage)


class _EmptyPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<!doctype html><title>elsewhere</title><body>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[int]:
    with Elsewhere() as site:
        thread = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield site.server_port
        site.shutdown()
        thread.join()


# Each gets the server's address, and the thread that waits; `told` is what it could read.
ATTEMPTS = {
    "reads by fetch": """
        const paths = ['/threads/' + thread + '/state', '/page/config', '/app', files + 'list'];
        for (const path of paths) for (const mode of ['cors', 'no-cors']) await ask(path, {mode});""",
    "posts JSON": """
        const headers = {'content-type': 'application/json'};
        for (const path of posts) await ask(path, {method: 'POST', headers, body: approve});""",
    "posts text": """
        for (const path of posts)
            for (const mode of ['cors', 'no-cors'])
                await ask(path, {method: 'POST', mode, body: approve});""",
    "posts nothing": """
        for (const path of [...posts, '/threads/' + thread + '/copy', '/runs/cancel'])
            await ask(path, {method: 'POST', mode: 'no-cors'});""",
    "sends a beacon": """
        for (const path of posts) navigator.sendBeacon(server + path, approve);""",
    "puts a file": """
        const headers = {'content-type': 'application/octet-stream'};
        await ask(files + 'content?path=put.txt', {method: 'PUT', headers, body: 'x'});""",
    "deletes": """
        await ask('/threads/' + thread, {method: 'DELETE'});""",
    "sends a form": """
        const field = {name: approve.slice(0, -1) + ',"x":"', value: '"}'};
        const form = add('form', {method: 'POST', enctype: 'text/plain', target: '_blank'});
        form.action = server + posts[0];
        form.append(Object.assign(document.createElement('input'), field));
        form.submit();""",
    "frames the page": """
        const frame = add('iframe', {src: server + '/app/t/' + thread});
        await pause(1500);
        told.push(String(frame.contentDocument && frame.contentDocument.body.innerText));""",
    "takes a picture": """
        const picture = add('img', {src: server + files + 'content?view=image&path=results/plot.png'});
        await new Promise(done => {
            picture.onload = () => { told.push('picture of alice'); done(); };
            picture.onerror = done;
        });""",
    "takes a script": """
        const script = add('script', {src: server + '/threads/' + thread + '/state'});
        await new Promise(done => { script.onload = script.onerror = done; });""",
    "opens a socket": """
        const socket = new WebSocket(server.replace('http', 'ws') + '/threads/' + thread + '/stream/events');
        await new Promise(done => {
            socket.onopen = () => { told.push('socket of alice'); done(); };
            socket.onerror = done;
        });""",
    "opens a window": """
        const shown = window.open(server + '/app/t/' + thread);
        await pause(2000);
        try { told.push(shown.document.body.innerText); } catch {}
        shown?.postMessage(approve, '*');""",
}
PROLOGUE = """
const told = [];
const command = {resume: {decisions: [{type: 'approve'}]}};
const approve = JSON.stringify({assistant_id: 'deep_agent', command});
const files = '/files/' + thread + '/';
const add = (name, more) => {
    const made = Object.assign(document.createElement(name), more);
    document.body.append(made);
    return made;
};
const pause = milliseconds => new Promise(done => setTimeout(done, milliseconds));
const ask = (path, more) => fetch(server + path, {credentials: 'include', ...more})
    .then(async answer => told.push(await answer.text()), () => 0);
const posts = ['/threads/' + thread + '/runs', '/threads/' + thread + '/runs/wait', '/runs', '/threads'];
"""


@pytest.fixture(scope="module")
def tempting(page_server: Served) -> str:
    """A thread that waits, with a picture: what all the attempts are at."""
    thread = waiting_thread(page_server)
    results = page_server.workspace / "threads" / thread / "results"
    results.mkdir(parents=True, exist_ok=True)
    (results / "plot.png").write_bytes(png())
    return thread


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"], ids=["of the same site", "of another site"])
@pytest.mark.parametrize("how", ATTEMPTS)
def test_a_page_from_elsewhere_gains_nothing_from_the_password(
    alice: BrowserContext, page_server: Served, tempting: str, elsewhere: int, how: str, host: str
) -> None:
    """The browser would add it to these requests: alice has opened the page in another tab."""
    thread = tempting
    alice.new_page().goto("/app")
    page = alice.new_page()
    page.goto(f"http://{host}:{elsewhere}/")
    with httpx.Client(base_url=page_server.url, headers=BEARER) as http:
        count = http.post("/threads/count", json={}).json()
        program = f"async ([server, thread]) => {{ {PROLOGUE} {ATTEMPTS[how]}; return told }}"
        told = page.evaluate(program, [page_server.url, thread])
        page.wait_for_timeout(300)
        for words in (thread, "alice", "ask first", "I ask.", "execute", "default_agent"):
            assert words not in " ".join(told), how
        assert http.get(f"/threads/{thread}/state").json()["interrupts"], "it still waits"
        assert len(http.get(f"/threads/{thread}/runs").json()) == 1
        assert http.post("/threads/count", json={}).json() == count
    assert not list((page_server.workspace / "threads" / thread).glob("*.txt"))


def test_the_page_itself_could_do_all_that(alice: BrowserContext, page_server: Served) -> None:
    """What the attempts above would look like if they worked."""
    thread = waiting_thread(page_server)
    page = alice.new_page()
    page.goto("/app")
    for how, wanted in (("reads by fetch", "alice"), ("opens a socket", "socket of alice")):
        program = f"async ([server, thread]) => {{ {PROLOGUE} {ATTEMPTS[how]}; return told }}"
        assert wanted in " ".join(page.evaluate(program, [page_server.url, thread])), how
    program = f"async ([server, thread]) => {{ {PROLOGUE} {ATTEMPTS['posts JSON']}; return told }}"
    page.evaluate(program, [page_server.url, thread])
    ran = page_server.workspace / "threads" / thread / "ran.txt"
    deadline = time.monotonic() + 30
    while not ran.exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
