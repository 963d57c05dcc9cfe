"""Tokens that real MCP servers cost: as packages that an agent calls in code, and bound as tools.

The peer is a plain deep agent with the tools of `langchain-mcp-adapters`. Each tool has the name of its
server before its own. Scripted models do the same work: they read twenty files by a server, and add up the
amounts. The peer's model makes its twenty calls in one reply, which is the cheapest way. The model here first
reads the documentation of the function. A task counts all its requests, as a provider without a cache would.
Messages and schemas are counted as JSON, by the tokenizer of `o200k_base`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from pydantic import PrivateAttr

from agent import code_graph, graph
from agent.parts import build_backend
from agent.settings import load_settings
from libs.backends.docker import DockerExecutionBackend
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel, ToolUse
from tests.bench.bench_sandboxes import image
from tests.bench.measure import Figure
from tests.bench.peers.peer_environments import PeerFailed, node_folder, python_with

FILES = 20
TASK = "Add up the amounts in my notes."
COUNTS = (1, 5, 20)
_PROGRAM = Path(__file__).parents[1] / "peers" / "peer_tools_agent.py"
_PEER = ["deepagents==0.7.32", "langchain-mcp-adapters==0.3.2"]
_COUNTER = """
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
const texts = JSON.parse(await new Response(process.stdin).text());
console.log(JSON.stringify(texts.map((text) => countTokens(text))));
"""
_KEY = "no-key-of-a-service"
"""Stands in for the keys of services. The servers list their tools without a valid key."""

SERVERS: dict[str, tuple[str, Sequence[str]]] = {
    "filesystem": ("@modelcontextprotocol/server-filesystem@2026.8.31", ()),
    "memory": ("@modelcontextprotocol/server-memory@2026.8.31", ()),
    "git": ("", ()),
    "time": ("", ()),
    "github": ("@modelcontextprotocol/server-github@2025.4.8", ("GITHUB_PERSONAL_ACCESS_TOKEN",)),
    "everything": ("@modelcontextprotocol/server-everything@2026.8.31", ()),
    "sequential-thinking": ("@modelcontextprotocol/server-sequential-thinking@2026.8.31", ()),
    "gitlab": ("@modelcontextprotocol/server-gitlab@2025.4.25", ("GITLAB_PERSONAL_ACCESS_TOKEN",)),
    "slack": ("@modelcontextprotocol/server-slack@2025.4.25", ("SLACK_BOT_TOKEN", "SLACK_TEAM_ID")),
    "brave-search": ("@modelcontextprotocol/server-brave-search@0.6.2", ("BRAVE_API_KEY",)),
    "google-maps": ("@modelcontextprotocol/server-google-maps@0.6.2", ("GOOGLE_MAPS_API_KEY",)),
    "everart": ("@modelcontextprotocol/server-everart@0.6.2", ("EVERART_API_KEY",)),
    "context7-mcp": ("@upstash/context7-mcp@4.1.1", ()),
    "notion-mcp-server": ("@notionhq/notion-mcp-server@2.5.2", ("NOTION_TOKEN",)),
    "tavily-mcp": ("tavily-mcp@0.2.22", ("TAVILY_API_KEY",)),
    "firecrawl-mcp": ("firecrawl-mcp@3.26.0", ("FIRECRAWL_API_KEY",)),
    "exa-mcp-server": ("exa-mcp-server@3.4.1", ("EXA_API_KEY",)),
    "playwright-mcp": ("@playwright/mcp@0.0.83", ()),
    "chrome-devtools-mcp": ("chrome-devtools-mcp@1.11.0", ()),
    "mcp-hubspot": ("@hubspot/mcp-server@0.4.0", ("PRIVATE_APP_ACCESS_TOKEN",)),
}
"""The package of npm, and variables for keys. Without a package, the program is one of `.[dev]`."""


class _Recording(ScriptedChatModel):
    """Keeps its requests."""

    _requests: list[dict[str, Any]] = PrivateAttr(default_factory=list)

    def _next(self, messages: Sequence[BaseMessage]) -> AIMessage:
        sent = convert_to_openai_messages(messages)
        self._requests.append({"messages": sent, "tools": list(self.bound_tools)})
        return super()._next(messages)


def figures(root: Path) -> Iterator[Figure]:
    notes = root / "notes"
    notes.mkdir(parents=True)
    for number in range(FILES):
        (notes / f"{number}.txt").write_text(f"amount: {number}\n" + f"Line {number} of a note.\n" * 40)
    counter = node_folder("tokenizer", ["gpt-tokenizer@4.0.0"])
    servers = _servers(notes)
    for count in COUNTS:
        chosen = dict(list(servers.items())[:count])
        counted = {
            name: _tokens(counter, requests)
            for name, requests in {
                "sandbox": _deep(root / f"deep-{count}", chosen),
                "sandbox, code blocks": _code(root / f"code-{count}", chosen),
                "bound as tools": _peer(notes, chosen),
            }.items()
        }
        what = f"{count} MCP server{'s' if count > 1 else ''}"
        yield _figure(f"first request with {what}", {name: each[0] for name, each in counted.items()})
        yield _figure(f"{FILES} calls with {what}", {name: sum(each) for name, each in counted.items()})


def _figure(name: str, values: dict[str, int]) -> Figure:
    ours, theirs = values["sandbox"], values["bound as tools"]
    return Figure(
        name,
        "tokens",
        {key: float(value) for key, value in values.items()},
        "fewer than as tools",
        ours < theirs,
        note=f"{1 - ours / theirs:.0%} fewer",
    )


def _servers(notes: Path) -> dict[str, dict[str, Any]]:
    """Return the servers as in `.mcp.json`."""
    packages = [package for package, _ in SERVERS.values() if package]
    programs = node_folder("mcp-servers", packages) / "node_modules" / ".bin"
    found: dict[str, dict[str, Any]] = {}
    for name, (package, keys) in SERVERS.items():
        own = programs / name
        if not package:
            own = Path(sys.executable).with_name(f"mcp-server-{name}")
        elif not own.exists():
            own = programs / f"mcp-server-{name}"
        found[name] = {"command": str(own), "args": [], "env": dict.fromkeys(keys, _KEY)}
    found["filesystem"] |= {"args": [str(notes)], "free": ["read_text_file"]}
    return found


def _deep(root: Path, servers: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    read = "from servers import filesystem; help(filesystem.read_text_file)"
    calls = [f'python3 -c "{read}"', f"python3 - <<'END'\n{_program(servers)}\nEND"]
    replies = [Reply(tool_calls=(ToolUse(name="execute", args={"command": call}),)) for call in calls]
    return _requests(root, servers, replies, graph.build_graph)


def _code(root: Path, servers: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    read = "from servers.filesystem import read_text_file\nhelp(read_text_file)"
    blocks = [read, _program(servers)]
    replies = [Reply(text=f"```python\n{block}\n```") for block in blocks]
    return _requests(root, servers, replies, code_graph.build_graph)


def _program(servers: dict[str, dict[str, Any]]) -> str:
    folder = servers["filesystem"]["args"][0]
    return (
        "from servers.filesystem import read_text_file\n"
        f"notes = [read_text_file(path=f'{folder}/{{n}}.txt').content for n in range({FILES})]\n"
        "print(sum(int(note.split()[1]) for note in notes))"
    )


def _requests(
    root: Path, servers: dict[str, dict[str, Any]], replies: Sequence[Reply], build: Callable[..., Any]
) -> list[dict[str, Any]]:
    """Run an agent of the project. Return its requests to the model.

    Raises:
        AssertionError: the agent has not found the sum.
    """
    root.mkdir()
    config = root / ".mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    settings = load_settings(
        None, workspace_dir=root / "workspace", mcp_config=config, sandbox_image=image(), approvals="auto"
    )
    model = _Recording(conversations=(Conversation(replies=(*replies, Reply(text="Done."))),))
    backend = build_backend(settings)
    try:
        state = build(model, settings=settings, backend=backend).invoke({"messages": [("user", TASK)]})
    finally:
        cast("DockerExecutionBackend", backend.default).close()
    shown = "\n".join(message.text for message in state["messages"])
    assert re.search(rf"^{sum(range(FILES))}$", shown, re.MULTILINE), shown[-1000:]
    return model._requests


def _peer(notes: Path, servers: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    calls = [
        {"name": "filesystem_read_text_file", "args": {"path": str(notes / f"{number}.txt")}}
        for number in range(FILES)
    ]
    asked = {
        "servers": {
            name: {key: value for key, value in server.items() if key != "free"}
            for name, server in servers.items()
        },
        "task": TASK,
        "calls": calls,
    }
    done = subprocess.run(
        [python_with("tools-agent", _PEER), str(_PROGRAM)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode:
        raise PeerFailed(done.stderr.strip()[-1000:])
    requests: list[dict[str, Any]] = json.loads(done.stdout)
    return requests


def _tokens(counter: Path, requests: Sequence[dict[str, Any]]) -> list[int]:
    """Return the tokens of each request."""
    done = subprocess.run(
        ["node", "--input-type=module", "-e", _COUNTER],
        input=json.dumps([json.dumps(request, ensure_ascii=False) for request in requests]),
        capture_output=True,
        text=True,
        check=True,
        cwd=counter,
    )
    counted: list[int] = json.loads(done.stdout)
    return counted
