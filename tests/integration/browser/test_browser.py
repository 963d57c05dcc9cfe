"""`skills.browser`: one browser that stays open, with a web site inside the sandbox."""

# ruff: noqa: E501 - long programs

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path

import pytest
from browser_sandbox import AT, CHROMIUM, SERVER, Fails, Run, gone, processes

from libs.backends.docker import DockerExecutionBackend

ROOT = Path(__file__).parents[3]

pytestmark = [
    pytest.mark.docker,
    pytest.mark.thorough,
    pytest.mark.timeout(1500),
]  # it may have to build the image


def test_program_of_the_skill_prints_its_comments(sandbox: DockerExecutionBackend) -> None:
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


# Kept open


def test_next_process_continues_with_the_open_page(run: Run, sandbox: DockerExecutionBackend) -> None:
    assert run(f"show(browser.open('{AT}/'))").value == [f"{AT}/", "Home", 200, []]
    first = processes(sandbox, SERVER)
    assert run("show(browser.click('Child'))").value == [f"{AT}/child", "Child", 200, []]
    assert "I am new" in run("print(browser.text())")
    assert processes(sandbox, SERVER) == first
    assert len(first) == 1
    program = """
import sys, time
begun = time.monotonic()
for _ in range(20):
    browser.text()
show([(time.monotonic() - begun) / 20, 'playwright' in sys.modules])"""
    seconds, loaded = run(program).value
    assert seconds < 0.1
    assert loaded is False


def test_parallel_programs_share_one_browser(run: Run, sandbox: DockerExecutionBackend) -> None:
    run("browser.close()")
    program = shlex.quote(f"from skills import browser; browser.open('{AT}/')")
    done = sandbox.execute(
        f'for i in 1 2 3; do python -c {program} & ids="$ids $!"; done; for i in $ids; do wait $i || echo bad; done'
    )
    assert (done.exit_code, done.output) == (0, "")
    assert len(processes(sandbox, SERVER)) == 1


def test_close_ends_all_processes_and_forgets_cookies(
    run: Run, fails: Fails, sandbox: DockerExecutionBackend
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


def test_idle_browser_ends(run: Run, sandbox: DockerExecutionBackend) -> None:
    run("browser.close()")
    run(f"browser.open('{AT}/')", before="BROWSER_IDLE_SECONDS=1")
    assert gone(sandbox, SERVER)
    assert gone(sandbox, CHROMIUM)


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


def test_error_names_the_choices(run: Run, fails: Fails) -> None:
    run(f"browser.open('{AT}/form')")
    for call, message in (
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
    ):
        assert message in fails(f"browser.{call}")


def test_ambiguous_target_is_refused_with_selectors(
    run: Run, fails: Fails, sandbox: DockerExecutionBackend
) -> None:
    sandbox.execute("echo '<title>Mine</title>' > '/results/my page.html'")
    for path in ("/results/my page.html", "file:///results/my page.html"):
        assert run(f"show(browser.open({path!r}).title)").value == "Mine"
    run(f"browser.open('{AT}/twins')")
    assert run("show(browser.text('li'))").value == "Ada Remove\nBob Remove"
    assert run("show(browser.html('h7, img'))").value == '<img alt="Child" width="9" height="9">'
    said = fails("browser.click('Remove')")
    assert said.startswith("2 things on the page match 'Remove'. Give one of these: css=")
    assert "'Ada Remove'" in said
    way = re.search(r"; (css=\S+) \('Bob Remove'\)", said)
    assert way is not None
    assert run(f"show(browser.click({way[1]!r}).title)").value == "Bob removed"
    # Several links to one address: the first is used.
    assert run("show(browser.click('Child').title)").value == "Child"


def test_frames_are_read_and_searched(run: Run) -> None:
    told = run(f"browser.open('{AT}/frame')\nbrowser.click('Tell')\nprint(browser.text())")
    assert "outside" in told
    assert f"[frame {AT}/dialogs]\ntold" in told


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


def test_new_tab_is_used_until_closed(run: Run) -> None:
    run(f"browser.open('{AT}/tabs')")
    for name in ("Child", "Open"):
        told = run(f"show(browser.click({name!r}))")
        assert told.splitlines()[0] == f"[a new tab opened: the one in use is {AT}/child]"
        assert told.value[1] == "Child"
        assert run("browser.close(tab=True)") == f"[the tab in use is {AT}/tabs]\n"
    told = run("browser.click('Open')\nshow(browser.click('Done'))")
    assert f"[the tab was closed: the one in use is {AT}/tabs]" in told
    assert told.value[1] == "Tabs"


def test_tab_that_closes_itself_leads_to_the_tab_before(run: Run) -> None:
    """The tab closes before, while, or after the mouse button is down."""
    for call in ("click('clicked')", "click('pressed')", "click('approached')", "type('typed', 'x')"):
        told = run(
            f"browser.open('{AT}/tabs')\nassert browser.click('Other').title == 'Closes'\nshow(browser.{call}.title)"
        )
        assert told.value == "Tabs"
        assert f"[the tab was closed: the one in use is {AT}/tabs]" in told


def test_number_of_tabs_is_limited(run: Run, sandbox: DockerExecutionBackend) -> None:
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
    assert run(f"show(browser.open('{AT}/book.pdf').downloads)").value == ["/results/downloads/book.pdf"]


def test_slow_download_is_named_later(run: Run) -> None:
    run(f"browser.open('{AT}/links')")
    told = run("show(browser.click('Late', timeout=1).downloads)")
    assert "[the download of late.bin goes on; a later call names it when it is there]" in told
    assert told.value == []
    time.sleep(5)
    assert "/results/downloads/late.bin]" in run("browser.text()")
    assert "the download of broken.bin failed" in run("browser.click('Broken')")


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


def test_picture_stays_in_the_results(run: Run, fails: Fails, sandbox: DockerExecutionBackend) -> None:
    run(f"browser.open('{AT}/')")
    sandbox.execute("ln -sfn /workspace/data /results/out")
    for name in ("../x", "/tmp/x.png", "", "sub/", "out/x"):
        said = fails(f"browser.screenshot({name!r})")
        assert re.match("the name .* leads out of /results|no name for a file", said)
