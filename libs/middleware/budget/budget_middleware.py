"""LangChain middleware that ends a run when the run has used up a limit."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Annotated, Any, Literal, NotRequired

from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
    OmitFromInput,
    PrivateStateAttr,
    ToolCallRequest,
    hook_config,
)
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.runtime import Runtime
from langgraph.types import Command

from libs.middleware.budget.run_budget import Budget, BudgetStatus, Meter, Spent
from libs.middleware.open_calls import not_run, open_calls

__all__ = ["BudgetMiddleware"]

# Runs that wait for a person may never end. A dropped meter is rebuilt from the run's state.
_MAX_METERS = 1000

_starting_agent: ContextVar[Meter | None] = ContextVar("starting_agent", default=None)
"""Set inside a tool call: the meter of the agent that made the call, so that starts a subagent."""


class BudgetState(AgentState[Any]):
    """The use of a run, and how the run ended."""

    run_budget: NotRequired[Annotated[Spent, PrivateStateAttr]]
    status: NotRequired[
        Annotated[
            Literal["completed", "budget_calls", "budget_seconds", "budget_tokens"] | None, OmitFromInput
        ]
    ]
    """How the latest run ended. None while the run continues or waits for approval. Main agent only."""


class BudgetMiddleware(AgentMiddleware[BudgetState, Any, Any]):
    """Limit one run, including its subagents.

    A run begins with new input and may span interrupts and processes. Its counts are saved in private state
    after each model call. At a limit, open calls are answered and not run, the last message names the limit
    and its setting, and `status` is `budget_calls`, `budget_seconds` or `budget_tokens` instead of
    `completed`. The thread accepts further messages.

    In asynchronous runs a model or tool call is cancelled when the seconds are used up; in synchronous runs
    the call ends first. Place this middleware after `ApprovalMiddleware`, so that nobody is asked about a
    call that cannot run, and give the same instance to the agent and its subagents.
    """

    state_schema = BudgetState

    def __init__(self, budget: Budget) -> None:
        super().__init__()
        self.budget = budget
        self._meters: OrderedDict[str, Meter] = OrderedDict()
        self._lock = Lock()

    def before_agent(self, state: BudgetState, runtime: Runtime[Any]) -> dict[str, Any]:  # noqa: ARG002
        """Begin a run with a new meter."""
        meter = Meter(self.budget)
        if _starting_agent.get() is not None:
            return {"run_budget": meter.spent()}
        self._remember(meter)
        return {"run_budget": meter.spent(), "status": None}

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | AIMessage:
        """Count a model call and its tokens, or end the run."""
        meter = self._meter(request.state)
        if status := meter.take_call():
            return _last_message(meter, status)
        with meter.working():
            response = handler(request)
        meter.add_tokens(_tokens(request, response))
        return response

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any] | AIMessage:
        """As `wrap_model_call`. The call is cancelled when the seconds are used up."""
        meter = self._meter(request.state)
        if status := meter.take_call():
            return _last_message(meter, status)
        with meter.working():
            try:
                async with asyncio.timeout(meter.remaining()) as deadline:
                    response = await handler(request)
            except TimeoutError:
                if not deadline.expired():
                    raise
                return _last_message(meter, "budget_seconds")
        meter.add_tokens(_tokens(request, response))
        return response

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: BudgetState, runtime: Runtime[Any]) -> dict[str, Any]:  # noqa: ARG002
        """End the run if a limit is reached and the reply has open calls."""
        meter = self._meter(state)
        waiting = open_calls(state["messages"])
        status = meter.reached() if waiting else None
        if status is None:
            return {"run_budget": meter.spent()}
        last = _last_message(meter, status, not_run=True)
        answers = [_not_done(call, "was not run: the run's budget was used up") for call in waiting]
        return {"messages": [*answers, last], "run_budget": meter.spent(), "jump_to": "end"}

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Run a tool call if there is time left."""
        meter = self._meter(request.state)
        if meter.remaining() <= 0:
            return _not_done(request.tool_call, "was not run: the run has no time left")
        with _at_work(meter):
            return handler(request)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """As `wrap_tool_call`. The call is cancelled when the seconds are used up."""
        meter = self._meter(request.state)
        if meter.remaining() <= 0:
            return _not_done(request.tool_call, "was not run: the run has no time left")
        with _at_work(meter):
            try:
                async with asyncio.timeout(meter.remaining()) as deadline:
                    return await handler(request)
            except TimeoutError:
                if not deadline.expired():
                    raise
                return _not_done(
                    request.tool_call, "was cancelled: the run's time was used up. It may have had effects"
                )

    @contextmanager
    def at_work(self, state: Any) -> Iterator[float]:
        """Count the time of the block as work of the run. Yields the seconds that are left."""
        meter = self._meter(state)
        with meter.working():
            yield max(meter.remaining(), 0.0)

    def after_agent(self, state: BudgetState, runtime: Runtime[Any]) -> dict[str, Any]:  # noqa: ARG002
        """Save how the run ended."""
        meter = self._meter(state)
        if _starting_agent.get() is not None:
            return {"run_budget": meter.spent()}
        with self._lock:
            self._meters.pop(meter.run, None)
        return {"run_budget": meter.spent(), "status": meter.ended or "completed"}

    def _meter(self, state: Any) -> Meter:
        # A thread that waits since before budgets existed gets a full budget.
        spent: Spent = state.get("run_budget") or Meter(self.budget).spent()
        starting = _starting_agent.get()
        if starting is not None:
            return starting.child(spent)
        with self._lock:
            meter = self._meters.get(spent["run"])
        if meter is None:
            return self._remember(Meter(self.budget, spent=spent))
        meter.catch_up(spent)
        return meter

    def _remember(self, meter: Meter) -> Meter:
        """Return the meter that all parallel parts of a run share."""
        with self._lock:
            meter = self._meters.setdefault(meter.run, meter)
            self._meters.move_to_end(meter.run)
            while len(self._meters) > _MAX_METERS:
                self._meters.popitem(last=False)
        return meter


@contextmanager
def _at_work(meter: Meter) -> Iterator[None]:
    """Count the time, and let subagents started in the context count for this agent."""
    token = _starting_agent.set(meter)
    try:
        with meter.working():
            yield
    finally:
        _starting_agent.reset(token)


def _last_message(meter: Meter, status: BudgetStatus, *, not_run: bool = False) -> AIMessage:
    meter.ended = status
    return AIMessage(meter.budget.explain(status, not_run=not_run))


def _not_done(call: ToolCall, what: str) -> ToolMessage:
    return not_run(call["name"], call["id"], f"This {call['name']} call {what}.")


def _tokens(request: ModelRequest[Any], response: ModelResponse[Any]) -> int:
    """Return the tokens that the model reports for one call, or an estimate."""
    usage = [message.usage_metadata for message in response.result if isinstance(message, AIMessage)]
    if reported := sum(each["total_tokens"] for each in usage if each):
        return reported
    system = [request.system_message] if request.system_message else []
    return count_tokens_approximately([*system, *request.messages, *response.result], tools=request.tools)
