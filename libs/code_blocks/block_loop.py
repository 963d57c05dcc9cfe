"""The loop of the code-block agent: ask the model, run its blocks, send the output back, until it answers.

A request holds the opening (the system prompt) and the conversation: the model's replies, each followed by
the output of its blocks as one user message. A run ends with a `status`: `completed`, `no_execution`,
`max_steps`, `error` (the same code failed three times), or the status of a budget. The last message is never
empty.

Events on LangGraph's custom stream, besides those of `live`: `{"type": "code", "id", "language", "code"}`
when a block begins, with `"granted"` if nobody was asked (see `BlockCall`), and `{"type": "execution", "id",
…}` with the fields of `Execution` when the block has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Checkpointer, Command

from libs.code_blocks import block_feedback as feedback
from libs.code_blocks.block_approvals import approved
from libs.code_blocks.block_effects import BlockEffects, approved_by_effect
from libs.code_blocks.block_execution import repeats, run_blocks, run_in_gate, thread_of
from libs.code_blocks.block_model import TextModel, ask_model
from libs.code_blocks.block_protocol import BlockCall, Files, Live
from libs.code_blocks.block_reader import MAX_REPLY, read_reply, without_thoughts
from libs.code_blocks.block_runner import SandboxRunner
from libs.code_blocks.block_state import CodeState, Input, Output
from libs.code_blocks.block_turn import (
    as_node,
    blocks_message,
    end_with,
    go,
    joined,
    kept,
    languages_run,
    left_open,
    with_words,
)
from libs.code_blocks.reply_end import first_block, imagined
from libs.code_blocks.run_end_hooks import ENDING, Ending, add_ending
from libs.code_blocks.words_only import MAX_NUDGES, objection
from libs.middleware.approvals import (
    DecisionLog,
    GateRules,
    InterruptMode,
    InterruptOn,
    RulesFile,
    read_rules,
    require_checkpointer,
)
from libs.middleware.budget import Budget, Meter
from libs.middleware.captures import TOLD, WORKSPACE, Captures, captured_thread, note_for
from libs.middleware.program_messages import told

__all__ = ["CodeLoop"]

MAX_FAILURES = 3
"""A run ends when the same code has failed this often with the same output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLoop:
    """Builds the graph. The object keeps no state of a run."""

    model: TextModel
    runner: SandboxRunner
    opening: Callable[[Sequence[str]], Awaitable[list[AnyMessage]]]
    """Returns the messages before the conversation (system prompt, examples). Called once a run, with the
    result of `absent_paths`."""
    budget: Budget
    """The limits of one run."""
    absent_paths: Callable[[str], Awaitable[list[str]]] | None = None
    """Takes the task, and returns the paths that the task names and that do not exist."""
    files: Files | None = None
    """Finds the result files that an answer names."""
    approvals: InterruptOn | None = None
    """The decisions that a person may make on `execute_code` (see `GateRules`). None: blocks run at once."""
    interrupt_mode: InterruptMode = "batched"
    """One question for the blocks of a reply, or one for each block."""
    rules: RulesFile = field(default_factory=lambda: RulesFile(None))
    """The rules, which decide before a person is asked. A `deny` counts without approvals, too."""
    decision_log: DecisionLog | None = None
    """Records each decision."""
    effects: BlockEffects | None = None
    """Decides on blocks by what they have done. None: a person decides before they run."""
    ending: Ending | None = None
    """Is asked before a run ends with the model's answer."""
    captures: Captures | None = None
    """Captures the workspace before a turn and after each step. None: it is not captured."""
    live: Live = lambda key: nullcontext()  # noqa: ARG005
    one_block: bool = False
    """Cut each reply after its first block. Small models go on and invent the output."""
    errors: Callable[[], AbstractContextManager[None]] = nullcontext
    """The context manager for a model call, which explains its errors and removes secrets."""
    max_steps: int = 10
    """Replies of the model in one run."""
    shown_chars: int = 20_000
    """Characters of output that the model gets after one reply."""

    def __post_init__(self) -> None:
        if self.max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, not {self.max_steps}")
        self._rules()  # raises for wrong `approvals`

    def graph(
        self, *, checkpointer: Checkpointer = None, name: str = "code_agent"
    ) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Compile the graph, for synchronous and asynchronous callers."""
        builder = StateGraph(CodeState, input_schema=Input, output_schema=Output)
        builder.add_node("begin", as_node(self._begin))
        ends = (ENDING, END) if self.ending else (END,)
        builder.add_node("model", as_node(self._reply), destinations=("model", "approve", *ends))
        builder.add_node("approve", as_node(self._approve))
        builder.add_node("run", as_node(self._run), destinations=("model", END))
        builder.add_edge(START, "begin")
        builder.add_edge("begin", "model")
        builder.add_edge("approve", "run")
        if self.ending:
            add_ending(builder, self.ending)
        graph = builder.compile(checkpointer=checkpointer, name=name)
        return graph.with_config(recursion_limit=4 * self.max_steps + 10)

    async def _begin(self, state: CodeState) -> dict[str, Any]:
        if self.approvals is not None:
            require_checkpointer()
            if self.effects:
                await self.effects.lapse()
        messages = state["messages"]
        task = messages[-1].text if messages else ""
        # Before the first command.
        thread = captured_thread()
        captured = {}
        if self.captures and thread is not None:
            captured[WORKSPACE] = await self.captures.begin_turn(thread)
        absent_paths = await self.absent_paths(task) if self.absent_paths else []
        return {
            "status": None,
            "executions": [],
            **({"absent_paths": absent_paths} if absent_paths or state.get("absent_paths") else {}),
            "opening": await self.opening(absent_paths),
            "task": task,
            "steps": 0,
            "nudges": 0,
            "blocks": left_open(state),
            "cut_off": False,
            "run_budget": Meter(self.budget).spent(),
            **captured,
        }

    async def _captured(self) -> tuple[dict[str, Any], str]:
        """Capture the workspace after a step. Return the update of the state, and a note for the model."""
        thread = captured_thread()
        if self.captures is None or thread is None:
            return {}, ""
        ticket = await self.captures.after_step(thread)
        return {WORKSPACE: ticket}, await self.captures.unkept(thread)

    async def _reply(self, state: CodeState) -> Command[Literal["model", "approve", "__end__"]]:
        """Ask the model. Notes for the model come before its reply."""
        note = await note_for(self.captures, state) if self.captures else None
        notes = [note] if note else []
        noted: dict[str, Any] = {TOLD: note.id} if note else {}
        if blocks := left_open(state):
            begun = await self.runner.begun([each["key"] for each in blocks])
            languages = {each["language"] for each in blocks if each["key"] in begun}
            notes.append(told(feedback.STOPPED, begun=sorted(languages)))
            if not state["steps"]:  # they belong to an earlier run
                noted["blocks"] = []
                state = {**state, "blocks": []}
        after = await self._next({**state, "messages": [*state["messages"], *notes]})
        update: Any = after.update
        return replace(after, update={**noted, **update, "messages": [*notes, *update["messages"]]})

    async def _next(self, state: CodeState) -> Command[Literal["model", "approve", "__end__"]]:
        """Ask the model, and decide whether the reply is code, an answer, or neither."""
        meter = Meter(self.budget, spent=state["run_budget"])
        if over := meter.take_call():
            return end_with(over, meter, AIMessage(meter.budget.explain(over)))
        request = joined(state["opening"], state["messages"])
        rules = (await read_rules(self.rules)).digest
        with meter.working(), self.errors():
            try:
                async with asyncio.timeout(meter.remaining()) as deadline:
                    reply, tokens = await ask_model(self.model, request, end=self._end)
            except TimeoutError:
                if not deadline.expired():
                    raise
                return end_with("budget_seconds", meter, AIMessage(meter.budget.explain("budget_seconds")))
        meter.add_tokens(tokens)
        text = without_thoughts(reply.text)
        reading = read_reply(text)
        reply = reply.model_copy(update={"content": kept(text), "id": reply.id or str(uuid4())})
        steps = state["steps"] + 1
        if reading.blocks:
            if over := meter.reached():
                return end_with(over, meter, with_words(reply, meter.budget.explain(over, not_run=True)))
            return go(
                "approve",
                meter,
                reply,
                steps=steps,
                grants_at_reply=state.get("grants") or {},
                rules_at_reply=rules,
                blocks=[
                    BlockCall(language=block.language, code=block.code, key=f"{reply.id}/{index}")
                    for index, block in enumerate(reading.blocks)
                ],
                remarks=feedback.remarks(reading),
            )
        said = await objection(state, reply, reading, text, files=self.files, ending=self.ending)
        if said is None:
            to = ENDING if self.ending else END
            return go(to, meter, reply, steps=steps, status="completed")
        if state["nudges"] >= MAX_NUDGES:
            status = "no_execution"
        elif steps >= self.max_steps:
            status = "max_steps"
        else:
            nudges = state["nudges"] + 1
            return go("model", meter, reply, told(said), steps=steps, nudges=nudges)
        last = state["executions"][-1] if state["executions"] else None
        words = feedback.closing(status, steps=steps, nudges=state["nudges"], last=last)
        return end_with(status, meter, with_words(reply, words), steps=steps)

    def _end(self, reply: str) -> int | None:
        """Return the index where a reply is cut, or None."""
        found = first_block(reply) if self.one_block else imagined(reply)
        # Some servers set no limit, so a reply could be endless.
        if found is None and len(reply) > MAX_REPLY and len(without_thoughts(reply)) > MAX_REPLY:
            return len(reply)
        return found

    async def _approve(self, state: CodeState) -> dict[str, Any]:
        """Decide on the blocks of the reply, by rule or by asking, and keep the blocks with the decisions."""
        gate, rules = self._rules(), await read_rules(self.rules)
        used: dict[str, Any] = {}
        if self.effects and gate:
            meter = Meter(self.budget, spent=state["run_budget"])
            run = await run_in_gate(state, self.runner, self.live, meter)
            blocks = await approved_by_effect(
                state["blocks"], gate, rules, state, effects=self.effects, run=run
            )
            used["run_budget"] = meter.spent()
        else:
            blocks = approved(state["blocks"], gate, rules, state)
        if self.decision_log:
            records = [block["decision"] for block in blocks if "decision" in block]
            await asyncio.to_thread(self.decision_log.add, records)
        return {"blocks": blocks, **used}

    def _rules(self) -> GateRules | None:
        return GateRules(self.approvals, self.interrupt_mode) if self.approvals is not None else None

    async def _run(self, state: CodeState) -> Command[Literal["model", "__end__"]]:
        """Run the approved blocks in order, and send their output to the model.

        When LangGraph repeats this node after a kill, blocks that had begun give their recorded results and
        no other block begins: the others need variables and a directory that are gone.
        """
        meter = Meter(self.budget, spent=state["run_budget"])
        blocks = state["blocks"]
        begun = await self.runner.begun(
            [each["key"] for each in blocks if not {"ran", "undone"} & each.keys()]
        )
        outcomes, over = await run_blocks(
            blocks,
            runner=self.runner,
            live=self.live,
            thread=thread_of(state["messages"]),
            meter=meter,
            begun=begun,
            ran=languages_run(state["messages"]),
        )
        executions = state["executions"] + [each for each in outcomes if isinstance(each, dict)]
        failed = feedback.keys_without_result(blocks, outcomes)
        unbegun = set(failed) - await self.runner.begun(failed) if failed else set()
        repeated = repeats(executions) if len(executions) > len(state["executions"]) else 0
        shown = feedback.shown_outputs(outcomes, limit=self.shown_chars)
        captured, unkept = await self._captured()
        said = feedback.outputs(
            blocks,
            outcomes,
            shown,
            "\n\n".join(filter(None, (unkept, state.get("remarks", "")))),
            repeats=repeated,
            cut_off=bool(begun),
        )
        update: dict[str, Any] = {"executions": executions, "nudges": 0, "cut_off": bool(begun)}
        update |= captured
        last = executions[-1] if executions else None
        message = blocks_message(said, blocks, outcomes, shown, unbegun)
        status: str | None = over
        if not status and last and last["exit_code"] and repeated + 1 >= MAX_FAILURES:
            status = "error"
        if not status and state["steps"] >= self.max_steps:
            status = "max_steps"
        if not status:
            return go("model", meter, message, **update)
        closing = feedback.closing(status, steps=state["steps"], nudges=0, last=last)
        words = AIMessage(meter.budget.explain(over) if over else closing)
        return end_with(status, meter, message, words, **update)
