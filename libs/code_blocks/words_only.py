"""Decide whether a reply without code is the answer, or what the model is told instead."""

from __future__ import annotations

from langchain_core.messages import AIMessage

from libs.code_blocks import feedback
from libs.code_blocks.ending import Ending
from libs.code_blocks.protocol import Files
from libs.code_blocks.reader import Reading
from libs.code_blocks.state import CodeState

__all__ = ["MAX_NUDGES", "WordsOnly"]

MAX_NUDGES = 3
"""Replies in a row without code after which the run ends with `no_execution`."""
_CUT_OFF = {"length", "max_tokens", "MAX_TOKENS"}
"""The finish reasons of providers for a reply that reached its greatest length."""


class WordsOnly:
    """Judges replies without code. Keeps nothing of a run. The arguments are those of `CodeLoop`."""

    def __init__(self, *, files: Files, ending: Ending | None) -> None:
        self._files = files
        self._ending = ending

    async def objection(self, state: CodeState, reply: AIMessage, reading: Reading, text: str) -> str | None:
        """What to tell the model; None where the reply is the answer.

        Args:
            state: before the reply.
            reply: as the conversation keeps it.
            reading: what was found in `text`; it has no blocks.
            text: of the reply, without thoughts.
        """
        executions = state.get("executions") or []
        last = executions[-1] if executions else None
        refused = any(each["refused"] is not None for each in state.get("approved") or [])
        said = feedback.nudge(
            reading,
            text,
            cut_off=not _CUT_OFF.isdisjoint(map(str, reply.response_metadata.values())),
            # Code that a person refused, or that was cut off, counts: the model has written some.
            ran=last is not None or bool(state.get("approved")),
            failed=last is not None and last["exit_code"] != 0 and not refused and not state.get("cut_off"),
            asked=state["nudges"] > 0,
        )
        replies = [message.text for message in state["messages"] if isinstance(message, AIMessage)]
        repeated = replies[-1:] == [reply.text]
        # Asked about once, unless the reply is only repeated: the task may be to remove the file.
        look = said is None and last is not None and not refused and (not state["nudges"] or repeated)
        if look and (absent := await self._files.absent(f"{state['task']}\n{text}")):
            said = feedback.missing(absent, await self._files.made())
        if said is None and self._ending and not repeated and state["nudges"] < MAX_NUDGES:
            said = await self._ending.objections()
        return said
