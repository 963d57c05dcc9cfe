"""Others that have a say when a run would end with the model's answer."""

from __future__ import annotations

from typing import Any, Protocol

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, StateGraph

from libs.code_blocks.state import CodeState
from libs.sandbox.blocking import blocking

__all__ = ["ENDING", "Ending", "add_ending"]

ENDING = "ending"
"""The node that a run with the model's answer goes to."""
_LAST_WORDS = "last_words"


class Ending(Protocol):
    """Whoever has a say."""

    async def objections(self) -> str | None:
        """What the model has to mend first; it is told so a few times at most. None: nothing."""
        ...

    async def prepared(self) -> Any:
        """What there is to say something about, as the state keeps it; what is false is nothing."""
        ...

    async def last_words(self, prepared: Any) -> str:
        """What is said of that below the answer. May ask a person; called inside a node of its own."""
        ...


def add_ending(builder: StateGraph[Any, Any, Any, Any], ending: Ending) -> None:
    """Have it speak between the model's answer and the end.

    What it speaks about is noted by a node before the one that may ask: that one runs again for the answer.
    """

    async def prepare(_: CodeState) -> dict[str, Any]:
        return {"ending": await ending.prepared()}

    async def say(state: CodeState) -> dict[str, Any]:
        prepared, reply = state.get("ending"), state["messages"][-1]
        if not prepared or not isinstance(reply, AIMessage):
            return {}
        words = await ending.last_words(prepared)
        # Below it: two assistant messages in a row are refused by some providers.
        said = reply.model_copy(update={"content": f"{reply.text}\n\n{words}"})
        return {"messages": [said], "ending": None}

    builder.add_node(ENDING, RunnableLambda(blocking(prepare), afunc=prepare))
    builder.add_node(_LAST_WORDS, RunnableLambda(blocking(say), afunc=say))
    builder.add_edge(ENDING, _LAST_WORDS)
    builder.add_edge(_LAST_WORDS, END)
