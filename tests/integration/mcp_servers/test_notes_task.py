"""A task over two public MCP servers, in each agent: read notes, store sums, write a table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from langchain_core.messages import AnyMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent import code_graph, exec_graph, graph
from agent.parts import build_backend, servers_of
from agent.parts.exec_parts import build_exec_parts
from agent.settings import Settings, load_settings
from libs.backends.docker import DockerExecutionBackend
from libs.models.scripted_model import ToolUse
from tests.integration.mcp_servers.played_agents import Recording, played
from tests.servers.mcp_servers.public_servers import installed_from_npm
from tests.support.gated_agents import scripted
from tests.support.sandboxes import IMAGE

pytestmark = [
    pytest.mark.docker,
    pytest.mark.thorough,
    pytest.mark.timeout(600),
]

TOKEN = "sk-memory-0123456789abcdef"
NOTES = {
    "may.md": "invoice 17: 120 EUR\ninvoice 18: 30 EUR\n",
    "milk.md": "buy milk\n",
    "june.md": "invoice 19: 7 EUR",
}
PROGRAM = """\
# uses: memory.create_entities
import json, os, re
from pathlib import Path
folder, secret = {folder!r}, {reversed!r}[::-1].encode()
from servers.filesystem import list_directory, read_text_file
from servers.memory import create_entities

sums = {}
for name in re.findall(r"\\[FILE\\] (\\S+)", list_directory(path=folder).content):
    text = read_text_file(path=f"{folder}/{name}").content
    if "invoice" in text:
        sums[name] = sum(map(int, re.findall(r"(\\d+) EUR", text)))
kept = [{"name": n, "entityType": "note", "observations": [f"{s} EUR"]} for n, s in sums.items()]
create_entities(entities=kept)
rows = [f"| {name} | {total} |" for name, total in sorted(sums.items())]
Path("/results/invoices.md").write_text("\\n".join(["| note | sum |", "|---|---|", *rows]))

places = [path for top in ("/servers", "/workspace/", "/tmp", "/results") for path in Path(top).rglob("*")]
places += [path for process in ("self", os.getppid()) for path in Path(f"/proc/{process}").glob("environ")]
files = [path for path in places if path.is_file() and os.access(path, os.R_OK)]
found = [str(path) for path in files if secret in path.read_bytes()]
print(json.dumps({"ok": True, "sums": sums, "found": found, "searched": len(places) > 5}))
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notes-task")
    programs = installed_from_npm(folder / "npm", "filesystem", "memory")
    (folder / "notes").mkdir()
    for name, text in NOTES.items():
        (folder / "notes" / name).write_text(text)
    memory = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl"), "MEMORY_TOKEN": TOKEN}
    servers = {
        "filesystem": {"command": f"{programs}/mcp-server-filesystem", "args": [str(folder / "notes")]},
        "memory": {"command": f"{programs}/mcp-server-memory", "env": memory},
    }
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return folder / ".mcp.json"


def in_workspace(model: Any, settings: Settings, build: Any) -> tuple[list[dict[str, Any]], list[AnyMessage]]:
    backend = build_backend(settings)
    try:
        agent = build(model, checkpointer=InMemorySaver(), settings=settings, backend=backend)
        return played(agent)
    finally:
        cast("DockerExecutionBackend", backend.default).close()


def deep(program: str, settings: Settings) -> Any:
    run = ToolUse(
        name="execute", args={"command": f"{program.splitlines()[0]}\npython3 - <<'E'\n{program}\nE"}
    )
    model = scripted({"go": [[run], "done"]}, Recording)
    return model, *in_workspace(model, settings, graph.build_graph)


def code(program: str, settings: Settings) -> Any:
    model = scripted({"go": [f"I run this.\n```python\n{program}\n```", "Done."]}, Recording)
    return model, *in_workspace(model, settings, code_graph.build_graph)


def one_tool(program: str, settings: Settings) -> Any:
    model = scripted({"go": [[ToolUse(name="execute_code", args={"code": program})]]}, Recording)
    parts = build_exec_parts(settings)
    try:
        agent = exec_graph.build_graph(model, checkpointer=InMemorySaver(), settings=settings, parts=parts)
        return model, *played(agent)
    finally:
        parts.close()


@pytest.mark.parametrize("run", [deep, code, one_tool])
def test_sums_of_notes_are_stored_after_a_question_that_names_the_tool(
    run: Callable[[str, Settings], Any], config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings(
        None,
        workspace_dir=tmp_path / "workspace",
        mcp_config=config,
        sandbox_image=IMAGE,
        sandbox_warm=0,
        exec_seconds=120,
    )
    stored = config.parent / "memory.jsonl"
    stored.unlink(missing_ok=True)
    folder = str(config.parent / "notes")
    program = PROGRAM.replace("{folder!r}", repr(folder)).replace("{reversed!r}", repr(TOKEN[::-1]))
    try:
        model, [request], messages = run(program, settings)
    finally:
        if servers := servers_of(settings):
            servers.close()
    told = "\n".join(message.text for message in messages)
    assert request["uses"] == ["memory.create_entities"]
    assert request["description"].index("memory.create_entities") < request["description"].index(
        "import json"
    )
    assert '"sums": {"june.md": 7, "may.md": 150}' in told
    assert '"found": [], "searched": true' in told
    assert "150 EUR" in stored.read_text()
    lines = [line for line in model._prompts[0].splitlines() if line.startswith("- `servers.")]
    assert len(lines) == 2
    texts = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(TOKEN.encode() in text for text in texts)
