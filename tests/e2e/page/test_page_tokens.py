"""A browser sends the token as a password, and pages of other origins cannot use it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from http.server import ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from agent.settings.token_settings import new_token
from tests.e2e.page.talk import approve, open_chat, run_thread, say
from tests.servers.http_server import QuietHandler, running
from tests.servers.served import Served
from tests.support.small_files import png
from tests.support.waiting import eventually

pytestmark = [pytest.mark.docker, pytest.mark.thorough]

TOKEN, SETTING = new_token("alice")
SETTINGS = {"AUTH_TOKENS": SETTING}
SCRIPT = """\
conversations:
- when: ask first
  replies:
  - text: I ask.
    tool_calls: [{name: execute, args: {command: "echo ran > /workspace/ran.txt"}}]
  - text: It has run.
"""


@pytest.fixture
def alice(browser: Browser, page_server: Served) -> Iterator[BrowserContext]:
    """A browser that answers the question for a name and a password with alice's token."""
    context = browser.new_context(
        base_url=page_server.url, http_credentials={"username": "any name", "password": TOKEN}
    )
    yield context
    context.close()


class TestSigningIn:
    def test_page_works_with_the_token_as_the_password(self, alice: BrowserContext) -> None:
        page = alice.new_page()
        refused: list[str] = []
        page.on("response", lambda each: refused.append(each.url) if each.status == 401 else None)
        open_chat(page)
        say(page, "ask first")
        expect(page.get_by_text("I ask.")).to_be_visible()
        approve(page)
        expect(page.get_by_text("It has run.")).to_be_visible()
        page.get_by_role("button", name="Files").click()
        expect(page.get_by_role("treeitem").filter(has_text="ran.txt")).to_be_visible()
        page.get_by_role("treeitem").filter(has_text="ran.txt").click()
        with page.expect_download() as download:
            page.get_by_role("link", name="Download").click()
        assert download.value.path().read_text() == "ran\n"
        # The first answer is 401, so the browser asks for the password. All later requests carry it.
        assert [url for url in refused if not url.endswith("/app")] == []

    def test_no_script_has_the_token(self, alice: BrowserContext) -> None:
        page = alice.new_page()
        open_chat(page)
        kept = page.evaluate(
            "JSON.stringify([localStorage, sessionStorage, document.cookie, location.href, history.state,"
            " document.documentElement.outerHTML])"
        )
        typed = base64.b64encode(f"any name:{TOKEN}".encode()).decode()
        assert TOKEN not in kept
        assert typed not in kept
        assert page.evaluate("fetch('/page/config').then(r => r.json())")["owner"] == "alice"


class EmptyPage(QuietHandler):
    """Another site on this machine; every path is an empty page."""

    def do_GET(self) -> None:
        self.answer(200, b"<!doctype html><title>elsewhere</title><body>", "text/html")


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[int]:
    with running(ThreadingHTTPServer(("127.0.0.1", 0), EmptyPage)) as site:
        yield site.server_port


# Each attempt gets the server's address and a waiting thread, and adds what it can read to `received`.
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
        received.push(String(frame.contentDocument && frame.contentDocument.body.innerText));""",
    "takes a picture": """
        const picture = add('img', {src: server + files + 'content?view=image&path=results/plot.png'});
        await new Promise(done => {
            picture.onload = () => { received.push('picture of alice'); done(); };
            picture.onerror = done;
        });""",
    "takes a script": """
        const script = add('script', {src: server + '/threads/' + thread + '/state'});
        await new Promise(done => { script.onload = script.onerror = done; });""",
    "opens a socket": """
        const socket = new WebSocket(server.replace('http', 'ws') + '/threads/' + thread + '/stream/events');
        await new Promise(done => {
            socket.onopen = () => { received.push('socket of alice'); done(); };
            socket.onerror = done;
        });""",
    "opens a window": """
        const shown = window.open(server + '/app/t/' + thread);
        await pause(2000);
        try { received.push(shown.document.body.innerText); } catch {}
        shown?.postMessage(approve, '*');""",
}
PROLOGUE = """
const received = [];
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
    .then(async answer => received.push(await answer.text()), () => 0);
const posts = ['/threads/' + thread + '/runs', '/threads/' + thread + '/runs/wait', '/runs', '/threads'];
"""


@pytest.fixture(scope="module")
def tempting(page_server: Served) -> str:
    """The thread that the attempts attack. It waits for approval and has a picture."""
    thread = run_thread(page_server, "ask first", TOKEN)
    results = page_server.workspace / "threads" / thread / "results"
    results.mkdir(parents=True, exist_ok=True)
    (results / "plot.png").write_bytes(png())
    return thread


@pytest.mark.parametrize(
    "host",
    [
        pytest.param("127.0.0.1", id="of the same site"),
        pytest.param("localhost", id="of another site"),
    ],
)
def test_page_of_another_origin_gains_nothing_from_the_password(
    alice: BrowserContext, page_server: Served, tempting: str, elsewhere: int, host: str
) -> None:
    """The browser knows alice's password, because she has opened the page in another tab."""
    thread = tempting
    alice.new_page().goto("/app")
    with page_server.client(TOKEN) as http:
        count = http.post("/threads/count", json={}).json()
        for how, attempt in ATTEMPTS.items():
            page = alice.new_page()
            page.goto(f"http://{host}:{elsewhere}/")
            program = f"async ([server, thread]) => {{ {PROLOGUE} {attempt}; return received }}"
            received = page.evaluate(program, [page_server.url, thread])
            page.wait_for_timeout(300)
            for words in (thread, "alice", "ask first", "I ask.", "execute", "default_agent"):
                assert words not in " ".join(received), how
            assert http.get(f"/threads/{thread}/state").json()["interrupts"], f"{how}: answered"
            assert len(http.get(f"/threads/{thread}/runs").json()) == 1, how
            assert http.post("/threads/count", json={}).json() == count, how
    assert not list((page_server.workspace / "threads" / thread).glob("*.txt"))


def test_own_page_can_do_what_the_other_origin_tried(alice: BrowserContext, page_server: Served) -> None:
    """Shows that the attempts of the other test would be seen if they worked."""
    thread = run_thread(page_server, "ask first", TOKEN)
    page = alice.new_page()
    page.goto("/app")
    for how, wanted in (("reads by fetch", "alice"), ("opens a socket", "socket of alice")):
        program = f"async ([server, thread]) => {{ {PROLOGUE} {ATTEMPTS[how]}; return received }}"
        assert wanted in " ".join(page.evaluate(program, [page_server.url, thread])), how
    program = f"async ([server, thread]) => {{ {PROLOGUE} {ATTEMPTS['posts JSON']}; return received }}"
    page.evaluate(program, [page_server.url, thread])
    eventually((page_server.workspace / "threads" / thread / "ran.txt").exists)
