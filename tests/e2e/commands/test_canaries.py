"""No known secret is printed, served, traced or kept on the disk.

Each canary stands in one source of secrets. Commands print the canaries, a person types them, a provider
repeats them. Then the tests search every written byte for every form of every canary.
"""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clients.cli_program import Program, call, check_lines, execute
from tests.servers.served import Served
from tests.support.canaries import (
    ANTHROPIC,
    BASE_URL,
    CANARIES,
    DATABASE,
    LANGSMITH,
    LEAKS,
    MARK,
    OPENAI,
    SERVICE,
    TOKEN,
    dotenv,
    environment,
    leaks,
    left_in,
    listening,
    rows,
    servers,
    written,
)

SERVER = Path(__file__).parents[2] / "servers" / "mcp_servers" / "mcp_program.py"
INPUTS = (".env", ".mcp.json", "script.yaml", "skills/")
"""Files that the test itself wrote, with canaries."""
WORKSPACE = ("workspace/",)
"""Commands may write secrets into files of the workspace (docs/threat-model.md)."""

TASK = f"Log in with {DATABASE} and {SERVICE}."

DEEP = [
    {"text": "Let me look.", "tool_calls": [execute(LEAKS)]},
    {
        "tool_calls": [
            call("read_file", file_path="/data/c/x.env"),
            call("ls", path="/results"),
            call("grep", pattern="key=", path="/data/c"),
            call("task", subagent_type="general-purpose", description="look for it"),
        ]
    },
    {"text": "That is all."},
]
SUBAGENT = [{"tool_calls": [execute("echo $CANARY_TOKEN >&2; false")]}, {"text": "It is there."}]
CODE = [
    {"text": f"I look.\n```bash\n{LEAKS}\n```\n```python\nimport os\nos.environ['CANARY_TOKEN']\n```"},
    {"text": "```python\nraise ValueError(os.environ['CANARY_TOKEN'])\n```"},
    {"text": "```bash\necho fine\n```"},
    {"text": "That is all."},
]


SCRIPT = yaml.safe_dump(
    {
        "conversations": [
            {"when": "look for", "replies": SUBAGENT},
            {"when": "Log in", "replies": DEEP},
            {"when": "blocks", "replies": CODE},
        ]
    }
)


@pytest.fixture
def canaries(program: Program) -> Program:
    (program.folder / ".env").write_text(dotenv())
    program.environment = {**environment(), "MCP_CONFIG": ".mcp.json"}
    (program.folder / ".mcp.json").write_text(servers(SERVER))
    (program.folder / "script.yaml").write_text(SCRIPT)
    return program


def assert_clean(folder: Path, *told: str | bytes, but: tuple[str, ...] = INPUTS + WORKSPACE) -> None:
    for each in told:
        assert leaks(each.encode() if isinstance(each, str) else each) == set(), each
    assert left_in(folder, but=but) == {}


class TestSearch:
    """The search of the other tests finds every form of a secret."""

    def test_every_form_is_found(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        for name, secret in CANARIES.items():
            for form in written(secret):
                assert leaks(f"a {form[:9]}\n{form[9:]} b".encode()) == {name}
            for before in ("", "x", "xy", "user:"):
                encoded = base64.b64encode(f"{before}{secret} and more".encode())
                assert leaks(b"\0" + encoded) == {name}
            (tmp_path / "a" / "b.log").write_text(secret)
            assert left_in(tmp_path, but=()) == {"a/b.log": {name}}
        assert leaks(b"nothing") == set()


@pytest.mark.docker
class TestProgram:
    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("agent", "task", "form"),
        [
            ("deep", TASK, ["--json"]),
            pytest.param("code", f"blocks with {DATABASE}", [], marks=pytest.mark.thorough),
        ],
        ids=["deep-json", "code-text"],
    )
    def test_run_shows_no_secret(self, canaries: Program, agent: str, task: str, form: list[str]) -> None:
        done = canaries.run("run", *form, "--agent", agent, "--approve", "auto", "--thread", "t", task)
        assert done.returncode == 0, done.stdout + done.stderr
        assert_clean(canaries.folder, done.stdout, done.stderr)
        assert done.stdout.count(MARK) > 10
        assert f"notes: {MARK} {MARK.encode().hex()}" in done.stdout
        for kept, times in (("threads", 20), ("commands", 5)):
            assert rows(canaries.folder / ".code-agent" / f"{kept}.sqlite").count(MARK.encode()) > times
        assert "what was sent holds a secret" in done.stderr
        if form:
            result = check_lines(done.stdout)[-1]
            assert result["status"] == "completed"
            assert any("base64" in each["code"] for each in result["executions"])
        assert (canaries.workspace / "data" / "c" / "x.env").read_text() == f"key={TOKEN}\n"

    @pytest.mark.thorough
    def test_killed_run_leaves_no_secret(self, canaries: Program) -> None:
        """The killed program leaves its database with a write-ahead log."""
        waits = [{"tool_calls": [execute(f"{LEAKS}\necho up; sleep 60")]}]
        (canaries.folder / "script.yaml").write_text(yaml.safe_dump(waits))
        process = canaries.start("run", "--approve", "auto", "--json", TASK)
        assert process.stdout is not None
        told = []
        for line in process.stdout:
            told.append(line)
            if "up\\n" in line:
                break
        os.kill(process.pid, signal.SIGKILL)
        told.append(process.stdout.read())
        process.stdout.close()
        process.wait()
        assert any(file.name.endswith("-wal") for file in (canaries.folder / ".code-agent").iterdir())
        assert_clean(canaries.folder, *told)

    @pytest.mark.thorough
    def test_provider_error_shows_no_secret(self, canaries: Program) -> None:
        with listening() as server:
            canaries.environment |= {
                "MODEL": "openai:some-model",
                "OPENAI_BASE_URL": f"http://me:{BASE_URL}@127.0.0.1:{server.port}/v1",
            }
            done = canaries.run("run", "--json", "--agent", "deep", "--approve", "auto", TASK)
            assert server.bodies
        assert done.returncode == 1
        assert "Incorrect API key provided" in done.stdout
        assert MARK in done.stdout
        assert_clean(canaries.folder, done.stdout, done.stderr, *server.bodies)

    @pytest.mark.thorough
    def test_traces_hold_no_secret(self, canaries: Program) -> None:
        """LangChain's own tracer sends the traces. The key for LangSmith goes in a header."""
        skill = canaries.folder / "skills" / "leaky"
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text(f"---\nname: leaky\ndescription: Reads {SERVICE} aloud.\n---\n")
        with listening() as server:
            canaries.environment |= {
                "LANGSMITH_TRACING": "true",
                "LANGSMITH_ENDPOINT": f"http://127.0.0.1:{server.port}",
                "LANGSMITH_API_KEY": LANGSMITH,
                "LANGSMITH_DISABLE_RUN_COMPRESSION": "true",
                "SKILLS_DIRS": "skills",
                "SKILLS_TRUSTED": "leaky",
            }
            done = canaries.run("run", "--agent", "deep", "--approve", "auto", TASK)
            assert done.returncode == 0, done.stderr
            canaries.environment |= {
                "SKILLS_DIRS": "",  # the provider is sent what a skill says
                "MODEL": "openai:some-model",
                "OPENAI_BASE_URL": f"http://me:{BASE_URL}@127.0.0.1:{server.port}/v1",
            }
            assert canaries.run("run", "--agent", "deep", "--approve", "auto", TASK).returncode == 1
        sent = b"".join(server.bodies)
        assert sent.count(MARK.encode()) > 20
        assert b"Reads [REDACTED] aloud" in sent
        assert b"Incorrect API key provided" in sent
        assert_clean(canaries.folder, sent, done.stdout, done.stderr)

    @pytest.mark.thorough
    @pytest.mark.parametrize("sound", [True, False], ids=["", "wrong settings"])
    def test_other_commands_show_no_secret(self, canaries: Program, sound: bool) -> None:
        for name, shown in (("leaky", "leaky"), ("broken", ANTHROPIC)):
            skill = canaries.folder / "skills" / name / "SKILL.md"
            skill.parent.mkdir(parents=True)
            skill.write_text(f"---\nname: {shown}\ndescription: Reads {SERVICE} aloud.\n---\n")
        canaries.environment |= {"SKILLS_DIRS": "skills", "SKILLS_TRUSTED": "leaky,broken"}
        scheme = "http" if sound else "ftp"
        canaries.environment["OPENAI_BASE_URL"] = f"{scheme}://me:{BASE_URL}@127.0.0.1:1/v1"
        commands = [["doctor"], ["skills", "list"], ["model", "which"], ["run", "--thread", SERVICE]]
        if sound:
            commands += [["doctor", "--json"], ["skills", "list", "--json"], ["skills", "validate"]]
            commands += [["sandbox", "ls", "--json"], ["approvals", "list", SERVICE]]
        for command in commands:
            done = canaries.run(*command)
            assert "Traceback" not in done.stderr, command
            assert_clean(canaries.folder, done.stdout, done.stderr)


class Canaried(Served):
    """A server with the canaries in its environment and its `.env`; keeps every answer."""

    def __init__(self, folder: Path, **settings: str) -> None:
        super().__init__(folder, SCRIPT, **settings)
        (folder / ".env").write_text((folder / ".env").read_text() + dotenv())
        self.answers: list[bytes] = []

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | environment()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        with self.client() as http:
            answer = http.request(method, path, json=body)
        self.answers += [answer.content, repr(answer.headers).encode()]
        try:
            return answer.json()
        except ValueError:
            return answer.text


@pytest.fixture(params=["scripted:script.yaml", "openai:some-model"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Canaried]:
    with listening() as provider:
        base_url = f"http://me:{BASE_URL}@127.0.0.1:{provider.port}/v1"
        made = Canaried(tmp_path, MODEL=request.param, APPROVALS="ask", OPENAI_BASE_URL=base_url)
        made.start()
        try:
            yield made
        finally:
            made.end()


@pytest.mark.docker
@pytest.mark.thorough
def test_server_shows_no_secret(server: Canaried) -> None:
    """Runs end, wait, are rejected and fail; no answer, log line or kept file holds a secret."""
    body = {"messages": [{"role": "user", "content": SERVICE}]}
    for graph, task in (("deep_agent", TASK), ("code_agent", f"blocks with {DATABASE}")):
        thread = server.ask("POST", "/threads", {"metadata": {"note": OPENAI}})["thread_id"]
        given: Any = {"input": {"messages": [{"role": "user", "content": task}]}}
        for _ in range(6):
            server.ask("POST", f"/threads/{thread}/runs/wait", {"assistant_id": graph, **given})
            state = server.ask("GET", f"/threads/{thread}/state")
            if not (state.get("interrupts") if isinstance(state, dict) else None):
                break
            requests = state["interrupts"][0]["value"]["action_requests"]
            decisions = [{"type": "approve"}] * len(requests)
            given = {"command": {"resume": {"decisions": decisions}}}
        server.ask("GET", f"/threads/{thread}/history")
        server.ask("GET", f"/threads/{thread}/runs")
        rejected = {"resume": {"decisions": [{"type": "reject", "message": f"not with {SERVICE}"}]}}
        server.ask("POST", f"/threads/{thread}/runs/wait", {"assistant_id": graph, "command": rejected})
        server.ask("POST", f"/threads/{thread}/state", {"values": body})
        stream = {"assistant_id": graph, "input": body, "stream_mode": ["messages-tuple", "custom", "debug"]}
        server.ask("POST", f"/threads/{thread}/runs/stream", stream)
    server.ask("POST", "/runs/wait", {"assistant_id": "deep_agent", "input": body})
    server.ask("POST", "/threads/search", {"metadata": {"note": OPENAI}})
    server.ask("POST", f"/threads/{SERVICE}/runs/wait", {"assistant_id": DATABASE})
    server.end()
    told = b"".join(server.answers)
    kept = b"".join(file.read_bytes() for file in (server.folder / ".langgraph_api").iterdir())
    assert MARK.encode() in told
    assert MARK.encode() in kept
    assert (b"Incorrect API key" in told) == ("MODEL=openai" in (server.folder / ".env").read_text())
    if b"Incorrect API key" not in told:
        assert told.count(MARK.encode()) > 50
        assert (server.folder / "workspace" / "data" / "c" / "x.env").read_text() == f"key={TOKEN}\n"
    assert_clean(server.folder, *server.answers)
