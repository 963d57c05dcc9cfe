"""The loop: the model writes code blocks, they run, it reads what they printed, until it answers in words.

What a model is sent is its opening (the system prompt) and the conversation: its replies, and after each the
outputs of its blocks as one user message. A run ends with a `status`: `completed`, `no_execution`,
`max_steps`, `error` (the same code failed three times), or a budget's; the text of its last message is never
empty.

On LangGraph's custom stream, besides what `live` sends: `{"type": "code", "id", "language", "code"}` when a
block begins, with `"granted"` where nobody was asked (see `Earlier`), and `{"type": "execution", "id", …}`
with the fields of `Execution` when it has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import RunnableLambda
from langgraph.config import get_config
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Checkpointer, Command

from libs.code_blocks import feedback
from libs.code_blocks.ending import ENDING, Ending, add_ending
from libs.code_blocks.execution import run_blocks
from libs.code_blocks.model import TextModel, ask_model
from libs.code_blocks.protocol import (
    BlockCall,
    BlockRunner,
    Earlier,
    Files,
    Gate,
    Live,
    Meter,
    Refused,
)
from libs.code_blocks.reader import MAX_REPLY, Block, Language, read_reply, without_thoughts
from libs.code_blocks.reply_end import first_block, imagined
from libs.code_blocks.state import CodeState, Input, Output
from libs.code_blocks.told import told_of_blocks
from libs.code_blocks.turn import approved_as, end_with, go, joined, kept, with_words
from libs.code_blocks.words_only import MAX_NUDGES, WordsOnly
from libs.middleware.told import told
from libs.sandbox.blocking import blocking

__all__ = ["CodeLoop"]

MAX_FAILURES = 3
"""Times the same code may fail in a run."""


class CodeLoop:
    """Builds the graph; keeps nothing of a run.

    Args:
        model: anything that answers text with text.
        runner: runs the blocks.
        opening: makes the messages before the conversation, once at the start of each run: the system
            prompt, and perhaps examples.
        files: what a run hands over, and an answer may speak of.
        meter: makes what counts a run, from what it has used so far (None: nothing).
        gate: asks a person about each reply's blocks; None: they run at once.
        ending: has a say when a run would end with the model's answer.
        live: makes what sends a block's output while it runs.
        one_block: end a reply with its first block, for small models: they go on to make up what it prints.
        errors: makes the context in which the model is called, which takes secrets out of its errors.
        max_steps: replies of the model in one run.
        shown_chars: characters of output that the model is shown after one reply.
    """

    def __init__(
        self,
        model: TextModel,
        runner: BlockRunner,
        *,
        opening: Callable[[], Awaitable[list[AnyMessage]]],
        meter: Callable[[Mapping[str, Any] | None], Meter],
        files: Files | None = None,
        gate: Gate | None = None,
        ending: Ending | None = None,
        live: Live = lambda key: nullcontext(),  # noqa: ARG005
        one_block: bool = False,
        errors: Callable[[], AbstractContextManager[None]] = nullcontext,
        max_steps: int = 10,
        shown_chars: int = 20_000,
    ) -> None:
        if max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, not {max_steps}")
        self._model = model
        self._runner = runner
        self._opening = opening
        self._meter = meter
        self._words_only = WordsOnly(files=files or Files(), ending=ending)
        self._gate = gate
        self._ending = ending
        self._live = live
        self._one_block = one_block
        self._errors = errors
        self._max_steps = max_steps
        self._shown_chars = shown_chars

    def graph(
        self, *, checkpointer: Checkpointer = None, name: str = "code_agent"
    ) -> CompiledStateGraph[Any, Any, Any, Any]:
        """The graph, for synchronous and asynchronous callers."""
        builder = StateGraph(CodeState, input_schema=Input, output_schema=Output)
        builder.add_node("begin", _node(self._begin))
        ends = (ENDING, END) if self._ending else (END,)
        builder.add_node("model", _node(self._reply), destinations=("model", "approve", *ends))
        builder.add_node("approve", _node(self._approve))
        builder.add_node("run", _node(self._run), destinations=("model", END))
        builder.add_edge(START, "begin")
        builder.add_edge("begin", "model")
        builder.add_edge("approve", "run")
        if self._ending:
            add_ending(builder, self._ending)
        graph = builder.compile(checkpointer=checkpointer, name=name)
        return graph.with_config(recursion_limit=4 * self._max_steps + 10)

    async def _begin(self, state: CodeState) -> dict[str, Any]:
        if self._gate:
            self._gate.require()
        messages = state.get("messages") or []
        task = messages[-1].text if messages else ""
        return {
            "status": None,
            "executions": [],
            "opening": await self._opening(),
            "task": task,
            "steps": 0,
            "nudges": 0,
            "approved": [],
            "cut_off": False,
            "run_budget": self._meter(None).spent(),
        }

    async def _reply(self, state: CodeState) -> Command[Literal["model", "approve", "__end__"]]:
        """Ask the model, and decide what its reply is: code, an answer, or neither."""
        meter = self._meter(state["run_budget"])
        if over := meter.take_call():
            return end_with(over, meter, AIMessage(meter.budget.explain(over)))
        request = joined(state["opening"], state["messages"])
        with meter.working(), self._errors():
            try:
                async with asyncio.timeout(meter.remaining()) as deadline:
                    reply, tokens = await ask_model(self._model, request, end=self._end)
            except TimeoutError:
                if not deadline.expired():
                    raise
                return end_with("budget_seconds", meter, AIMessage(meter.budget.explain("budget_seconds")))
        meter.add_tokens(tokens)
        text = without_thoughts(reply.text)
        reading = read_reply(text)
        reply = reply.model_copy(update={"content": kept(text)})
        steps = state["steps"] + 1
        if reading.blocks:
            if over := meter.reached():
                return end_with(over, meter, with_words(reply, meter.budget.explain(over)))
            grants = state.get("grants") or {}
            return go("approve", meter, reply, steps=steps, grants_at_reply=grants)
        objection = await self._words_only.objection(state, reply, reading, text)
        if objection is None:
            to = ENDING if self._ending else END
            return go(to, meter, reply, steps=steps, status="completed")
        if state["nudges"] >= MAX_NUDGES:
            status = "no_execution"
        elif steps >= self._max_steps:
            status = "max_steps"
        else:
            nudges = state["nudges"] + 1
            return go("model", meter, reply, told(objection), steps=steps, nudges=nudges)
        executions = state.get("executions") or []
        last = executions[-1] if executions else None
        words = feedback.closing(status, steps=steps, nudges=state["nudges"], last=last)
        return end_with(status, meter, with_words(reply, words), steps=steps)

    def _end(self, reply: str) -> int | None:
        """Where a reply stops being the model's own turn; None: nowhere yet."""
        found = first_block(reply) if self._one_block else imagined(reply)
        # Some servers set no limit: a model can go on for ever.
        if found is None and len(reply) > MAX_REPLY and len(without_thoughts(reply)) > MAX_REPLY:
            return len(reply)
        return found

    async def _approve(self, state: CodeState) -> dict[str, Any]:
        """Put the blocks of the reply before a person. What comes out of it is what runs."""
        reply = state["messages"][-1]
        blocks = read_reply(reply.text).blocks
        calls = [BlockCall(block, f"{reply.id}/{index}") for index, block in enumerate(blocks)]
        decisions: Sequence[Block | Earlier | Refused] = [call.block for call in calls]
        if self._gate:
            grants, at_reply = state.get("grants") or {}, state.get("grants_at_reply") or {}
            decisions = self._gate.ask(calls, grants=grants, at_reply=at_reply)
        return {"approved": [approved_as(*each) for each in zip(calls, decisions, strict=True)]}

    async def _run(self, state: CodeState) -> Command[Literal["model", "__end__"]]:
        """Run the approved blocks in order, up to the first that fails; tell the model what they printed.

        Executed again after a kill, it gives the recorded results of blocks that had begun and begins no
        other: those were written, and approved, for the variables and the directory of the ones before.
        """
        meter = self._meter(state["run_budget"])
        approved = state.get("approved") or []
        # A run without a thread is one of its own: its first message tells it from every other.
        thread = str(get_config()["configurable"].get("thread_id") or state["messages"][0].id)
        before = state.get("executions") or []
        begun = await self._runner.begun([each["key"] for each in approved])
        ran = await run_blocks(
            approved, before, runner=self._runner, live=self._live, thread=thread, meter=meter, begun=begun
        )
        said = feedback.outputs(
            [Block(cast("Language", each["language"]), each["code"]) for each in approved],
            ran.outcomes,
            read_reply(state["messages"][-1].text),
            repeats=ran.repeats,
            limit=self._shown_chars,
            cut_off=bool(begun),
        )
        executions = ran.executions
        update: dict[str, Any] = {"executions": executions, "nudges": 0, "cut_off": bool(begun)}
        last = executions[-1] if executions else None
        message = told_of_blocks(said, approved, ran.outcomes)
        status = ran.over
        if not status and last and last["exit_code"] and ran.repeats + 1 >= MAX_FAILURES:
            status = "error"
        if not status and state["steps"] >= self._max_steps:
            status = "max_steps"
        if not status:
            return go("model", meter, message, **update)
        words = (
            meter.budget.explain(ran.over)
            if ran.over
            else feedback.closing(status, steps=state["steps"], nudges=0, last=last)
        )
        return end_with(status, meter, message, AIMessage(words), **update)


def _node(
    node: Callable[[CodeState], Coroutine[Any, Any, Any]],
) -> RunnableLambda[CodeState, Any]:
    return RunnableLambda(blocking(node), afunc=node)
