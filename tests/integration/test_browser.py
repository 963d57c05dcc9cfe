"""`skills.browser` in a container of the variant: a browser that is kept open, against a site inside (L9)."""

# ruff: noqa: E501 - programs and what is said, a line each

from __future__ import annotations

import json
import re
import shlex
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import browser_site
import pytest
import trustme

from libs.backends.docker import DockerExecutionBackend
from libs.gateway.addresses import Address
from libs.gateway.credentials import Credentials, parse_credentials
from libs.gateway.gateway import Gateway
from libs.gateway.limits import EgressLimits
from libs.gateway.proxy import Proxy
from libs.gateway.redaction import SecretFilter
from libs.gateway.rules import Rules

ROOT = Path(__file__).parents[2]
SITE = Path(__file__).with_name("browser_site.py")
AT = "http://localhost:8000"

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1500)]  # the first may have to build the image


@pytest.fixture(scope="module")
def sandbox(browser_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerExecutionBackend]:
    with DockerExecutionBackend(
        tmp_path_factory.mktemp("workspace"), skills_dir=ROOT / "skills", image=browser_image, name="browser"
    ) as sandbox:
        serve(sandbox, "8000")
        yield sandbox


def serve(sandbox: DockerExecutionBackend, port: str, certificate: str = "") -> None:
    sandbox.upload_files([("/tmp/site.py", SITE.read_bytes())])
    done = sandbox.execute(
        f"(exec 3<> /dev/tcp/127.0.0.1/{port}) 2>/dev/null && exit; python /tmp/site.py {port} {certificate} "
        f"> /dev/null 2>&1 & until (exec 3<> /dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.05; done"
    )
    assert done.exit_code == 0, done.output


class Told(str):
    """What a program printed, its last line as JSON where it is."""

    @property
    def value(self) -> Any:
        return json.loads(self.splitlines()[-1])


Run = Callable[..., Told]


@pytest.fixture
def run(sandbox: DockerExecutionBackend) -> Run:
    """Run a program with `browser`, each in a process of its own; `show` prints a value as JSON."""

    def run(program: str, before: str = "") -> Told:
        whole = f"import json\nfrom skills import browser\nshow = lambda value: print(json.dumps(value))\n{program}"
        done = sandbox.execute(f"cd /tmp; {before} python -c {shlex.quote(whole)}")
        assert done.exit_code == 0, done.output
        return Told(done.output)

    return run


@pytest.fixture
def fails(sandbox: DockerExecutionBackend) -> Callable[..., str]:
    """Run a program that ends in an error, and return what that says."""

    def fails(program: str, before: str = "") -> str:
        whole = f"from skills import browser\n{program}"
        done = sandbox.execute(f"cd /tmp; {before} python -c {shlex.quote(whole)}")
        assert done.exit_code == 1, done.output
        last = done.output.splitlines()[-1]
        assert re.match(r"(skills\.browser\.BrowserError|ValueError): ", last), done.output
        return last.partition(": ")[2]

    return fails


def processes(sandbox: DockerExecutionBackend, what: str) -> list[int]:
    """Ids of the processes whose command has this in it."""
    return [int(pid) for pid in sandbox.execute(f"pgrep -f -- {shlex.quote(what)}").output.split()]


def gone(sandbox: DockerExecutionBackend, what: str) -> bool:
    deadline = time.monotonic() + 20
    while left := [pid for pid in processes(sandbox, what) if alive(sandbox, pid)]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return not left


def alive(sandbox: DockerExecutionBackend, pid: int) -> bool:
    return sandbox.execute(f"grep -q '^State:.[^Z]' /proc/{pid}/status").exit_code == 0


SERVER = "[s]kills.browser._server"  # a pattern that does not find the shell that looks for it
CHROMIUM = "[h]eadless"
SLACK = 20
"""Seconds over its time-out that a call may take at most; and the start of another browser."""


def bracketed(pattern: str) -> str:
    """The same, for a shell whose own command holds it, and which it must not find."""
    return "|".join(f"{part[:-1]}[{part[-1]}]" for part in pattern.split("|"))


# What a SKILL.md shows


def test_the_program_of_the_skill_prints_what_it_says(sandbox: DockerExecutionBackend) -> None:
    skill = (ROOT / "skills" / "browser" / "SKILL.md").read_text()
    [program] = re.findall(r"^```python\n(.*?)^```$", skill, re.MULTILINE | re.DOTALL)
    done = sandbox.execute(f"rm -rf /results/downloads; python -c {shlex.quote(program)}")
    assert done.exit_code == 0, done.output
    printed = re.findall(r"^print\(.*\)\s+# (.*)$", program, re.MULTILINE)
    assert len(printed) > 2
    for line in ("200 Shop", "2 lamps", "/results/shop.png", "('/results/downloads/prices.csv',)"):
        assert line in printed
        assert line in done.output.splitlines()
    assert "lamp\t12\nchair\t30" in done.output


def test_each_function_has_an_example_that_is_right(run: Run) -> None:
    run(f"browser.open('{AT}/shop.html')")
    for name in ("click", "type", "screenshot", "text", "html", "close"):
        assert run(f"show('browser.{name}(' in browser.{name}.__doc__)").value is True


# Kept open


def test_what_one_process_opens_the_next_goes_on_with(run: Run, sandbox: DockerExecutionBackend) -> None:
    assert run(f"show(browser.open('{AT}/'))").value == [f"{AT}/", "Home", 200, []]
    first = processes(sandbox, SERVER)
    assert run("show(browser.click('Child'))").value == [f"{AT}/child", "Child", 200, []]
    assert "I am new" in run("print(browser.text())")
    assert processes(sandbox, SERVER) == first
    assert len(first) == 1


def test_a_live_interpreter_and_one_with_a_loop_that_runs(sandbox: DockerExecutionBackend) -> None:
    def block(code: str) -> str:
        done = sandbox.sandbox.run_python(code, session="browser", timeout=60)
        assert done.exit_code == 0, done.output
        return done.output

    assert "Page(url='http://localhost:8000/'" in block(f"from skills import browser\nbrowser.open('{AT}/')")
    assert block("browser.click('Child').title") == "'Child'\n"
    assert block("import asyncio\nawait asyncio.sleep(0)\nbrowser.text('p')") == "'I am new'\n"
    assert block("async def look():\n    return browser.text('p')\nawait look()") == "'I am new'\n"


def test_a_call_is_quick_once_it_is_open(run: Run) -> None:
    run(f"browser.open('{AT}/')")
    program = """
import time
begun = time.monotonic()
for _ in range(20):
    browser.text()
show((time.monotonic() - begun) / 20)"""
    assert run(program).value < 0.1


def test_it_needs_no_playwright_in_the_program_that_asks(run: Run) -> None:
    program = f"import sys\nbrowser.open('{AT}/')\nshow('playwright' in sys.modules)"
    assert run(program).value is False


def test_two_that_begin_at_once_share_one(run: Run, sandbox: DockerExecutionBackend) -> None:
    run("browser.close()")
    program = shlex.quote(f"from skills import browser; browser.open('{AT}/')")
    done = sandbox.execute(
        f'for i in 1 2 3; do python -c {program} & ids="$ids $!"; done; for i in $ids; do wait $i || echo bad; done'
    )
    assert (done.exit_code, done.output) == (0, "")
    assert len(processes(sandbox, SERVER)) == 1


def test_close_leaves_nothing_and_the_next_is_a_fresh_one(
    run: Run, fails: Callable[..., str], sandbox: DockerExecutionBackend
) -> None:
    run(f"browser.open('{AT}/cookie')")
    assert "seen=yes" in run(f"browser.open('{AT}/cookie')\nprint(browser.text())")
    run("browser.close()\nbrowser.close()")
    assert gone(sandbox, SERVER)
    assert gone(sandbox, CHROMIUM)
    assert sandbox.execute("ls -A ~/.cache/browser/work /workspace/.downloads 2>/dev/null").output == ""
    for call in (
        "text()",
        "html()",
        "click('x')",
        "type('x', 'y')",
        "screenshot('x')",
        "close(tab=True) or browser.text()",
    ):
        assert fails(f"browser.{call}").startswith("no page is open: begin with open(url)")
    assert "none" in run(f"browser.open('{AT}/cookie')\nprint(browser.text())")


def test_it_ends_when_nobody_asks(run: Run, sandbox: DockerExecutionBackend) -> None:
    run("browser.close()")
    run(f"browser.open('{AT}/')", before="BROWSER_IDLE_SECONDS=1")
    assert gone(sandbox, SERVER)
    assert gone(sandbox, CHROMIUM)


def test_the_command_that_opens_it_returns_at_once(run: Run, sandbox: DockerExecutionBackend) -> None:
    run("browser.close()")
    program = f"from skills import browser; browser.open('{AT}/')"
    done = sandbox.execute(f"python -c {shlex.quote(program)}; echo back", timeout=60)
    assert (done.exit_code, done.output) == (0, "back\n")
    assert len(processes(sandbox, SERVER)) == 1


def test_what_times_out_leaves_a_browser_of_before(run: Run, sandbox: DockerExecutionBackend) -> None:
    run(f"browser.open('{AT}/')")
    before = processes(sandbox, SERVER)
    program = f"from skills import browser; browser.open('{AT}/slow?20')"
    done = sandbox.execute(f"python -c {shlex.quote(program)}", timeout=2)
    assert done.exit_code == 124
    assert run(f"show(browser.open('{AT}/child').title)").value == "Child"
    assert processes(sandbox, SERVER) == before


# Forms and targets


def test_a_form_with_every_kind_of_field(run: Run) -> None:
    program = f"""
browser.open('{AT}/form')
browser.type('Name', 'Ada "the first" $(touch /tmp/hacked)')
browser.type('E-mail', 'ada@example.org')
browser.type('secret', 'hunter2')
browser.type('Remarks', 'one\\ntwo')
browser.type('Day', '2024-03-01')
browser.type('Country', 'norway')
browser.click('I agree')
browser.click('Large')
browser.type('Attachment', 'site.py')
browser.type('Note', 'written')
assert 'written' in browser.html('[contenteditable]')
print(browser.click('Send').title)
print(browser.text('pre'))"""
    told = run(program)
    assert "Echo" in told
    assert told.value == {
        **{"name": 'Ada "the first" $(touch /tmp/hacked)', "mail": "ada@example.org", "secret": "hunter2"},
        **{"remarks": "one\r\ntwo", "day": "2024-03-01", "country": "no", "terms": "on", "size": "l"},
        **{"file": "site.py", "picked": "site.py"},
    }


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "type('Country', 'Sweden')",
            "there is no choice 'Sweden'; there are: 'choose', 'Norway', 'Denmark'",
        ),
        ("type('I agree', 'yes')", "'I agree' is a checkbox: click it"),
        ("type('Attachment', '/data/none.csv')", "there is no file /data/none.csv"),
        (
            "type('Nickname', 'x', timeout=1)",
            "its fields: 'Name', 'E-mail', 'secret', 'Remarks', 'Day', 'Country'",
        ),
        (
            "click('Submit', timeout=1)",
            "nothing that can be seen matches 'Submit' on http://localhost:8000/form; its things",
        ),
        ("click('Secret', timeout=1)", "'Secret' is on the page, but it cannot be seen"),
        ("click('Not yet', timeout=1)", "not within 1 seconds: element is not enabled"),
        ("click('Covered', timeout=1)", "intercepts pointer events"),
        ("click('css=[[', timeout=1)", "nothing that can be seen matches"),
        ("text('Nowhere', timeout=1)", "nothing that can be seen matches 'Nowhere'"),
    ],
)
def test_what_cannot_be_done_says_what_could(
    run: Run, fails: Callable[..., str], call: str, message: str
) -> None:
    run(f"browser.open('{AT}/form')")
    assert message in fails(f"browser.{call}")


@pytest.mark.parametrize(
    "target",
    ["#bob", "li:nth-of-type(2) > button", "css=#bob", "role=button >> nth=1", "xpath=//button[@id='bob']"],
)
def test_ways_to_name_one_thing(run: Run, target: str) -> None:
    assert run(f"browser.open('{AT}/twins')\nshow(browser.click({target!r}).title)").value == "Bob removed"


def test_of_several_none_is_chosen_and_each_has_a_way(run: Run, fails: Callable[..., str]) -> None:
    run(f"browser.open('{AT}/twins')")
    said = fails("browser.click('Remove')")
    assert said.startswith("2 things on the page match 'Remove'. Give one of these: css=")
    assert "'Ada Remove'" in said
    way = re.search(r"; (css=\S+) \('Bob Remove'\)", said)
    assert way is not None
    assert run(f"show(browser.click({way[1]!r}).title)").value == "Bob removed"


def test_of_links_that_lead_to_the_same_the_first_will_do(run: Run) -> None:
    assert run(f"browser.open('{AT}/twins')\nshow(browser.click('Child').title)").value == "Child"


def test_what_comes_later_is_waited_for(run: Run) -> None:
    program = f"browser.open('{AT}/shop.html')\nbrowser.click('Show prices')\nshow(browser.text('table'))"
    assert run(program).value == "lamp\t12\nchair\t30"


def test_frames_are_read_and_searched(run: Run) -> None:
    told = run(f"browser.open('{AT}/frame')\nbrowser.click('Tell')\nprint(browser.text())")
    assert "outside" in told
    assert f"[frame {AT}/dialogs]\ntold" in told


def test_html_and_text_of_a_part(run: Run) -> None:
    run(f"browser.open('{AT}/twins')")
    assert run("show(browser.text('li'))").value == "Ada Remove\nBob Remove"
    assert run("show(browser.html('h7, img'))").value == '<img alt="Child" width="9" height="9">'
    assert run("show(browser.html())").value.startswith("<html><head><title>Twins</title>")


# What comes up


def test_dialogs_are_answered_and_named(run: Run) -> None:
    run(f"browser.open('{AT}/dialogs')")
    told = run("browser.click('Tell')\nprint(browser.text('#said'))")
    assert told.splitlines() == ["[dialog (alert) 'Hello']", "told"]
    told = run("browser.click('Delete')\nprint(browser.text('#said'))")
    assert told.splitlines() == [
        "[dialog (confirm) 'Really?': cancelled; click(…, answer=True) confirms]",
        "false",
    ]
    assert run("browser.click('Delete', answer=True)\nshow(browser.text('#said'))").value is not None
    assert "true" in run("print(browser.text('#said'))")
    assert "Ada" in run("browser.click('Ask', answer='Ada')\nprint(browser.text('#said'))")
    run("browser.click('Later')")
    time.sleep(2)
    assert "[dialog (confirm) 'Later?': cancelled" in run("print(browser.text('#said'))")
    run("browser.click('Stay')")
    assert run(f"show(browser.open('{AT}/').title)").value == "Home"


def test_a_new_tab_is_in_use_until_it_is_closed(run: Run) -> None:
    run(f"browser.open('{AT}/tabs')")
    for name in ("Child", "Open"):
        told = run(f"show(browser.click({name!r}))")
        assert told.splitlines()[0] == f"[a new tab opened: the one in use is {AT}/child]"
        assert told.value[1] == "Child"
        assert run("browser.close(tab=True)") == f"[the tab in use is {AT}/tabs]\n"
    told = run("browser.click('Open')\nshow(browser.click('Done'))")
    assert f"[the tab was closed: the one in use is {AT}/tabs]" in told
    assert told.value[1] == "Tabs"


@pytest.mark.parametrize(
    "call", ["click('clicked')", "click('pressed')", "click('approached')", "type('typed', 'x')"]
)
def test_what_closes_its_own_tab_leads_to_the_one_before(run: Run, call: str) -> None:
    """Whenever it closes: before, while, or after the button of the mouse is down."""
    program = f"browser.open('{AT}/tabs')\nassert browser.click('Other').title == 'Closes'\nshow(browser.{call}.title)"
    for _ in range(3):
        told = run(program)
        assert told.value == "Tabs"
        assert f"[the tab was closed: the one in use is {AT}/tabs]" in told


def test_a_flood_of_tabs_ends(run: Run, sandbox: DockerExecutionBackend) -> None:
    told = run(f"browser.open('{AT}/tabs')\nbrowser.click('Flood', timeout=60)")
    assert "[a new tab was closed at once: there are 10 already]" in told
    run("browser.close()")


def test_downloads_are_kept_and_named(run: Run, sandbox: DockerExecutionBackend) -> None:
    sandbox.execute("rm -rf /results/downloads")
    told = run(f"browser.open('{AT}/links')\nshow(browser.click('One').downloads)")
    assert told.splitlines()[0] == "[downloaded from localhost:8000: /results/downloads/prices.csv]"
    assert told.value == ["/results/downloads/prices.csv"]
    assert sandbox.execute("cat /results/downloads/prices.csv").output == "lamp,12\n"
    assert run("show(browser.click('Elsewhere'))").value == [
        f"{AT}/links", "Links", 200, ["/results/downloads/prices-2.csv"]
    ]  # fmt: skip
    assert run(f"show(browser.open('{AT}/prices.csv').downloads)").value == [
        "/results/downloads/prices-3.csv"
    ]
    run(f"browser.open('{AT}/links')\nbrowser.click('Odd')")
    names = sandbox.execute("find /results/downloads -type f -newer /results/downloads/prices-3.csv").output
    assert re.fullmatch(r"/results/downloads/[\w. -]+\n", names), names
    assert sandbox.execute("ls -A /workspace/.downloads").output == ""


def test_a_download_that_takes_longer_is_named_later(run: Run) -> None:
    run(f"browser.open('{AT}/links')")
    told = run("show(browser.click('Late', timeout=1).downloads)")
    assert "[the download of late.bin goes on; a later call names it when it is there]" in told
    assert told.value == []
    time.sleep(5)
    assert "/results/downloads/late.bin]" in run("browser.text()")
    assert "the download of broken.bin failed" in run("browser.click('Broken')")


def test_a_pdf_is_downloaded(run: Run) -> None:
    assert run(f"show(browser.open('{AT}/book.pdf').downloads)").value == ["/results/downloads/book.pdf"]


def test_pictures(run: Run, sandbox: DockerExecutionBackend) -> None:
    program = f"""
browser.open('{AT}/tall')
print(browser.screenshot('seen'))
print(browser.screenshot('sub/all.png', full_page=True))
print(browser.screenshot('small.jpg', timeout=20))
browser.open('{AT}/twins')
print(browser.screenshot('part.png', target='#bob'))"""
    told = run(program)
    assert "[the page is 40,000 pixels tall; the picture has the first 16,000]" in told
    kinds = sandbox.execute(
        "cd /results && file -b seen.png sub/all.png small.jpg part.png"
    ).output.splitlines()
    assert kinds[0].startswith("PNG image data, 1280 x 800")
    assert kinds[1].startswith("PNG image data, 1280 x 16000")
    assert kinds[2].startswith("JPEG image data")
    width, height = re.findall(r"\d+", kinds[3])[:2]
    assert (int(width) < 200, int(height) < 50) == (True, True)


@pytest.mark.parametrize("name", ["../x", "/tmp/x.png", "..", "", "sub/", "a\nb", "out/x"])
def test_a_picture_cannot_leave_the_results(
    run: Run, fails: Callable[..., str], sandbox: DockerExecutionBackend, name: str
) -> None:
    run(f"browser.open('{AT}/')")
    sandbox.execute("ln -sfn /workspace/data /results/out")
    assert re.match(
        "the name .* leads out of /results|no name for a picture", fails(f"browser.screenshot({name!r})")
    )


# What goes wrong


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (f"{AT}/slow?30", f"{AT}/slow?30 did not answer within 2 seconds"),
        (f"{AT}/loop", f"{AT}/loop cannot be reached: it leads in a circle"),
        ("http://localhost:8009/", "http://localhost:8009/ cannot be reached: nothing listens there"),
        ("http://nowhere.test/", "http://nowhere.test/ cannot be reached: "),
        ("ftp://example.org/", "no address that can be opened: 'ftp://example.org/'"),
        ("javascript:alert(1)", "no address that can be opened"),
        ("chrome://crash", "no address that can be opened"),
        ("", "no address that can be opened"),
        ("/data/none.html", "there is no file /data/none.html"),
        ("//example.org", "no address that can be opened"),
    ],
)
def test_what_cannot_be_opened_is_named(fails: Callable[..., str], url: str, message: str) -> None:
    assert fails(f"browser.open({url!r}, timeout=2)").startswith(message)


def test_after_a_failure_the_next_page_comes(run: Run) -> None:
    program = f"""
for _ in range(10):
    try:
        browser.open('http://localhost:8009/')
    except browser.BrowserError:
        assert browser.open('{AT}/').title == 'Home'"""
    run(program)


def test_a_missing_page_is_a_page_with_its_status_told(run: Run) -> None:
    told = run(f"show(browser.open('{AT}/none'))")
    assert told.splitlines()[0] == "[status 404: There is no /none here]"
    assert told.value == [f"{AT}/none", "Missing", 404, []]


def test_addresses_and_files_as_people_write_them(run: Run, sandbox: DockerExecutionBackend) -> None:
    assert run("show(browser.open('localhost:8000/child').url)").value == f"{AT}/child"
    sandbox.execute("echo '<title>Mine</title>' > '/results/my page.html'")
    for path in ("/results/my page.html", "file:///results/my page.html"):
        assert run(f"show(browser.open({path!r}).title)").value == "Mine"


def test_a_page_that_never_ends_can_be_used(run: Run) -> None:
    begun = time.monotonic()
    told = run(f"browser.open('{AT}/drip', timeout=20)\nprint(browser.text())")
    assert "[not all of the page has loaded; what is there can be used]" in told
    assert told.endswith("so far\n")
    assert time.monotonic() - begun < 25


def test_a_click_to_a_slow_page_waits_for_it(run: Run) -> None:
    program = f"browser.open('{AT}/links')\nshow(browser.click('Slow', timeout=15).title)"
    assert run(program).value == "Slow"


def test_a_click_to_a_page_that_is_too_slow_leaves_the_one_before(run: Run) -> None:
    told = run(f"browser.open('{AT}/links')\nshow(browser.click('Slow', timeout=1).title)")
    assert "[what was to come did not come in time, and was stopped (timeout=…)]" in told
    assert told.value == "Links"
    assert "Slow" in run("print(browser.text())")


def test_a_page_that_hangs_costs_its_time_and_no_more(run: Run, fails: Callable[..., str]) -> None:
    run(f"browser.open('{AT}/freeze')")
    begun = time.monotonic()
    assert "the page does not respond" in fails("browser.click('Freeze', timeout=2)\nbrowser.text(timeout=2)")
    assert time.monotonic() - begun < 30
    assert fails("browser.text(timeout=2)") == "the page does not respond: open the page again"
    assert run(f"show(browser.open('{AT}/').title)").value == "Home"


def test_what_was_asked_is_given_up_when_nobody_waits(run: Run, sandbox: DockerExecutionBackend) -> None:
    run(f"browser.open('{AT}/')")
    program = f"from skills import browser; browser.open('{AT}/slow?25')"
    sandbox.execute(f"timeout -s INT 3 python -c {shlex.quote(program)}")
    begun = time.monotonic()
    run("browser.text()")
    assert time.monotonic() - begun < 10


def test_a_crash_is_told_and_the_next_is_a_new_one(
    run: Run, fails: Callable[..., str], sandbox: DockerExecutionBackend
) -> None:
    run(f"browser.open('{AT}/')")
    killer = "import os, signal, threading, time\ndef kill():\n    time.sleep(1)\n    os.system('pkill -KILL -f [h]eadless')\n"
    said = fails(f"{killer}threading.Thread(target=kill).start()\nbrowser.open('{AT}/slow?10')")
    assert said.startswith("the browser crashed, perhaps for the memory")
    assert run(f"show(browser.open('{AT}/').title)").value == "Home"
    sandbox.execute("pkill -KILL -f headless")
    assert fails("browser.text()").startswith(("the browser crashed", "no page is open", "the browser ended"))
    assert run(f"show(browser.open('{AT}/').title)").value == "Home"


def test_a_page_that_crashes_is_told_and_the_browser_stays(
    run: Run, fails: Callable[..., str], sandbox: DockerExecutionBackend
) -> None:
    run(f"browser.open('{AT}/cookie')")
    sandbox.execute("pkill -KILL -f -- --type=renderer")
    assert "the page crashed" in fails("browser.text()")
    assert "seen=yes" in run(f"browser.open('{AT}/cookie')\nprint(browser.text())")


@pytest.mark.parametrize("page", ["greedy", "hoard"])
def test_memory_used_up_ends_the_page(run: Run, fails: Callable[..., str], page: str) -> None:
    """Nothing is at a stand, and the site goes on; the kernel may be quicker, and end more than the page."""
    run(f"browser.open('{AT}/{page}')")
    said = fails("browser.click('Eat', timeout=60)")
    assert re.match("the (page|browser) crashed, perhaps for the memory", said)
    assert run(f"show(browser.open('{AT}/').title)").value == "Home"


VICTIMS = {
    "server": "skills.browser._server",
    "driver": "playwright/driver",
    "browser": "--user-data-dir",
    "gpu": "--type=gpu-process",
    "zygotes": "--type=zygote",
    "network": "--type=utility",
    "page": "--type=renderer",
    "all": "skills.browser._server|playwright/driver|headless-shell",
}
ENDURES = """
import json, os, sys, threading, time
from skills import browser

told = []
def ask(call):
    begun = time.monotonic()
    try:
        said = call() or ""
    except browser.BrowserError as error:
        said = f"error: {error}"
    told.append([str(said), time.monotonic() - begun])

threading.Timer(0.5, os.system, [sys.argv[1]]).start()
ask(lambda: browser.open("http://localhost:8000/slow?1.5", timeout=2).title)
ask(lambda: browser.text(timeout=1))
ask(lambda: browser.open("http://localhost:8000/child", timeout=10).title)
ask(browser.close)
print(json.dumps(told))
"""


@pytest.mark.parametrize("signal", ["KILL", "STOP"])
@pytest.mark.parametrize("victim", VICTIMS)
def test_whichever_of_its_processes_ends_or_stops_calls_end_and_the_next_page_comes(
    run: Run, sandbox: DockerExecutionBackend, victim: str, signal: str
) -> None:
    """As the kernel does where memory runs out: in the middle of a call."""
    run(f"browser.open('{AT}/')")
    assert processes(sandbox, bracketed(VICTIMS[victim]))
    kill = f"pkill -{signal} -f -- {shlex.quote(bracketed(VICTIMS[victim]))}"
    done = sandbox.execute(f"cd /tmp; python -c {shlex.quote(ENDURES)} {shlex.quote(kill)}")
    assert done.exit_code == 0, done.output
    (first, *in_time), (text, *then), (title, *opened), (closed, *ended) = json.loads(
        done.output.splitlines()[-1]
    )
    assert (title, closed) == ("Child", ""), done.output
    assert not re.search("Target|Traceback|None|Connection closed", first + text), done.output
    assert in_time < [2 + SLACK], done.output
    assert then < [1 + SLACK], done.output
    assert opened < [10 + SLACK + 30], done.output  # it has to start a browser
    assert ended < [30], done.output
    assert gone(sandbox, bracketed(VICTIMS["all"]))


def test_one_that_ended_otherwise_is_cleared_away(run: Run, sandbox: DockerExecutionBackend) -> None:
    """The server is killed and the rest stopped: nobody is there whom the rest would hear."""
    run(f"browser.open('{AT}/')")
    sandbox.execute("pkill -STOP -f -- 'playwright/[d]river|headless-[s]hell'; pkill -KILL -f _[s]erver")
    assert run(f"show(browser.open('{AT}/').title)").value == "Home"
    assert not sandbox.execute("ps -eo stat= | grep T").output
    sandbox.execute("pkill -STOP -f -- 'playwright/[d]river|headless-[s]hell'; pkill -KILL -f _[s]erver")
    run("browser.close()")
    assert gone(sandbox, bracketed(VICTIMS["all"]))


def test_a_program_that_stopped_while_it_started_the_browser_is_not_waited_for(
    run: Run, sandbox: DockerExecutionBackend
) -> None:
    run("browser.close()")
    holder = "import fcntl, time; file = open('/tmp/home/.cache/browser/starting', 'w'); fcntl.flock(file, 2); print('held', flush=True); time.sleep(90)"
    sandbox.execute(
        f"python -c {shlex.quote(holder)} > /tmp/held & until grep -q held /tmp/held; do sleep 0.1; done"
    )
    assert run(f"show(browser.open('{AT}/').title)").value == "Home"
    sandbox.execute("pkill -f 'browser/[s]tarting'")


def test_it_fits_into_a_sandbox(run: Run, sandbox: DockerExecutionBackend) -> None:
    """Ten tabs, and room is left: 256 processes and threads, 2 GB."""
    run("browser.close()")
    program = f"browser.open('{AT}/tabs')\nbrowser.click('Flood', timeout=60)"
    run(program)
    threads = sum(map(int, sandbox.execute("ps -eo nlwp=").output.split()))
    assert threads < 220
    assert run(f"show(browser.open('{AT}/heavy').title)").value == "Heavy"
    run("browser.close()")


# What it trusts, and the way out


def test_an_authority_of_the_bundle_is_trusted_and_no_other(
    run: Run, fails: Callable[..., str], sandbox: DockerExecutionBackend
) -> None:
    authority = trustme.CA()
    server = authority.issue_cert("localhost").private_key_and_cert_chain_pem.bytes()
    sandbox.upload_files([("/tmp/authority.pem", authority.cert_pem.bytes()), ("/tmp/server.pem", server)])
    sandbox.execute("cat /etc/ssl/certs/ca-certificates.crt /tmp/authority.pem > /tmp/bundle.pem")
    serve(sandbox, "8443", "/tmp/server.pem")
    run("browser.close()")
    assert fails("browser.open('https://localhost:8443/')") == (
        "the certificate of https://localhost:8443/ is not to be trusted: ERR_CERT_AUTHORITY_INVALID"
    )
    run("browser.close()")
    opened = run(
        "show(browser.open('https://localhost:8443/').title)", before="SSL_CERT_FILE=/tmp/bundle.pem"
    )
    assert opened.value == "Home"
    run("browser.close()")


def test_the_proxy_is_used_and_what_it_refuses_says_why(
    run: Run, fails: Callable[..., str], sandbox: DockerExecutionBackend
) -> None:
    serve(sandbox, "3128")
    proxy = (
        "http_proxy=http://127.0.0.1:3128 HTTPS_PROXY=http://127.0.0.1:3128 NO_PROXY=localhost,127.0.0.1,::1"
    )
    run("browser.close()")
    run(f"browser.open('{AT}/')", before=proxy)
    assert "asked for http://allowed.test/" in run(
        "browser.open('http://allowed.test/')\nprint(browser.text())"
    )
    refused = "https://example.org/ was refused: example.org is not in EGRESS_ALLOW"
    assert fails("browser.open('example.org')", before=proxy) == refused
    told = run("show(browser.open('http://169.254.169.254/latest').status)")
    assert "[status 403: 169.254.169.254 is not in EGRESS_ALLOW]" in told
    assert "false" not in run(f"browser.open('{AT}/online')\nprint(browser.text())")
    run("browser.close()")


async def here(host: str, port: int) -> list[Address]:
    return [Address("127.0.0.1", port)]


def test_it_works_through_the_gateway_and_trusts_the_authority_of_its_sandbox(
    browser_image: str, tmp_path: Path
) -> None:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("api.test").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    plain, secure = (ThreadingHTTPServer(("127.0.0.1", 0), browser_site.Site) for _ in range(2))
    secure.socket = context.wrap_socket(secure.socket, server_side=True)
    secret = "a-token-of-some-length"
    credentials = Credentials(
        parse_credentials('{"api.test": {"header": "Authorization", "secret": "API_TOKEN"}}'),
        {"API_TOKEN": secret},
        SecretFilter({"API_TOKEN": secret}),
    )
    at, over_tls = f"http://site.test:{plain.server_port}", f"https://api.test:{secure.server_port}"
    rules = Rules.parse([at, over_tls])
    gateway = Gateway(
        lambda: Proxy(rules=rules, resolve=here, credentials=credentials, tls=trusting),
        limits=EgressLimits(rate=10_000),
        credential_hosts=credentials.hosts,
    )
    threads = [threading.Thread(target=server.serve_forever) for server in (plain, secure)]
    for thread in threads:
        thread.start()
    try:
        with DockerExecutionBackend(
            tmp_path, skills_dir=ROOT / "skills", image=browser_image, name="browser", egress=gateway.door
        ) as computer:

            def ask(program: str) -> str:
                return computer.execute(
                    f"python -c {shlex.quote(f'from skills import browser; {program}')}"
                ).output

            assert ask(f"print(browser.open('{at}/shop.html').title)") == "Shop\n"
            shown = ask(
                "browser.type('Search', 'lamp', submit=True); browser.click('Show prices'); print(browser.text())"
            )
            assert "2 lamps" in shown
            assert "chair\t30" in shown
            assert "/results/downloads/prices.csv" in ask("browser.click('Price list')")
            # Its TLS ends in the gateway, which adds the credential and takes it out of the answer.
            assert (
                ask(f"browser.open('{over_tls}/authorization'); print(browser.text())")
                == "Bearer [REDACTED]\n"
            )
            refused = ask("browser.open('https://other.test/')").splitlines()[-1]
            assert "https://other.test/ was refused: other.test:443 is not in EGRESS_ALLOW" in refused
            assert "other.test:80 is not in EGRESS_ALLOW" in ask("browser.open('http://other.test/')")
            assert "169.254.169.254" in ask("browser.open('http://169.254.169.254/')")
    finally:
        gateway.close()
        for server in (plain, secure):
            server.shutdown()
            server.server_close()
        for thread in threads:
            thread.join()


def test_no_port_is_open_for_it(run: Run, sandbox: DockerExecutionBackend) -> None:
    """A page could ask a port: by its address, or by a name that leads there."""
    listening = "awk '$4 == \"0A\" {print $2}' /proc/net/tcp /proc/net/tcp6 | sort -u"
    run("browser.close()")
    before = sandbox.execute(listening).output
    run(f"browser.open('{AT}/')")
    assert sandbox.execute(listening).output == before


# Without


def test_an_image_without_a_browser_says_what_to_set(backend: DockerExecutionBackend) -> None:
    for call in ("open('http://localhost/')", "text()"):
        done = backend.execute(f"python -c {shlex.quote(f'from skills import browser; browser.{call}')}")
        assert done.exit_code == 1
        assert "this sandbox has no browser: ask the person to set SANDBOX_BROWSER=1" in done.output
        assert "code-agent setup" in done.output
    assert backend.execute("python -c 'from skills import browser; browser.close()'").exit_code == 0
