"""No known secret in what a program of ours says, serves, sends to a tracer or leaves on the disk (G6).

Each canary stands where secrets are known from; commands print them, a person types them, a provider repeats
them. Then every byte that was written is searched, in every form.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from canaries import (
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
    written,
)
from cli_program import ROOT, Program, call, check_lines, execute

INPUTS = (".env", "script.yaml", "skills/")
"""What the test itself has put there, canaries included."""
WORKSPACE = ("workspace/",)
"""Files there hold what commands have written to them: docs/threat-model.md says so."""

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


def script(folder: Path) -> None:
    conversations: list[dict[str, Any]] = [
        {"when": "look for", "replies": SUBAGENT},
        {"when": "Log in", "replies": DEEP},
        {"when": "blocks", "replies": CODE},
    ]
    (folder / "script.yaml").write_text(yaml.safe_dump({"conversations": conversations}))


@pytest.fixture
def canaries(program: Program) -> Program:
    (program.folder / ".env").write_text(dotenv())
    program.environment = environment()
    script(program.folder)
    return program


def assert_clean(folder: Path, *told: str | bytes, but: tuple[str, ...] = INPUTS + WORKSPACE) -> None:
    for each in told:
        assert leaks(each.encode() if isinstance(each, str) else each) == set(), each
    assert left_in(folder, but=but) == {}


class TestTheSearch:
    """It finds what it is to find: else all the rest says nothing."""

    @pytest.mark.parametrize("name", CANARIES)
    def test_every_form(self, name: str, tmp_path: Path) -> None:
        for form in written(CANARIES[name]):
            assert leaks(f"a {form[:9]}\n{form[9:]} b".encode()) == {name}
        for before in ("", "x", "xy", "user:"):
            encoded = base64.b64encode(f"{before}{CANARIES[name]} and more".encode())
            assert leaks(b"\0" + encoded) == {name}
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "b.log").write_text(CANARIES[name])
        assert left_in(tmp_path, but=()) == {"a/b.log": {name}}
        assert leaks(b"nothing") == set()


@pytest.mark.docker
class TestTheProgram:
    @pytest.mark.parametrize(("agent", "task"), [("deep", TASK), ("code", f"blocks with {DATABASE}")])
    @pytest.mark.parametrize("form", [["--json"], []], ids=["json", "text"])
    def test_a_run(self, canaries: Program, agent: str, task: str, form: list[str]) -> None:
        done = canaries.run("run", *form, "--agent", agent, "--approve", "auto", "--thread", "t", task)
        assert done.returncode == 0, done.stdout + done.stderr
        assert_clean(canaries.folder, done.stdout, done.stderr)
        assert done.stdout.count(MARK) > 10
        for kept, times in (("threads", 20), ("commands", 5)):
            assert rows(canaries.folder / ".code-agent" / f"{kept}.sqlite").count(MARK.encode()) > times
        assert "what was sent holds a secret" in done.stderr
        if form:
            result = check_lines(done.stdout)[-1]
            assert result["status"] == "completed"
            assert any("base64" in each["code"] for each in result["executions"])
        assert (canaries.workspace / "data" / "c" / "x.env").read_text() == f"key={TOKEN}\n"

    def test_a_question_that_waits(self, canaries: Program) -> None:
        done = canaries.run("run", "--agent", "deep", "--thread", "t", TASK)
        assert done.returncode == 3, done.stderr
        assert "Waits for approval" in done.stdout
        assert_clean(canaries.folder, done.stdout, done.stderr)
        listed = canaries.run("approvals", "list", "t", "--json")
        assert_clean(canaries.folder, listed.stdout, listed.stderr)

    def test_one_that_is_killed(self, canaries: Program) -> None:
        """Its database is left as it was, with the log of what is not in it yet."""
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

    @pytest.mark.parametrize("agent", ["deep", "code"])
    @pytest.mark.parametrize("form", [["--json"], []], ids=["json", "text"])
    def test_a_provider_that_repeats_the_key(self, canaries: Program, agent: str, form: list[str]) -> None:
        with listening() as server:
            canaries.environment |= {
                "MODEL": "openai:some-model",
                "OPENAI_BASE_URL": f"http://me:{BASE_URL}@127.0.0.1:{server.port}/v1",
            }
            done = canaries.run("run", *form, "--agent", agent, "--approve", "auto", TASK)
            assert server.bodies
        assert done.returncode == 1
        assert "Incorrect API key provided" in done.stdout
        assert MARK in done.stdout
        assert_clean(canaries.folder, done.stdout, done.stderr, *server.bodies)

    def test_traces(self, canaries: Program) -> None:
        """Sent by LangChain's own tracer, to a place that keeps them; the key for it goes in a header."""
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

    @pytest.mark.parametrize(
        "command",
        [
            ["doctor"],
            ["doctor", "--json"],
            ["skills", "list"],
            ["skills", "list", "--json"],
            ["skills", "validate"],
            ["sandbox", "ls", "--json"],
            ["model", "which"],
            ["approvals", "list", SERVICE],
            ["run", "--thread", SERVICE],
        ],
        ids=" ".join,
    )
    @pytest.mark.parametrize("sound", [True, False], ids=["", "wrong settings"])
    def test_the_other_commands(self, canaries: Program, command: list[str], sound: bool) -> None:
        skill = canaries.folder / "skills" / "leaky"
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text(f"---\nname: leaky\ndescription: Reads {SERVICE} aloud.\n---\n")
        broken = canaries.folder / "skills" / "broken"
        broken.mkdir()
        (broken / "SKILL.md").write_text(f"---\nname: {ANTHROPIC}\ndescription: {SERVICE}\n---\n")
        canaries.environment |= {"SKILLS_DIRS": "skills", "SKILLS_TRUSTED": "leaky,broken"}
        scheme = "http" if sound else "ftp"
        canaries.environment["OPENAI_BASE_URL"] = f"{scheme}://me:{BASE_URL}@127.0.0.1:1/v1"
        done = canaries.run(*command)
        assert "Traceback" not in done.stderr
        assert_clean(canaries.folder, done.stdout, done.stderr)


class Served:
    """`langgraph dev` in a folder of its own, and all that it has answered."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes], port: int) -> None:
        self.folder = folder
        self.process = process
        self.answers: list[bytes] = []
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.http.request(method, path, json=body)
        self.answers += [answer.content, repr(answer.headers).encode()]
        try:
            return answer.json()
        except ValueError:
            return answer.text

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        self.http.close()


@pytest.fixture(params=["scripted:script.yaml", "openai:some-model"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    config = json.loads((ROOT / "langgraph.json").read_text())
    config["dependencies"] = [str(ROOT / path) for path in config["dependencies"]]
    config["graphs"] = {name: str(ROOT / path) for name, path in config["graphs"].items()}
    config["http"]["app"] = str(ROOT / config["http"]["app"])
    (tmp_path / "langgraph.json").write_text(json.dumps(config))
    script(tmp_path)
    with socket.socket() as taken, listening() as provider:
        taken.bind(("127.0.0.1", 0))
        port = int(taken.getsockname()[1])
        taken.close()
        more = f"MODEL={request.param}\nAPPROVALS=ask\nWORKSPACE_DIR=workspace\n"
        if request.param.startswith("openai"):
            more += f"OPENAI_BASE_URL=http://me:{BASE_URL}@127.0.0.1:{provider.port}/v1\n"
        (tmp_path / ".env").write_text(dotenv() + more)
        env = {**Program(tmp_path).env, **environment(), "PYTHONUNBUFFERED": "1"}
        env |= {"LANGGRAPH_NO_VERSION_CHECK": "true"}
        env.pop("MODEL")
        command = [
            Path(sys.executable).with_name("langgraph"), "dev", "--no-browser", "--no-reload",
            "--n-jobs-per-worker", "10", "--host", "127.0.0.1", "--port", str(port),
        ]  # fmt: skip
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=log, stderr=log)
        server = Served(tmp_path, process, port)
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and process.poll() is None:
                try:
                    if server.http.get("/ok").is_success:
                        break
                except httpx.TransportError:
                    time.sleep(0.1)
            else:
                pytest.fail(f"the server did not start:\n{(tmp_path / 'log').read_text()}")
            yield server
        finally:
            if process.poll() is None:
                server.end()


@pytest.mark.docker
def test_the_server(served: Served) -> None:
    """Its answers, its log and what it keeps, for runs that end, wait, are rejected, and fail."""
    for graph, task in (
        ("deep_agent", TASK),
        ("code_agent", f"blocks with {DATABASE}"),
        ("deep_agent", SERVICE),
    ):
        thread = served.ask("POST", "/threads", {"metadata": {"note": OPENAI}})["thread_id"]
        given: Any = {"input": {"messages": [{"role": "user", "content": task}]}}
        for _ in range(6):
            served.ask("POST", f"/threads/{thread}/runs/wait", {"assistant_id": graph, **given})
            state = served.ask("GET", f"/threads/{thread}/state")
            if not (state.get("interrupts") if isinstance(state, dict) else None):
                break
            requests = state["interrupts"][0]["value"]["action_requests"]
            decisions = [{"type": "approve"}] * len(requests)
            given = {"command": {"resume": {"decisions": decisions}}}
        served.ask("GET", f"/threads/{thread}/history")
        served.ask("GET", f"/threads/{thread}/runs")
        rejected = {"resume": {"decisions": [{"type": "reject", "message": f"not with {SERVICE}"}]}}
        served.ask("POST", f"/threads/{thread}/runs/wait", {"assistant_id": graph, "command": rejected})
        body = {"messages": [{"role": "user", "content": SERVICE}]}
        served.ask("POST", f"/threads/{thread}/state", {"values": body})
        stream = {"assistant_id": graph, "input": body, "stream_mode": ["messages-tuple", "custom", "debug"]}
        served.ask("POST", f"/threads/{thread}/runs/stream", stream)
    served.ask("POST", "/threads/search", {"metadata": {"note": OPENAI}})
    served.ask("POST", f"/threads/{SERVICE}/runs/wait", {"assistant_id": DATABASE})
    served.end()
    told = b"".join(served.answers)
    kept = b"".join(file.read_bytes() for file in (served.folder / ".langgraph_api").iterdir())
    assert MARK.encode() in told
    assert MARK.encode() in kept
    if (served.folder / "script.yaml").exists() and b"Incorrect API key" not in told:
        assert told.count(MARK.encode()) > 50
        assert (served.folder / "workspace" / "data" / "c" / "x.env").read_text() == f"key={TOKEN}\n"
    assert_clean(served.folder, *served.answers)
