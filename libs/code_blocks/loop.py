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
from contextlib import nullcontext
from types import MappingProxyType
from typing import Any, Literal, cast
from uuid import uuid4

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langgraph.config import get_config
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Checkpointer, Command

from libs.code_blocks import feedback
from libs.code_blocks.afresh import failed_turns, sent
from libs.code_blocks.ending import ENDING, Ending, add_ending
from libs.code_blocks.execution import repeated, run_blocks
from libs.code_blocks.model import TextModel, ask_model
from libs.code_blocks.need import speaks_of
from libs.code_blocks.protocol import (
    BlockCall,
    BlockRunner,
    Earlier,
    Execution,
    Files,
    Gate,
    Live,
    Meter,
    Opening,
    Refused,
)
from libs.code_blocks.questions import Questions, wants_code
from libs.code_blocks.reader import MAX_REPLY, Block, Language, read_reply, without_thoughts
from libs.code_blocks.repetition import runs_on_from
from libs.code_blocks.reply_end import first_block, imagined
from libs.code_blocks.state import CodeState, Input, Output
from libs.code_blocks.told import told_of_blocks
from libs.code_blocks.turn import approved_as, end_with, go, kept, with_words
from libs.code_blocks.words import MAX_NUDGES, Words
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
        opening: makes what comes before the conversation, once at the start of each run, from its task: the
            system prompt, and whatever a model needs besides. Where it ends with a person's message, the
            conversation's first is joined to that.
        files: what a run hands over, and an answer may speak of.
        meter: makes what counts a run, from what it has used so far (None: nothing).
        gate: asks a person about each reply's blocks; None: they run at once.
        ending: has a say when a run would end with the model's answer.
        live: makes what sends a block's output while it runs.
        withheld: whether a reply's blocks are not what the model wrote, as a secret was taken out of them:
            they do not run, and it is told so.
        max_steps: replies of the model in one run.
        shown_chars: characters of output that the model is shown after one reply.
        guided: for small models: a reply ends with its first block, or where it begins to run on; what a
            block printed is followed by how to go on; an answer with figures that nothing has printed, or
            without a number that was asked for, is questioned once.
        imports: name -> the line that imports it, of functions that a guided model is told of.
        after_repeat: for the model, beside the request, once the code that failed last had failed before, a
            reply has run on or is the one before, so that it does not say the same for ever: a higher
            temperature.
        code_begins: how a reply of a guided model begins that is to be code, because a question was put by
            itself or words came in its place: sent as the beginning of the reply, for a model that goes on
            with it.
    """

    def __init__(
        self,
        model: TextModel,
        runner: BlockRunner,
        *,
        opening: Callable[[str], Awaitable[Opening]],
        meter: Callable[[Mapping[str, Any] | None], Meter],
        files: Files | None = None,
        gate: Gate | None = None,
        ending: Ending | None = None,
        live: Live = lambda key: nullcontext(),  # noqa: ARG005
        withheld: Callable[[AIMessage, Sequence[str]], bool] = lambda reply, texts: False,  # noqa: ARG005
        max_steps: int = 10,
        shown_chars: int = 20_000,
        guided: bool = False,
        imports: Mapping[str, str] = MappingProxyType({}),
        after_repeat: Mapping[str, Any] = MappingProxyType({}),
        code_begins: str = "",
    ) -> None:
        if max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, not {max_steps}")
        self._model = model
        self._runner = runner
        self._opening = opening
        self._meter = meter
        self._words = Words(files=files or Files(), ending=ending, guided=guided)
        self._gate = gate
        self._ending = ending
        self._live = live
        self._withheld = withheld
        self._max_steps = max_steps
        self._shown_chars = shown_chars
        self._guided = guided
        self._imports = imports
        self._after_repeat = after_repeat
        self._code_begins = code_begins

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
        opening = await self._opening(task)
        ran = bool(state.get("executions") or state.get("earlier"))
        return {
            "status": None,
            "executions": [],
            "opening": opening.messages,
            "task": task,
            "about_data": speaks_of(task, opening.data),
            "earlier": len(messages) - 1 if ran else 0,
            "steps": 0,
            "nudges": 0,
            "approved": [],
            "cut_off": False,
            "ran_on": False,
            "questioned": [],
            "code_due": False,
            "run_budget": self._meter(None).spent(),
        }

    async def _reply(self, state: CodeState) -> Command[Literal["model", "approve", "__end__"]]:
        """Ask the model, and decide what its reply is: code, an answer, or neither."""
        meter = self._meter(state["run_budget"])
        if over := meter.take_call():
            return end_with(over, meter, AIMessage(meter.budget.explain(over)))
        request = sent(state["opening"], state["messages"], state.get("forgotten") or [])
        executions = state.get("executions") or []
        said_before = [message.text for message in state["messages"] if isinstance(message, AIMessage)]
        again = state["nudges"] > 0 and said_before[-2:-1] == said_before[-1:]
        options = self._after_repeat if state.get("ran_on") or repeated(executions) or again else {}
        ran_on = False

        def end(reply: str) -> int | None:
            nonlocal ran_on
            found = first_block(reply) if self._guided else imagined(reply)
            if found is None and self._guided and (found := runs_on_from(reply)) is not None:
                ran_on = True
            # One that is too long to be read: some servers let a model go on for ever.
            if found is None and len(reply) > MAX_REPLY and len(without_thoughts(reply)) > MAX_REPLY:
                return len(reply)
            return found

        if state.get("code_due") and self._code_begins:
            request = [*request, AIMessage(self._code_begins)]
        with meter.working():
            try:
                async with asyncio.timeout(meter.remaining()) as deadline:
                    reply, tokens = await ask_model(self._model, request, end=end, options=options)
            except TimeoutError:
                if not deadline.expired():
                    raise
                return end_with("budget_seconds", meter, AIMessage(meter.budget.explain("budget_seconds")))
        meter.add_tokens(tokens)
        text = without_thoughts(reply.text)
        reading = read_reply(text)
        reply = reply.model_copy(update={"content": kept(text)})
        steps = state["steps"] + 1
        kept_back = self._withheld(reply, [block.code for block in reading.blocks])
        if reading.blocks and not kept_back:
            if over := meter.reached():
                return end_with(over, meter, with_words(reply, meter.budget.explain(over)))
            grants = state.get("grants") or {}
            return go("approve", meter, reply, steps=steps, ran_on=False, grants_at_reply=grants)
        objection = await self._words.objection(
            state, reply, reading, text, kept_back=kept_back, ran_on=ran_on, left=self._max_steps - steps
        )
        if objection is None:
            to = ENDING if self._ending else END
            return go(to, meter, reply, steps=steps, status="completed")
        if state["nudges"] >= MAX_NUDGES:
            status = "no_execution"
        elif steps >= self._max_steps:
            status = "max_steps"
        else:
            update = objection.update
            if objection.forget:
                reply = reply.model_copy(update={"id": reply.id or str(uuid4())})
                update = {**update, "forgotten": [*(state.get("forgotten") or []), reply.id]}
            nudges = state["nudges"] + 1
            return go("model", meter, reply, told(objection.said), steps=steps, nudges=nudges, **update)
        last = executions[-1] if executions else None
        words = feedback.closing(status, steps=steps, nudges=state["nudges"], last=last)
        return end_with(status, meter, with_words(reply, words), steps=steps)

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
        # The code for a question, and the answer, take a step each.
        room = self._max_steps - state["steps"] >= 2
        then = Questions.of(state, ran.executions, guided=self._guided).next() if room else None
        if self._guided and room and _checks_failed(ran.executions):
            then = (feedback.NOT_RIGHT, state.get("questioned") or [])
        said = feedback.outputs(
            [Block(cast("Language", each["language"]), each["code"]) for each in approved],
            ran.outcomes,
            read_reply(state["messages"][-1].text),
            repeats=ran.repeats,
            limit=self._shown_chars,
            guided=self._guided,
            imports=self._imports,
            then=then and then[0],
            cut_off=bool(begun),
        )
        executions = ran.executions
        update: dict[str, Any] = {"executions": executions, "nudges": 0, "cut_off": bool(begun)}
        if then and then[0] in said:
            update["questioned"] = then[1]
        last = executions[-1] if executions else None
        if self._guided and last and len(executions) > len(before) and repeated(executions):
            said = feedback.another_way(last, self._imports)
            turns = failed_turns(state["messages"], executions)
            forgotten = [turn.id for turn in turns if turn.id]
            update["forgotten"] = [*(state.get("forgotten") or []), *forgotten]
        update["code_due"] = wants_code(said)
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


def _checks_failed(executions: Sequence[Execution]) -> bool:
    """Whether the latest block has failed its own checks; not for ever: the checks may be what is wrong."""
    failed = [feedback.checks_failed(each["output"]) for each in executions]
    return failed[-1:] == [True] and sum(failed) <= MAX_FAILURES


def _node(
    node: Callable[[CodeState], Coroutine[Any, Any, Any]],
) -> RunnableLambda[CodeState, Any]:
    return RunnableLambda(blocking(node), afunc=node)
