"""Middleware of the deep agent for proposed skills: checks them at the end of a run, then asks a person."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import hook_config
from langchain.agents.middleware.types import AgentMiddleware, AgentState, PrivateStateAttr
from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from agent.skills.skill_growth import Growth, Offer, decisions_about
from libs.middleware.program_messages import told
from libs.sandbox.host import blocking

__all__ = ["SkillGrowth"]

_MOST_OBJECTIONS = 2
"""Reports of faulty proposals to the model in one run."""


class GrowthState(AgentState[Any]):
    skill_objections: NotRequired[Annotated[int, PrivateStateAttr]]
    """Reports of faulty proposals so far in this run."""
    skill_offers: NotRequired[Annotated[list[Offer], PrivateStateAttr]]
    """Proposals for the question at the end of this run."""


class SkillGrowth(AgentMiddleware[GrowthState, Any, Any]):
    """For the main agent, not for subagents. List this middleware first, so that its question comes last."""

    state_schema = GrowthState

    def __init__(self, growth: Growth) -> None:
        super().__init__()
        self._growth = growth

    def before_agent(self, state: GrowthState, runtime: Runtime[Any]) -> dict[str, Any]:  # noqa: ARG002
        """Reset the state of the run."""
        return {"skill_objections": 0, "skill_offers": []}

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: GrowthState, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """After the last reply, report faulty proposals to the model, or save the offers."""
        reply, times = state["messages"][-1], state.get("skill_objections", 0)
        if not isinstance(reply, AIMessage) or reply.tool_calls:
            return None
        if times < _MOST_OBJECTIONS and (said := await self._growth.objections()):
            return {"messages": [told(said)], "skill_objections": times + 1, "jump_to": "model"}
        return {"skill_offers": await self._growth.offers()}

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: GrowthState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """As `aafter_model`."""
        return blocking(self.aafter_model)(state, runtime)

    async def aafter_agent(self, state: GrowthState, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Ask a person about the offers, and keep approved skills."""
        offers = state.get("skill_offers")
        if not offers:
            return None
        said = await self._growth.settle(offers, decisions_about(offers, self._growth.interrupt_mode))
        return {"messages": [_with_words(state["messages"][-1], said)], "skill_offers": []}

    def after_agent(self, state: GrowthState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """As `aafter_agent`."""
        return blocking(self.aafter_agent)(state, runtime)


def _with_words(reply: Any, words: str) -> AIMessage:
    """Append words to the answer, because some providers refuse two assistant messages in a row."""
    if isinstance(reply, AIMessage) and not reply.tool_calls:
        return reply.model_copy(update={"content": f"{reply.text}\n\n{words}"})
    return AIMessage(words)
