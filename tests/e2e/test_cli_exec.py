"""`code-agent run --agent exec`: the acceptance tasks, from the outside, without any cloud account."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_program import Program, call
from package_servers import html_page, served, wheel

pytestmark = pytest.mark.docker

SITE = "127.0.0.2"
"""On this machine; inside, only the gateway leads to it."""
ORDERS = {
    "orders": [
        {"city": "Bergen", "total": 12.5},
        {"city": "Oslo", "total": 7},
        {"city": "Bergen", "total": 2},
    ]
}


def program_call(code: str, **args: Any) -> dict[str, Any]:
    return call("execute_code", code=code, **args)


def printed(lines: list[dict[str, Any]]) -> list[str]:
    return [line["text"] for line in lines if line["type"] == "output"]


class Shop(http.server.BaseHTTPRequestHandler):
    """Gives its orders to whoever has the token."""

    shown: list[str | None]

    def do_GET(self) -> None:
        type(self).shown.append(self.headers["X-Token"])
        body = json.dumps(ORDERS).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def shop() -> Iterator[str]:
    Shop.shown = []
    server = http.server.ThreadingHTTPServer((SITE, 0), Shop)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://{SITE}:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def fetch(url: str) -> str:
    return (
        "import collections, json, urllib.request\n"
        f"orders = json.load(urllib.request.urlopen('{url}/orders'))['orders']\n"
        "totals = collections.Counter()\n"
        "for order in orders: totals[order['city']] += order['total']\n"
        "city, total = totals.most_common(1)[0]\n"
        "print(json.dumps({'ok': True, 'answer': f'{city} is first with {total}.', 'totals': totals}))"
    )


def test_json_is_fetched_summed_up_and_printed(program: Program, shop: str) -> None:
    program.environment |= {"EGRESS_ALLOW": shop, "EGRESS_PRIVATE": f"{SITE}/32", "APPROVALS": "auto"}
    program.script(program_call(fetch(shop)))

    lines = program.lines("--agent", "exec", "which city is first?")

    result = lines[-1]
    assert result["status"] == "completed"
    assert result["text"].startswith("Bergen is first with 14.5.")
    assert '"Oslo": 7' in result["text"]
    [execution] = result["executions"]
    assert (execution["language"], execution["exit_code"]) == ("python", 0)
    assert [line["type"] for line in lines if line["type"] in ("command", "output")] != []


def test_the_same_without_permission_is_an_error_that_names_the_setting(program: Program, shop: str) -> None:
    program.environment |= {"APPROVALS": "auto", "EXEC_REPAIRS": "0"}
    program.script(program_call(fetch(shop)))

    result = program.lines("--agent", "exec", "which city is first?", status=1)[-1]

    assert "(network)" in result["text"]
    assert "EGRESS_ALLOW" in result["executions"][0]["output"]
    assert Shop.shown == []


def test_a_helper_saved_in_one_step_is_imported_in_a_later_one(program: Program) -> None:
    program.environment |= {"APPROVALS": "auto"}
    program.script(
        program_call(
            "open('helpers.py', 'w').write('def double(x): return 2 * x')\nprint('{\"answer\": \"Saved.\"}')"
        ),
        "(made of what it printed)",
        program_call('import helpers\nprint(\'{"answer": "%d"}\' % helpers.double(21))'),
    )

    assert program.lines("--agent", "exec", "--thread", "t", "save a helper")[-1]["text"].startswith("Saved.")
    assert program.lines("--thread", "t", "use the helper")[-1]["text"] == "42"


def test_the_agent_tries_smaller(program: Program) -> None:
    program.environment |= {
        "APPROVALS": "auto",
        "SANDBOX_MEMORY": "256m",
        "SANDBOX_TMP": "16m",
        "EXEC_SECONDS": "60",
    }
    program.script(
        program_call("x = bytearray(4 << 30)\nfor n in range(0, len(x), 4096): x[n] = 1"),
        program_call('print(\'{"answer": "Less does."}\')'),
    )

    result = program.lines("--agent", "exec", "fill memory")[-1]

    assert result["text"] == "Less does."
    assert [execution["exit_code"] == 0 for execution in result["executions"]] == [False, True]
    assert "[memory:" in result["executions"][0]["output"]


def test_results_are_in_the_workspace(program: Program) -> None:
    program.environment |= {"APPROVALS": "auto"}
    plot = (
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('results/line.png')\n"
        'print(\'{"answer": "Drawn."}\')'
    )
    program.script(program_call(plot))

    lines = program.lines("--agent", "exec", "plot a line")

    assert lines[-1]["files"] == ["results/line.png"]
    assert (program.workspace / "results" / "line.png").read_bytes().startswith(b"\x89PNG")


def test_a_program_waits_for_approval(program: Program) -> None:
    program.script(program_call('print(\'{"answer": "Ran."}\')'))

    waiting = program.run("run", "--agent", "exec", "--thread", "w", "run it")
    assert waiting.returncode == 3
    assert 'print(\'{"answer": "Ran."}\')' in waiting.stdout
    done = program.run("run", "--thread", "w", "--approve", "auto")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Ran." in done.stdout


def test_json_tells_everything_in_order(program: Program) -> None:
    code = "open('results/a.txt', 'w').write('1')\nprint('working')\nprint('{\"answer\": \"Ran.\"}')"
    program.script(program_call(code))

    waiting = program.lines("--agent", "exec", "--thread", "w", "run it", status=3)
    assert [line["type"] for line in waiting] == ["message", "approval", "result"]
    [request] = waiting[1]["action_requests"]
    assert (request["name"], request["args"]["code"]) == ("execute_code", code)
    assert (waiting[-1]["status"], waiting[-1]["executions"], waiting[-1]["files"]) == ("interrupted", [], [])
    again = program.lines("--thread", "w", status=3)  # without a task, and nobody to ask: it still waits
    assert [line["type"] for line in again] == ["approval", "result"]
    assert not (program.workspace / "results" / "a.txt").exists()

    lines = program.lines("--thread", "w", "--approve", "auto")
    types = [line["type"] for line in lines]
    assert types.index("approval") < types.index("command") < types.index("output") < types.index("file")
    [command] = [line for line in lines if line["type"] == "command"]
    assert (command["language"], command["code"]) == ("python", code)
    outputs = [line for line in lines if line["type"] == "output"]
    assert "".join(printed(lines)).startswith("working\n")
    assert {line["id"] for line in outputs} == {command["id"]}
    assert outputs[-1]["exit_code"] == 0
    assert [line["path"] for line in lines if line["type"] == "file"] == ["results/a.txt"]
    result = lines[-1]
    assert (result["thread_id"], result["status"], result["files"]) == ("w", "completed", ["results/a.txt"])
    assert result["text"].startswith("Ran.")
    [execution] = result["executions"]
    assert (execution["language"], execution["code"], execution["exit_code"]) == ("python", code, 0)

    [nothing] = program.lines("--thread", "w", status=2)
    assert "Nothing is pending" in nothing["text"]


def test_each_end_has_its_exit_status(program: Program) -> None:
    program.script("4711.", "Certainly 4711.")
    result = program.lines("--agent", "exec", "Count the rows of /data/sales.csv.")[-1]
    assert (result["status"], result["text"], result["executions"]) == ("completed", "Certainly 4711.", [])
    program.environment |= {"APPROVALS": "auto", "RUN_MAX_CALLS": "1"}
    program.script(program_call("print(1 / 0)"), "never said")
    result = program.lines("--agent", "exec", "divide", status=4)[-1]
    assert result["status"] == "budget_calls"


def test_packages_of_the_index_that_pip_is_set_to(program: Program, tmp_path: Path) -> None:
    name, content = wheel("thing")
    with served() as index:
        index.add("/simple/thing/", html_page({name: content}))
        index.add(f"/simple/thing/{name}", content)
        program.environment |= {
            "APPROVALS": "auto",
            "EGRESS_PACKAGES": "1",
            "PIP_INDEX_URL": f"{index.url}/simple",
            "PIP_CONFIG_FILE": "/dev/null",
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "EXEC_SECONDS": "120",
        }
        code = 'import thing\nprint(\'{"answer": "%s"}\' % thing.VERSION)'
        program.script(program_call(code, dependencies=["thing"]))
        first = program.lines("--agent", "exec", "--thread", "a", "version?")
        assert first[-1]["text"] == "1.0"
        assert printed(first)[0] == "installing thing …\n"
        asked = len(index.asked)
        again = program.lines("--agent", "exec", "--thread", "b", "version?")
        assert again[-1]["text"] == "1.0"
        assert "installing" not in "".join(printed(again))
        assert len(index.asked) == asked


def test_a_key_is_passed_on_only_where_it_is_asked_for(program: Program) -> None:
    program.environment |= {
        "APPROVALS": "auto",
        "WEATHER_API_KEY": "w-5e9b1f7c2a8d",
        "OPENAI_API_KEY": "sk-5e9b1f7c2a8d",
    }
    look = (
        "import os, json\nprint(json.dumps({'answer': str(sorted(n for n in os.environ if 'API_KEY' in n))}))"
    )
    tell = "import os\nprint(os.environ['WEATHER_API_KEY'])"
    program.script(program_call(look), "(made of what it printed)", program_call(tell))

    assert program.lines("--agent", "exec", "--thread", "k", "which?")[-1]["text"] == "[]"
    program.environment |= {"EXEC_PASS_KEYS": "1"}
    result = program.lines("--thread", "k", "print it")[-1]
    assert "w-5e9b1f7c2a8d" not in json.dumps(result)
    assert "[REDACTED]" in result["text"]
