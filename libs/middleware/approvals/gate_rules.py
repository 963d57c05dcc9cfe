"""Decide which calls a person must approve. The rules have the form of LangChain's `interrupt_on`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast, get_args

from langchain.agents.middleware import InterruptOnConfig
from langchain.agents.middleware.types import ToolCallRequest
from langchain.tools import ToolRuntime
from langchain_core.messages import ToolCall
from langgraph.config import get_config
from langgraph.runtime import get_runtime

from libs.middleware.approvals.question import DecisionType, Request

__all__ = ["GateRules", "InterruptMode", "InterruptOn"]

InterruptOn = Mapping[str, bool | InterruptOnConfig]
"""Name of a call -> the decisions that a person may make. LangChain's `interrupt_on`."""

InterruptMode = Literal["batched", "per_call"]
"""One question for all calls of a reply, or a question for each call. LangChain's `interrupt_mode`."""

_ALL: tuple[DecisionType, ...] = get_args(DecisionType)
_KEYS = InterruptOnConfig.__required_keys__ | InterruptOnConfig.__optional_keys__
_EXAMPLE = '{"allowed_decisions": ["approve", "reject"]}'


class GateRules:
    """The calls that a gate asks about, and how.

    Args:
        interrupt_on: name of a call -> `True` (approve, edit and reject are offered), `False` (the call runs
            at once) or LangChain's `InterruptOnConfig`. Its `description`, a text or a function, is shown
            above the whole call. Its function `when` decides whether a person is asked about a call. `when`
            must give the same result for the same call, because LangGraph repeats a node that interrupts.
        interrupt_mode: how the calls of a reply are asked about.

    Raises:
        TypeError: `interrupt_on` is not a mapping.
        ValueError: a value has another form, does not offer approve and reject, or offers `respond`: a call
            that runs code or changes a file has no result before it has run.
    """

    def __init__(self, interrupt_on: InterruptOn, interrupt_mode: InterruptMode = "batched") -> None:
        if interrupt_mode not in get_args(InterruptMode):
            raise ValueError(f"interrupt_mode is {interrupt_mode!r}: write 'batched' or 'per_call'.")
        if not isinstance(interrupt_on, Mapping):
            raise TypeError(f"interrupt_on is {interrupt_on!r}: write {{name: {_EXAMPLE}}}.")
        self.per_call = interrupt_mode == "per_call"
        self.configs: Mapping[str, InterruptOnConfig] = {
            name: _config(name, given) for name, given in interrupt_on.items() if given is not False
        }

    def offered(self, name: str) -> Sequence[DecisionType]:
        """Return the decisions that a person may choose for a call of this name."""
        return [each for each in _ALL if each in self._config(name)["allowed_decisions"]]

    def asks_about(self, request: Request, state: Any) -> bool:
        """Return whether a person must decide on a call. Call this method inside a node."""
        config = self.configs.get(request.name)
        when = config.get("when") if config else None
        return config is not None and (when is None or when(_tool_call_request(request, state)))

    def note(self, request: Request, state: Any) -> str:
        """Return the configured text above a call, or "". Call this method inside a node."""
        given = self._config(request.name).get("description", "")
        return given if isinstance(given, str) else given(_tool_call(request), state, get_runtime())

    def _config(self, name: str) -> InterruptOnConfig:
        # The rules file can ask about calls that are not gated.
        return self.configs.get(name, InterruptOnConfig(allowed_decisions=["approve", "reject"]))


def _config(name: str, given: Any) -> InterruptOnConfig:
    if given is True:
        return InterruptOnConfig(allowed_decisions=list(_ALL))
    problem = None
    if not isinstance(given, Mapping) or not isinstance(given.get("allowed_decisions"), list | tuple):
        problem = f"is {given!r}"
    elif unknown := sorted(map(str, given.keys() - _KEYS)):
        problem = f"has the unknown key {unknown[0]!r}"
    elif unknown := [each for each in given["allowed_decisions"] if each not in _ALL]:
        problem = f"offers {unknown[0]!r}, and a gated call can only be approved, edited or rejected"
    elif not {"approve", "reject"} <= set(given["allowed_decisions"]):
        problem = "does not offer both approve and reject"
    if problem:
        raise ValueError(
            f'interrupt_on[{name!r}] {problem}: write {_EXAMPLE}, with "edit" if you like, or True or False.'
        )
    return cast("InterruptOnConfig", dict(given))


def _tool_call(request: Request) -> ToolCall:
    return ToolCall(name=request.name, args=dict(request.args), id=request.call_id, type="tool_call")


def _tool_call_request(request: Request, state: Any) -> ToolCallRequest:
    """Return the argument of `when`, as in LangChain's batched mode: without the tool."""
    runtime = get_runtime()
    given: ToolRuntime[Any, Any] = ToolRuntime(
        state=state,
        context=runtime.context,
        config=get_config(),
        stream_writer=runtime.stream_writer,
        tool_call_id=request.call_id,
        store=runtime.store,
    )
    return ToolCallRequest(tool_call=_tool_call(request), tool=None, state=state, runtime=given)
