"""Whether words are the answer: what is said to a reply without code that can run."""

from __future__ import annotations

from typing import Any, NamedTuple

from langchain_core.messages import AIMessage

from libs.code_blocks import feedback
from libs.code_blocks.ending import Ending
from libs.code_blocks.grounds import doubtful
from libs.code_blocks.need import Need
from libs.code_blocks.protocol import Files
from libs.code_blocks.questions import Questions, wants_code
from libs.code_blocks.reader import Reading
from libs.code_blocks.state import CodeState
from libs.code_blocks.turn import need_in

__all__ = ["MAX_NUDGES", "Objection", "Words"]

MAX_NUDGES = 3
"""Replies in a row without code that are answered with a request for it."""
_CUT_OFF = {"length", "max_tokens", "MAX_TOKENS"}
"""What providers call it, under one name or another, when a reply was longer than the model may write."""


_STEPS_FOR_A_QUESTION = 2
"""One for its code, one for the answer."""


class Objection(NamedTuple):
    """Why a reply is not the answer yet."""

    said: str
    update: dict[str, Any]
    """Of the state."""
    forget: bool
    """Whether the reply is not sent again: shown what it has made up, a small model says it again."""


class Words:
    """Judges replies in words; keeps nothing of a run. The arguments are those of `CodeLoop`."""

    def __init__(self, *, files: Files, ending: Ending | None, guided: bool) -> None:
        self._files = files
        self._ending = ending
        self._guided = guided

    async def objection(
        self,
        state: CodeState,
        reply: AIMessage,
        reading: Reading,
        text: str,
        *,
        kept_back: bool,
        ran_on: bool,
        left: int,
    ) -> Objection | None:
        """What to say to a reply; None where it is the answer.

        Args:
            state: before the reply.
            reply: as the conversation keeps it.
            reading: what was found in `text`.
            text: of the reply, without thoughts.
            kept_back: whether it has blocks that hold a secret.
            ran_on: whether it was ended because it ran on.
            left: replies that the run may still have.
        """
        executions = state.get("executions") or []
        last = executions[-1] if executions else None
        refused = any(each["refused"] is not None for each in state.get("approved") or [])
        forget, update = ran_on, dict[str, Any]()
        said = (
            feedback.WITHHELD
            if kept_back
            else feedback.RUNS_ON
            if ran_on
            else feedback.nudge(
                reading,
                text,
                cut_off=not _CUT_OFF.isdisjoint(map(str, reply.response_metadata.values())),
                ran=last is not None,
                failed=last is not None
                and last["exit_code"] != 0
                and not refused
                and not state.get("cut_off"),
                asked=state["nudges"] > 0,
                need=Need.NONE if last is not None or refused else need_in(state, text),
            )
        )
        replies = [message.text for message in state["messages"] if isinstance(message, AIMessage)]
        in_vain = replies[-1:] == [reply.text]
        # Once only, unless it is not answered at all: the task may be to remove one.
        looked = said is None and last and not refused and (not state["nudges"] or in_vain)
        if looked and (absent := await self._files.absent(f"{state['task']}\n{text}")):
            said, forget = feedback.missing(absent, await self._files.made()), self._guided
        questions = Questions.of(state, executions, guided=self._guided)
        if said is None and last and questions.pending and state["nudges"] < MAX_NUDGES:
            # Answered without code, it is put once more: what was printed before need not answer it.
            then = questions.next() if state["nudges"] else (questions.again(), questions.put)
            if state["nudges"] == MAX_NUDGES - 1 or left < _STEPS_FOR_A_QUESTION:
                then = questions.whole()
            if then and left > 0:
                said, update["questioned"] = then
        elif said is None and self._guided and last and not refused and not state["nudges"]:
            said = doubtful(text, state)
        if said is None and self._ending and not in_vain and state["nudges"] < MAX_NUDGES:
            said = await self._ending.objections()
        if said is None:
            return None
        return Objection(said, {**update, "ran_on": ran_on, "code_due": wants_code(said)}, forget)
