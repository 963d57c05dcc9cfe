"""`skills.browser` with failing pages and processes: each call ends, and the next page opens."""

# ruff: noqa: E501 - long programs

from __future__ import annotations

import json
import re
import shlex
import time

import pytest
from browser_sandbox import AT, SERVER, Fails, Run, bracketed, gone, processes

from libs.backends.docker import DockerExecutionBackend

pytestmark = [
    pytest.mark.docker,
    pytest.mark.thorough,
    pytest.mark.timeout(1500),
]  # it may have to build the image

SLACK = 20
"""Seconds that a call may take beyond its time-out."""


def test_unreachable_page_is_an_error(run: Run, fails: Fails) -> None:
    for url, message in (
        (f"{AT}/slow?30", f"{AT}/slow?30 did not answer within 2 seconds"),
        (f"{AT}/loop", f"{AT}/loop cannot be reached: it leads in a circle"),
        ("http://localhost:8009/", "http://localhost:8009/ cannot be reached: nothing listens there"),
        ("http://nowhere.test/", "http://nowhere.test/ cannot be reached: "),
        ("chrome://crash", "no address that can be opened"),
        ("/data/none.html", "there is no file /data/none.html"),
    ):
        assert fails(f"browser.open({url!r}, timeout=2)").startswith(message)
    program = f"""
for _ in range(3):
    try:
        browser.open('http://localhost:8009/')
    except browser.BrowserError:
        assert browser.open('{AT}/').title == 'Home'"""
    run(program)


def test_endless_page_can_be_used(run: Run) -> None:
    begun = time.monotonic()
    told = run(f"browser.open('{AT}/drip', timeout=20)\nprint(browser.text())")
    assert "[not all of the page has loaded; what is there can be used]" in told
    assert told.endswith("so far\n")
    assert time.monotonic() - begun < 25


def test_click_waits_for_a_slow_page_until_its_timeout(run: Run) -> None:
    program = f"browser.open('{AT}/links')\nshow(browser.click('Slow', timeout=15).title)"
    assert run(program).value == "Slow"
    told = run(f"browser.open('{AT}/links')\nshow(browser.click('Slow', timeout=1).title)")
    assert "[what was to come did not come in time, and was stopped (timeout=…)]" in told
    assert told.value == "Links"
    assert "Slow" in run("print(browser.text())")


def test_hanging_page_ends_at_the_timeout(run: Run, fails: Fails) -> None:
    run(f"browser.open('{AT}/freeze')")
    begun = time.monotonic()
    assert "the page does not respond" in fails("browser.click('Freeze', timeout=2)\nbrowser.text(timeout=2)")
    assert time.monotonic() - begun < 30
    assert fails("browser.text(timeout=2)") == "the page does not respond: open the page again"
    assert run(f"show(browser.open('{AT}/').title)").value == "Home"


def test_command_timeout_keeps_the_browser(run: Run, sandbox: DockerExecutionBackend) -> None:
    run(f"browser.open('{AT}/')")
    before = processes(sandbox, SERVER)
    program = f"from skills import browser; browser.open('{AT}/slow?20')"
    done = sandbox.execute(f"python -c {shlex.quote(program)}", timeout=2)
    assert done.exit_code == 124
    begun = time.monotonic()
    assert run(f"show(browser.open('{AT}/child').title)").value == "Child"
    assert time.monotonic() - begun < 10, "the call of the killed program is given up"
    assert processes(sandbox, SERVER) == before


def test_crash_of_the_browser_is_an_error_and_a_new_one_starts(
    run: Run, fails: Fails, sandbox: DockerExecutionBackend
) -> None:
    run(f"browser.open('{AT}/')")
    killer = "import os, signal, threading, time\ndef kill():\n    time.sleep(1)\n    os.system('pkill -KILL -f [h]eadless')\n"
    said = fails(f"{killer}threading.Thread(target=kill).start()\nbrowser.open('{AT}/slow?10')")
    assert said.startswith("the browser crashed, perhaps for the memory")
    assert run(f"show(browser.open('{AT}/').title)").value == "Home"
    sandbox.execute("pkill -KILL -f headless")
    assert fails("browser.text()").startswith(("the browser crashed", "no page is open", "the browser ended"))
    assert run(f"show(browser.open('{AT}/').title)").value == "Home"


def test_crash_of_a_page_keeps_the_browser(run: Run, fails: Fails, sandbox: DockerExecutionBackend) -> None:
    run(f"browser.open('{AT}/cookie')")
    sandbox.execute("pkill -KILL -f -- --type=renderer")
    assert "the page crashed" in fails("browser.text()")
    assert "seen=yes" in run(f"browser.open('{AT}/cookie')\nprint(browser.text())")


@pytest.mark.parametrize("page", ["greedy", "hoard"])
def test_memory_limit_ends_the_page(run: Run, fails: Fails, page: str) -> None:
    """The kernel may end more than the page; the next page opens in any case."""
    run(f"browser.open('{AT}/{page}')")
    said = fails("browser.click('Eat', timeout=60)")
    assert re.match("the (page|browser) crashed, perhaps for the memory", said)
    assert run(f"show(browser.open('{AT}/').title)").value == "Home"


VICTIMS = {
    "server": "skills.browser._server",
    "driver": "playwright/driver",
    "browser": "--user-data-dir",
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


@pytest.mark.parametrize(
    ("victim", "signal"),
    [
        *((victim, "KILL") for victim in ("server", "driver", "browser", "network", "page")),
        *((victim, "STOP") for victim in ("server", "driver", "browser", "page", "all")),
    ],
)
def test_calls_end_when_a_process_is_killed_or_stopped(
    run: Run, sandbox: DockerExecutionBackend, victim: str, signal: str
) -> None:
    """A process is killed in the middle of a call, as the kernel does without memory."""
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


def test_ten_tabs_fit_into_a_sandbox(run: Run, sandbox: DockerExecutionBackend) -> None:
    """The limits are 256 processes and threads and 2 GB."""
    run("browser.close()")
    program = f"browser.open('{AT}/tabs')\nbrowser.click('Flood', timeout=60)"
    run(program)
    threads = sum(map(int, sandbox.execute("ps -eo nlwp=").output.split()))
    assert threads < 220
    assert run(f"show(browser.open('{AT}/heavy').title)").value == "Heavy"
    run("browser.close()")
