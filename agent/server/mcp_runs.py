"""Runs for clients of `/mcp`, in threads of LangGraph's server: its routes, the page and Studio know them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

import anyio
import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from agent.server.mcp_tools import Outcome

__all__ = ["NoSuchThread", "ThreadBusy", "how_it_stands", "run_in"]

_TICK_SECONDS = 5.0
_CANCEL_SECONDS = 10.0
_STOPPED = "It was stopped before its end. Call again with the thread_id and an input to go on."

Tick = Callable[[float], Awaitable[None]]
"""Told, now and then, for how many seconds the run has been going on."""


class NoSuchThread(Exception):
    """There is no thread of this id, or it is somebody else's, or another agent's."""


class ThreadBusy(Exception):
    """Another run is going on in the thread."""


@functools.cache
def _server() -> LangGraphClient:
    """The server that this is part of: requests go through no socket, and need no token."""
    return get_client(url=None, api_key=None)


async def how_it_stands(graph: str, thread_id: str, owner: str | None) -> Outcome:
    """What came of a thread so far, or what it waits for.

    Raises:
        NoSuchThread: it is not there for this owner and agent.
    """
    try:
        thread = await _server().threads.get(thread_id)
    except httpx.HTTPStatusError as error:
        if error.response.status_code == HTTPStatus.NOT_FOUND:
            raise NoSuchThread from error
        raise
    metadata = thread.get("metadata") or {}
    if (owner and metadata.get("owner") != owner) or metadata.get("graph_id") not in (None, graph):
        raise NoSuchThread
    if thread["status"] == "busy":
        return Outcome(graph, thread_id, "running", "It is at work: ask again later.")
    return await _outcome(graph, thread_id)


async def _outcome(graph: str, thread_id: str) -> Outcome:
    """How a thread stands in which nothing runs."""
    state = await _server().threads.get_state(thread_id)
    values: Mapping[str, Any] = state["values"] if isinstance(state["values"], dict) else {}
    interrupts = [{"id": each["id"], "value": each["value"]} for each in state["interrupts"]]
    if interrupts:
        return Outcome(graph, thread_id, "interrupted", _last_words(values), interrupts)
    if state["next"]:  # it ended before its end
        errors = [str(task["error"]) for task in state["tasks"] if task["error"]]
        return Outcome(graph, thread_id, "error", "; ".join(errors) or _STOPPED)
    return Outcome(graph, thread_id, values.get("status") or "completed", _last_words(values))


async def run_in(graph: str, thread_id: str | None, task: str, owner: str | None, tick: Tick) -> Outcome:
    """Carry out a task to its end, or to a question.

    Whoever waits for this and is cancelled, since the client has gone, stops the run and the command in it.

    Args:
        thread_id: an existing thread of this owner; None: a new one.
        owner: whose a new thread is to be.

    Raises:
        ThreadBusy: another run is going on in it.
    """
    with anyio.CancelScope(shield=True):  # a run that was made must be known, to be stopped
        thread, run = await _begun(graph, thread_id, task, owner)
    ticking = asyncio.create_task(_tick(tick))
    try:
        result: Any = await _server().runs.join(thread, run)
    except asyncio.CancelledError:
        with anyio.move_on_after(_CANCEL_SECONDS, shield=True):
            await _server().runs.cancel(thread, run, wait=True)
        raise
    finally:
        ticking.cancel()
    if isinstance(result, dict) and "__error__" in result:
        return Outcome(graph, thread, "error", _reason(result["__error__"]))
    return await _outcome(graph, thread)


async def _begun(graph: str, thread_id: str | None, task: str, owner: str | None) -> tuple[str, str]:
    """The ids of the thread and of the run that was begun in it."""
    if thread_id is None:
        metadata = {"owner": owner} if owner else {}
        thread_id = (await _server().threads.create(metadata=metadata, graph_id=graph))["thread_id"]
    given: Any = {"messages": [{"role": "user", "content": task}]}
    try:
        run = await _server().runs.create(
            thread_id,
            graph,
            input=given,
            multitask_strategy="reject",
            durability="sync",
        )
    except httpx.HTTPStatusError as error:
        if error.response.status_code == HTTPStatus.CONFLICT:
            raise ThreadBusy from error
        raise
    return thread_id, run["run_id"]


async def _tick(tick: Tick) -> None:
    seconds = 0.0
    while True:
        await asyncio.sleep(_TICK_SECONDS)
        seconds += _TICK_SECONDS
        await tick(seconds)


def _last_words(values: Mapping[str, Any]) -> str:
    for message in reversed(values.get("messages") or []):
        if message.get("type") == "ai":
            content = message.get("content")
            if isinstance(content, str):
                return content
            return "".join(part.get("text", "") for part in content or () if part.get("type") == "text")
    return ""


def _reason(error: Any) -> str:
    if isinstance(error, dict):
        return str(error.get("message") or error.get("error") or "The run failed.")
    return str(error)
