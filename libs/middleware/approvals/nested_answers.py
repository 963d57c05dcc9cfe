"""Take answers in a graph that is a node of another graph, which knows nothing of approvals.

The other graph hands an answer to the gate as it was sent. Without an id, LangGraph also keeps the answer at
the outermost checkpoint, where a later question could take it. So the saved copy is removed before the nested
graph goes on, and the gate takes an answer only for a question that waited when the run began.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from libs.middleware.approvals.question import question_key
from libs.private_names import (
    CONFIG_KEY_CHECKPOINT_MAP,
    CONFIG_KEY_CHECKPOINTER,
    CONFIG_KEY_DURABILITY,
    CONFIG_KEY_SCRATCHPAD,
    CONFIG_KEY_TASK_ID,
    INTERRUPT,
    NULL_TASK_ID,
    RESUME,
)

__all__ = ["ANSWER_READER", "AnswerReader", "areader", "is_nested", "patched", "reader"]

ANSWER_READER = "__approvals_answer_reader"
"""Key in `configurable` of the reader. Absent where the outermost graph checks the answers."""

AnswerReader = Callable[[Any, Mapping[str, Any]], Mapping[str, Any]]
"""Answer as it was sent, question -> decisions or error, as `AddressedGraph` hands them to the gate."""

_REMOVED = [(RESUME, None)]

_SAVED_SECONDS = 2.0
"""LangGraph saves an answer while the run goes on. Most seconds to wait until the answer is saved."""


def is_nested(config: RunnableConfig | None) -> bool:
    """Return whether a node of another graph starts a graph with this config."""
    return CONFIG_KEY_TASK_ID in ensure_config(config)["configurable"]


def patched(config: RunnableConfig | None, reader: AnswerReader) -> RunnableConfig:
    """Return the config with a reader for the gate."""
    # Only `configurable`: the other defaults of `ensure_config` would hide the graph's recursion limit.
    configurable = {**ensure_config(config)["configurable"], ANSWER_READER: reader}
    return {**(config or {}), "configurable": configurable}


def reader(config: RunnableConfig | None, read: AnswerReader) -> AnswerReader:
    """Return the reader of a nested run, after the saved copy of its answer was removed.

    `read` reads the answer to a question that waited when the run began. Other answers get an error.
    """
    saver, root, answer = _origin(config)
    if saver is None:
        return _reader(None, read)
    saved = saver.get_tuple(root)
    deadline = time.monotonic() + _SAVED_SECONDS
    while saved and answer is not None and time.monotonic() < deadline:
        if _keeps(saved, answer):
            saver.put_writes(saved.config, _REMOVED, NULL_TASK_ID)
            break
        time.sleep(0.01)
        saved = saver.get_tuple(root)
    return _reader(saved, read)


async def areader(config: RunnableConfig | None, read: AnswerReader) -> AnswerReader:
    """As `reader`."""
    saver, root, answer = _origin(config)
    if saver is None:
        return _reader(None, read)
    saved = await saver.aget_tuple(root)
    deadline = time.monotonic() + _SAVED_SECONDS
    while saved and answer is not None and time.monotonic() < deadline:
        if _keeps(saved, answer):
            await saver.aput_writes(saved.config, _REMOVED, NULL_TASK_ID)
            break
        await asyncio.sleep(0.01)
        saved = await saver.aget_tuple(root)
    return _reader(saved, read)


def _origin(
    config: RunnableConfig | None,
) -> tuple[BaseCheckpointSaver[Any] | None, RunnableConfig, Any]:
    """Return the saver, the outermost checkpoint's config, and the answer without id that is kept there."""
    given = ensure_config(config)["configurable"]
    saver = given.get(CONFIG_KEY_CHECKPOINTER)
    root: RunnableConfig = {"configurable": {"thread_id": given.get("thread_id"), "checkpoint_ns": ""}}
    if checkpoint := (given.get(CONFIG_KEY_CHECKPOINT_MAP) or {}).get(""):
        root["configurable"]["checkpoint_id"] = checkpoint
    # With the durability "exit" LangGraph saves at the end, and no answer that was taken.
    late = given.get(CONFIG_KEY_DURABILITY) == "exit"
    answer = None if late else given[CONFIG_KEY_SCRATCHPAD].get_null_resume(False)
    return saver if isinstance(saver, BaseCheckpointSaver) else None, root, answer


def _keeps(saved: CheckpointTuple, answer: Any) -> bool:
    return (NULL_TASK_ID, RESUME, answer) in [tuple(write) for write in saved.pending_writes or ()]


def _reader(saved: CheckpointTuple | None, read: AnswerReader) -> AnswerReader:
    waited = {
        question_key(interrupt.value)
        for _, channel, interrupts in (saved.pending_writes if saved else None) or ()
        if channel == INTERRUPT
        for interrupt in interrupts
        if isinstance(interrupt.value, dict) and "action_requests" in interrupt.value
    }

    def checked_answer(answer: Any, question: Mapping[str, Any]) -> Mapping[str, Any]:
        if question_key(question) not in waited:
            return {"error": "this answer was sent before the question: decide again."}
        return read(answer, question)

    return checked_answer
