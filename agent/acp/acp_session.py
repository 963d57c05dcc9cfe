"""One session of an editor: carries out its turns and asks for approvals."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from acp.exceptions import RequestError
from acp.helpers import SessionUpdate, update_agent_message_text
from acp.interfaces import Client
from acp.schema import PermissionOption, StopReason, ToolCallUpdate

from agent.acp.acp_errors import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, as_request_errors
from agent.acp.replayed_thread import last_calls, replayed
from agent.acp.tool_calls import host_path, kind_of, locations, proposed, title_of
from agent.acp.updates import Updates
from agent.listing import absent_line
from agent.run import Approval, Event, Runtime, carry_out
from agent.threads import held

__all__ = ["Session"]

_FLUSH_SECONDS = 0.1
_SCOPES: Mapping[str, str] = {"approve": "call", "approve_command": "command", "approve_tool": "tool"}
_REJECT = "reject"
_STOP: Mapping[str, StopReason] = {
    "max_steps": "max_turn_requests",
    "budget_calls": "max_turn_requests",
    "budget_seconds": "max_turn_requests",
    "budget_tokens": "max_tokens",
}
_REJECTED = "You rejected this call: it was not run."
_UNDONE = "You undid what this call did."
_STOPPED = "It was not run, or not to its end."


class Session:
    """A session, which is one thread.

    Args:
        folder: the folder on this machine with the files of the thread; None if there is none.
    """

    def __init__(self, session_id: str, runtime: Runtime, client: Client, folder: Path | None) -> None:
        self._id = session_id
        self._runtime = runtime
        self._client = client
        self._on_host = host_path(str(folder.absolute()) if folder else None)
        self._running: asyncio.Task[StopReason] | None = None
        self._cancelled = False
        self._answer_first = False
        """Whether calls waited for approval when this session was loaded."""

    async def load(self) -> None:
        """Send the messages and calls of the thread to the editor.

        Raises:
            RequestError: the thread cannot be read.
        """
        with as_request_errors():
            run = await self._runtime.run(self._id, pending=True)
            state = await run.state()
        for update in replayed(state.values.get("messages", []), self._on_host):
            await self._send(update)
        self._answer_first = bool(state.interrupts)

    async def turn(self, task: str) -> StopReason:
        """Carry out `task`; the editor asks the person for approvals.

        Calls that waited when the session was loaded are asked for first. Calls of a cancelled turn are not:
        the next task drops them.

        Raises:
            RequestError: the task could not be carried out; the message says why and what to do.
        """
        if self._running is not None:
            raise RequestError(
                INVALID_REQUEST, "A turn of this session is still running: wait for its end, or cancel it."
            )
        self._cancelled = False
        self._running = asyncio.create_task(self._carry_out(task))
        try:
            return await self._running
        except asyncio.CancelledError:
            if self._cancelled:
                return "cancelled"
            raise  # the editor has gone
        finally:
            self._running = None

    def cancel(self) -> None:
        """Stop the turn and its command, if there is a turn."""
        if self._running is not None:
            self._cancelled = True
            self._running.cancel()

    async def _carry_out(self, task: str) -> StopReason:
        with as_request_errors():
            async with held(self._id):
                await self._runtime.check(await self._runtime.agent(self._id))
                updates = Updates(self._on_host)
                flushing = asyncio.create_task(self._flush(updates))
                try:
                    return await self._until_end(updates, task)
                finally:
                    flushing.cancel()
                    with suppress(ConnectionError):  # the editor has gone
                        for update in updates.close_all(_STOPPED):
                            await self._send(update)

    async def _until_end(self, updates: Updates, task: str) -> StopReason:
        async def show(event: Event) -> None:
            for update in updates.of(event):
                await self._send(update)

        async def ask(approval: Approval) -> list[dict[str, Any]]:
            return await self._ask(approval, updates)

        if self._answer_first:
            run = await self._runtime.run(self._id, pending=True)
            state = await run.state()
            updates.recall(last_calls(state.values.get("messages", [])))
            await carry_out(run, None, show=show, decide=ask)
        self._answer_first = False
        run = await self._runtime.run(self._id)
        result = await carry_out(run, run.begin(task), show=show, decide=ask)
        if result.absent_paths:
            lines = "\n".join(map(absent_line, result.absent_paths))
            await self._send(update_agent_message_text(f"\n\n{lines}"))
        if result.status == "error":
            raise RequestError(INTERNAL_ERROR, result.text or "The run ended with an error.")
        return _STOP.get(result.status, "end_turn")

    async def _ask(self, approval: Approval, updates: Updates) -> list[dict[str, Any]]:
        """Return a decision for each call of an approval, in order, with the digest of the call."""
        decisions: list[dict[str, Any]] = []
        once = approval.question.get("scopes") == ["call"]
        for request in approval.question["action_requests"]:
            call_id = str(request.get("id") or request["digest"])
            for update in updates.asked(call_id, request["name"], request["args"]):
                await self._send(update)
            chosen = await self._permission(call_id, request, once=once)
            if chosen == _REJECT:
                decisions.append({"type": "reject", "digest": request["digest"]})
                said = _UNDONE if "effect" in request else _REJECTED
                await self._send(updates.end(call_id, "failed", [said]))
            else:
                decisions.append({"type": "approve", "scope": _SCOPES[chosen], "digest": request["digest"]})
                if once:  # such a call is not a tool call: no other event ends it
                    await self._send(updates.end(call_id, "completed"))
        return decisions

    async def _permission(self, call_id: str, request: Mapping[str, Any], *, once: bool) -> str:
        """Return the option that the person chose.

        Raises:
            CancelledError: the person cancelled the turn.
            RequestError: the editor cannot ask, or returned an unknown option.
        """
        name, args = request["name"], request["args"]
        call = ToolCallUpdate(
            tool_call_id=call_id,
            title=title_of(name, args),
            kind=kind_of(name),
            status="pending",
            content=proposed(name, args, self._on_host, request["description"]),
            locations=locations(args, self._on_host),
            raw_input=args,
        )
        made = _options_after(name) if "effect" in request else _options(name)
        options = [each for each in made if not once or each.kind != "allow_always"]
        try:
            outcome = (await self._client.request_permission(self._id, call, options)).outcome
        except RequestError as error:
            raise RequestError(
                INTERNAL_ERROR,
                f"The editor could not ask for the approval of {name}, so it was not run: {error}",
            ) from error
        if outcome.outcome == "cancelled":
            self._cancelled = True
            raise asyncio.CancelledError
        if outcome.option_id not in {option.option_id for option in options}:
            raise RequestError(
                INVALID_PARAMS, f"{outcome.option_id!r} is not one of the options: {name} was not run."
            )
        return outcome.option_id

    async def _flush(self, updates: Updates) -> None:
        """Send delayed output of commands."""
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            while update := updates.due():
                await self._send(update)

    async def _send(self, update: SessionUpdate) -> None:
        await self._client.session_update(self._id, update)


def _options(tool: str) -> list[PermissionOption]:
    return [
        PermissionOption(option_id="approve", name="Approve once", kind="allow_once"),
        PermissionOption(
            option_id="approve_command",
            name="Approve exactly this, for the rest of this session",
            kind="allow_always",
        ),
        PermissionOption(
            option_id="approve_tool",
            name=f"Approve every call of {tool}, for the rest of this session",
            kind="allow_always",
        ),
        PermissionOption(option_id=_REJECT, name="Reject", kind="reject_once"),
    ]


def _options_after(tool: str) -> list[PermissionOption]:
    """Return the options for a call that has run already."""
    names = {
        "approve": "Keep what it did",
        "approve_command": "Keep it, and do not ask about exactly this again in this session",
        "approve_tool": f"Keep it, and do not ask about any call of {tool} again in this session",
        _REJECT: "Undo what it did",
    }
    return [each.model_copy(update={"name": names[each.option_id]}) for each in _options(tool)]
