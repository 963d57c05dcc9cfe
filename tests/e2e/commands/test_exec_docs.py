"""Runs the examples of docs/exec.md: a search with a Brave key, and the runner without an agent."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from agent.prompts import load_catalogue
from agent.settings import ROOT
from tests.clients.cli_program import Program, call
from tests.servers.http_server import running
from tests.servers.search_servers import KEY, Server, brave

pytestmark = [pytest.mark.docker, pytest.mark.thorough]

PAGE = (ROOT / "docs" / "exec.md").read_text()
RECIPE = PAGE.split("## From a Brave key to a result")[1].partition("\n## ")[0]
IMAGE = os.environ.get("SANDBOX_IMAGE", "code-execution-agent")
HOST = "api.search.brave.com"

COMMAND_LINE = f"""
import sys
import libs.gateway.rules
from libs.gateway.rules.addresses import Address
port = int(sys.argv.pop(1))

async def resolve(host, wanted, *, private):
    assert (host, wanted) == ("{HOST}", 443)
    return [Address("127.0.0.1", port)]

libs.gateway.rules.resolve_public = resolve
from agent.cli import app
app(prog_name="code-agent")
"""
"""Runs `code-agent` on a machine whose name service gives a loopback address for Brave's host."""


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def service(program: Program) -> Iterator[Server]:
    """Serve Brave's interface over TLS on loopback. The host and sandboxed programs trust its certificate."""
    public, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    public.issue_cert(HOST).configure_cert(tls)
    program.workspace.mkdir()
    authority = program.workspace / "ca.pem"
    authority.write_bytes(public.cert_pem.bytes())
    program.environment |= {
        "SSL_CERT_FILE": str(authority),
        "SANDBOX_ENV_ALLOW": "REQUESTS_CA_BUNDLE",
        "REQUESTS_CA_BUNDLE": "/mnt/workspace/ca.pem",
    }
    server = Server(brave)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    with running(server):
        program.command = [sys.executable, "-c", COMMAND_LINE, str(server.server_port)]
        yield server


@pytest.mark.parametrize("way", ["EGRESS_CREDENTIALS", "EXEC_PASS_KEYS"])
def test_search_with_a_key_gives_a_result(program: Program, service: Server, way: str) -> None:
    *settings, command = blocks(RECIPE, "bash")
    [lines] = [each for each in settings if way in each]
    (program.folder / ".env").write_text(lines.replace("your-key", KEY))
    [code] = blocks(RECIPE, "python")
    in_prompt = [ast.dump(ast.parse(api.example)) for api in load_catalogue().apis]
    assert ast.dump(ast.parse(code)) in in_prompt
    program.script(call("execute_code", code=code))
    if way == "EGRESS_CREDENTIALS":  # programs see the gateway's certificate, not the server's
        del program.environment["SANDBOX_ENV_ALLOW"]

    name, verb, *arguments = shlex.split(command)
    assert (name, verb) == ("code-agent", "run")
    result = program.lines(*arguments, "--approve", "auto")[-1]

    assert result["status"] == "completed"
    assert result["text"].startswith("5 pages were found.")
    assert "https://www5.example/tides" in result["text"]
    [asked] = service.asked
    assert (asked.query["q"], asked.headers["X-Subscription-Token"]) == ("tidal power cost", KEY)
    assert KEY not in json.dumps(result)


EXAMPLES = blocks(PAGE.split("## Without an agent")[1], "python")
UNCLOSED = """
from libs.exec_tool import CodeRunner, execute_code_tool, fresh_sandboxes

tool = execute_code_tool(CodeRunner(fresh_sandboxes()))
print(tool.invoke({"code": "print(6 * 7)"}))
"""


@pytest.mark.parametrize("script", [*EXAMPLES, UNCLOSED], ids=["function", "tool", "unclosed"])
def test_script_prints_the_result_and_ends_cleanly(tmp_path: Path, script: str) -> None:
    program = script.replace("fresh_sandboxes())", f"fresh_sandboxes(image={IMAGE!r}))")
    program = program.replace("code_runner()", f"code_runner({IMAGE!r})")
    assert IMAGE in program
    (tmp_path / "script.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "42" in done.stdout
