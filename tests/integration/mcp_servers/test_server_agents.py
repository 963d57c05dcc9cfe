"""An MCP server as a package in the sandbox of each agent: free and declared calls, and credentials."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from agent import code_graph, exec_graph, graph
from agent.parts import build_backend
from agent.parts.exec_parts import build_exec_parts
from agent.settings import Settings, load_settings
from libs.models.scripted_model import ToolUse
from tests.integration.mcp_servers.played_agents import Recording, played
from tests.support.gated_agents import scripted
from tests.support.sandboxes import IMAGE, NEW_SANDBOX
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from libs.backends.docker import DockerExecutionBackend

pytestmark = pytest.mark.docker

PROGRAM = Path(__file__).parents[2] / "servers" / "mcp_servers" / "mcp_program.py"
TOKEN = "sk-notes-0123456789abcdef"
READ = "from servers.notes import add; print(add(a=20, b=22))"
WRITE = "from servers.notes import write_note; print(write_note(text='bought milk'))"
SECRET = "from servers.notes import token; print(token())"
READ_ALL = "from servers.notes import *; print(resources()[0]['uri'], read_resource(uri='notes://milk'))"
PROMPT = "print(read_resource(uri='notes://cover'), prompt_summary(style='short')[0]['content'])"
LINE = "# uses: notes.write_note"
READ_LINE = "# uses: notes.resources/read, notes.prompts/get"
REFUSED = "this code has not declared the call, or has ended"
DENIED = ("add", "write_note")


def block(code: str) -> str:
    return f"I run this.\n```python\n{code}\n```"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("mcp")
    server = {
        "command": sys.executable,
        "args": [str(PROGRAM)],
        "env": {"NOTES_TOKEN": TOKEN, "NOTES_FILE": str(made / "notes.txt")},
    }
    (made / ".mcp.json").write_text(json.dumps({"mcpServers": {"notes": server}}))
    return made


@pytest.fixture(autouse=True)
def own_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "notes.txt").write_text("")


@pytest.fixture(scope="module")
def settings_of(folder: Path) -> Callable[..., Settings]:
    def made(**more: Any) -> Settings:
        return load_settings(
            None,
            workspace_dir=folder / "workspace",
            mcp_config=folder / ".mcp.json",
            sandbox_image=IMAGE,
            sandbox_warm=0,
            **more,
        )

    return made


def notes_in(folder: Path) -> str:
    return (folder / "notes.txt").read_text()


def shell(command: str) -> ToolUse:
    return ToolUse(name="execute", args={"command": command})


def python(code: str) -> str:
    return f'python3 -c "{code}"'


def until(path: str) -> str:
    return f"while [ ! -e {path} ]; do sleep 0.1; done"


def deep(model: Any, settings: Settings) -> tuple[list[dict[str, Any]], list[str]]:
    """Run the deep agent. Return the requests for approval, and the outputs of its commands."""
    backend = build_backend(settings)
    try:
        agent = graph.build_graph(model, checkpointer=InMemorySaver(), settings=settings, backend=backend)
        asked, messages = played(agent)
    finally:
        cast("DockerExecutionBackend", backend.default).close()
    return asked, [message.text for message in messages if message.type == "tool"]


@pytest.mark.thorough
def test_deep_agent_calls_what_is_free_or_declared(folder: Path, settings_of: Any) -> None:
    late = f"({until('/tmp/ended')}; {python(WRITE)} > /tmp/late 2>&1; touch /tmp/tried) & echo begun"
    model = scripted(
        {
            "go": [
                [shell(python(READ))],
                [shell(python(WRITE))],
                [shell(f"{LINE}\n{python(WRITE)}")],
                [shell(f"{LINE}\n{late}")],
                [shell(f"touch /tmp/ended; {until('/tmp/tried')}; cat /tmp/late")],
                [
                    shell(f"{LINE}\ntouch /tmp/open; {until('/tmp/shut')}; echo declared"),
                    shell(f"{until('/tmp/open')}; {python(WRITE)}; touch /tmp/shut"),
                ],
                [shell(f"{python(SECRET)}; env; cat /servers/*/*.py")],
                "done",
            ]
        },
        Recording,
    )
    asked, outputs = deep(model, settings_of())
    read, undeclared, written, _, ended, _, neighbour, inside = outputs
    assert "42" in read
    assert LINE in undeclared
    assert "written" in written
    assert REFUSED in ended
    assert REFUSED in neighbour
    assert "[REDACTED]" in inside
    assert TOKEN not in inside
    assert notes_in(folder) == "bought milk\n"
    assert [request["uses"] for request in asked if "uses" in request] == [["notes.write_note"]] * 3
    assert "`servers.notes`" in model._prompts[0]


def test_call_ends_at_the_server_with_its_command(folder: Path, settings_of: Any) -> None:
    waits = ToolUse(
        name="execute", args={"command": python("from servers.notes import wait; wait()"), "timeout": 10}
    )
    _, [output] = deep(scripted({"go": [[waits], "done"]}), settings_of(approvals="auto"))
    assert "exit code 124" in output
    eventually(lambda: notes_in(folder) == "begun\ncancelled\n")


@pytest.mark.thorough
def test_calls_in_a_loop_have_a_rate_limit(folder: Path, settings_of: Any) -> None:
    loop = (
        "from servers import notes\n"
        "results = []\n"
        "for number in range(200):\n"
        "    try:\n"
        "        results.append(notes.add(a=number, b=0))\n"
        "    except Exception as error:\n"
        "        results.append(str(error))\n"
        "print(len([each for each in results if not isinstance(each, str)]), results[-1])"
    )
    run = shell(f"python3 - <<'E'\n{loop}\nE")
    _, [output] = deep(scripted({"go": [[run], "done"]}), settings_of(approvals="auto", egress_rate=50))
    said = output.removeprefix(NEW_SANDBOX)  # the other tests have used the same thread
    assert said.startswith("50 notes.add: servers.gateway is refused for ")
    assert "EGRESS_RATE allows 50 requests a minute" in output


def test_with_effects_only_a_declared_call_is_asked_about_beforehand(folder: Path, settings_of: Any) -> None:
    model = scripted({"go": [[shell(python(READ))], [shell(f"{LINE}\n{python(WRITE)}")], "done"]})
    asked, outputs = deep(model, settings_of(approvals="effects"))
    assert "42" in outputs[0]
    assert "written" in outputs[1]
    [request] = asked
    assert "effect" not in request
    assert request["uses"] == ["notes.write_note"]


def test_rule_denies_a_free_and_a_declared_call(folder: Path, settings_of: Any) -> None:
    rules = folder / "rules.toml"
    rules.write_text("".join(f'[[rule]]\ntool = "mcp:notes.{tool}"\ndecision = "deny"\n' for tool in DENIED))
    model = scripted({"go": [[shell(python(READ))], [shell(f"{LINE}\n{python(WRITE)}")], "done"]})
    _, outputs = deep(model, settings_of(approvals="auto", approval_rules=rules))
    assert "a rule of this installation denies it" in outputs[0]
    assert "denied by rule 2" in outputs[1]
    assert notes_in(folder) == ""


def test_code_block_agent_declares_in_the_block(folder: Path, settings_of: Any) -> None:
    settings = settings_of()
    late = f"({until('/tmp/ended')}; {python(WRITE)} > /tmp/late 2>&1; touch /tmp/tried) &"
    background = f"{LINE}\n{WRITE}\nimport os; os.system({late!r})"
    undeclared = "print(write_note(text='again'))"
    wait = f"touch /tmp/ended; {until('/tmp/tried')}"
    ended = f"os.system({wait!r}); print(open('/tmp/late').read())"
    blocks = [READ, background, f"{READ_LINE}\n{READ_ALL}\n{PROMPT}", undeclared, ended]
    model = scripted({"go": [*map(block, blocks), "Done."]}, Recording)
    backend = build_backend(settings)
    try:
        agent = code_graph.build_graph(
            model, checkpointer=InMemorySaver(), settings=settings, backend=backend
        )
        asked, messages = played(agent)
    finally:
        cast("DockerExecutionBackend", backend.default).close()
    told = "\n".join(message.text for message in messages)
    assert "42" in told
    assert "written" in told
    assert told.count(REFUSED) == 2
    assert notes_in(folder) == "bought milk\n"
    assert "notes://cover the note milk" in told
    assert "/results/notes-resources_read-1.png Sum up my notes in a short style." in told
    reads = ["notes.resources/read", "notes.prompts/get"]
    assert [request.get("uses") for request in asked] == [None, ["notes.write_note"], reads, None, None]
    assert "`servers.notes`" in model._prompts[0]


def test_one_tool_agent_declares_in_the_program(folder: Path, settings_of: Any) -> None:
    settings = settings_of(exec_seconds=120)
    program = f"{LINE}\nimport json\n{READ}\n{WRITE}\nprint(json.dumps({{'ok': True, 'answer': 'written'}}))"
    model = scripted({"go": [[ToolUse(name="execute_code", args={"code": program})]]}, Recording)
    parts = build_exec_parts(settings)
    try:
        agent = exec_graph.build_graph(model, checkpointer=InMemorySaver(), settings=settings, parts=parts)
        [request], messages = played(agent)
    finally:
        parts.close()
    assert request["uses"] == ["notes.write_note"]
    assert "42" in "\n".join(message.text for message in messages)
    assert notes_in(folder) == "bought milk\n"
    assert "`servers.notes`" in model._prompts[0]
