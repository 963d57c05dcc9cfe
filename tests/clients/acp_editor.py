"""An editor for tests: runs the real `code-agent acp` with the client library of the protocol."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from acp import schema, spawn_agent_process, text_block
from acp.client.connection import ClientSideConnection

from tests.clients.cli_program import PROGRAM, Program

Choose = Callable[[schema.ToolCallUpdate], str | None]


class Editor:
    """Keeps updates and requests. `choose` returns the option for a request; None cancels the turn."""

    def __init__(self, choose: Choose = lambda _: "approve") -> None:
        self.choose = choose
        self.updates: list[tuple[str, Any]] = []
        self.asked: list[tuple[schema.ToolCallUpdate, list[schema.PermissionOption]]] = []
        self.pid = 0
        self.agent: ClientSideConnection

    def on_connect(self, conn: Any) -> None:
        """Required by the protocol's client interface; `editing` sets the connection."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append((session_id, update))

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **_: Any,
    ) -> schema.RequestPermissionResponse:
        self.asked.append((tool_call, options))
        chosen = self.choose(tool_call)
        if chosen is None:
            await self.agent.cancel(session_id=session_id)
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def new(self, program: Program) -> str:
        return (await self.agent.new_session(cwd=str(program.folder), mcp_servers=[])).session_id

    async def prompt(self, session: str, text: str) -> str:
        return (await self.agent.prompt(session_id=session, prompt=[text_block(text)])).stop_reason

    def of(self, kind: str, session: str | None = None) -> list[Any]:
        """Return the updates of a kind, such as `tool_call`."""
        return [u for owner, u in self.updates if u.session_update == kind and session in (None, owner)]

    def said(self, session: str | None = None) -> str:
        return "".join(chunk.content.text for chunk in self.of("agent_message_chunk", session))

    def calls(self, session: str | None = None) -> dict[str, dict[str, Any]]:
        """Return each tool call with all its statuses and contents so far."""
        calls: dict[str, dict[str, Any]] = {}
        for owner, update in self.updates:
            if not update.session_update.startswith("tool_call") or session not in (None, owner):
                continue
            call = calls.setdefault(update.tool_call_id, {"statuses": [], "texts": [], "diffs": []})
            if update.title:
                call |= {"title": update.title, "kind": update.kind, "locations": update.locations}
            if update.status:
                call["statuses"].append(update.status)
            for part in update.content or ():
                if part.type == "content":
                    call["texts"].append(part.content.text)
                elif part.type == "diff":
                    call["diffs"].append(part)
        return calls

    def call(self, title: str, session: str | None = None) -> dict[str, Any]:
        """Return the only call whose title begins with `title`."""
        [found] = [call for call in self.calls(session).values() if call["title"].startswith(title)]
        return found

    async def until(self, seen: Callable[[], Any], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not seen():
            assert time.monotonic() < deadline, f"the expected update did not come: {self.updates}"
            await asyncio.sleep(0.02)


@asynccontextmanager
async def editing(program: Program, editor: Editor | None = None, *arguments: str) -> AsyncIterator[Editor]:
    """Start the agent and initialize the connection."""
    editor = editor or Editor()
    with (program.folder / "stderr").open("a") as log:
        async with spawn_agent_process(
            editor,  # type: ignore[arg-type]
            *PROGRAM,
            "acp",
            *arguments,
            cwd=program.folder,
            env=program.env,
            transport_kwargs={"stderr": log.fileno(), "limit": 50_000_000, "shutdown_timeout": 10.0},
        ) as (agent, process):
            editor.agent, editor.pid = agent, process.pid
            await agent.initialize(protocol_version=1)
            yield editor
