"""Proposed skills in the deep agent: the model mends them, a person decides, when the run would end."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import hook_config
from langchain.agents.middleware.types import AgentMiddleware, AgentState, PrivateStateAttr
from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from agent.skill_growth import Growth, Offer, decisions_about
from libs.middleware.told import told
from libs.sandbox.blocking import blocking

__all__ = ["SkillGrowth"]

_MOST_OBJECTIONS = 2
"""Times in a run that a model is told what is wrong with its proposals."""


class GrowthState(AgentState[Any]):
    skill_objections: NotRequired[Annotated[int, PrivateStateAttr]]
    """Times that the model was told, in this run, what is wrong with its proposals."""
    skill_offers: NotRequired[Annotated[list[Offer], PrivateStateAttr]]
    """What a person is asked about when this run ends."""


class SkillGrowth(AgentMiddleware[GrowthState, Any, Any]):
    """For the deep agent's main part; list it first, so that its question comes when all else is done."""

    state_schema = GrowthState

    def __init__(self, growth: Growth) -> None:
        super().__init__()
        self._growth = growth

    def before_agent(self, state: GrowthState, runtime: Runtime[Any]) -> dict[str, Any]:  # noqa: ARG002
        """Begin a run."""
        return {"skill_objections": 0, "skill_offers": []}

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: GrowthState, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Where the model is done, tell it what is wrong with its proposals, or note what is asked about."""
        reply, times = state["messages"][-1], state.get("skill_objections", 0)
        if not isinstance(reply, AIMessage) or reply.tool_calls:
            return None
        if times < _MOST_OBJECTIONS and (said := await self._growth.objections()):
            return {"messages": [told(said)], "skill_objections": times + 1, "jump_to": "model"}
        return {"skill_offers": await self._growth.offers()}

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: GrowthState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """As `aafter_model`."""
        return blocking(lambda _: self.aafter_model(state, runtime))(None)

    async def aafter_agent(self, state: GrowthState, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Ask a person about what is proposed, and keep what is approved."""
        offers = state.get("skill_offers")
        if not offers:
            return None
        said = await self._growth.settle(offers, decisions_about(offers))
        return {"messages": [_with_words(state["messages"][-1], said)], "skill_offers": []}

    def after_agent(self, state: GrowthState, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """As `aafter_agent`."""
        offers = state.get("skill_offers")
        if not offers:
            return None
        decisions = decisions_about(offers)
        said = blocking(lambda _: self._growth.settle(offers, decisions))(None)
        return {"messages": [_with_words(state["messages"][-1], said)], "skill_offers": []}


def _with_words(reply: Any, words: str) -> AIMessage:
    """The answer with words below it: two assistant messages in a row are refused by some providers."""
    if isinstance(reply, AIMessage) and not reply.tool_calls:
        return reply.model_copy(update={"content": f"{reply.text}\n\n{words}"})
    return AIMessage(words)
