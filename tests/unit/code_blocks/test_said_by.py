"""Messages of the program to a model are never shown as a person's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from agent.acp.replayed_thread import replayed
from agent.chat.chat_session import tasks
from agent.exec_agent.calls_in_text import CallsInText
from agent.skills.skill_growth import Growth
from agent.skills.skill_growth_middleware import SkillGrowth
from libs.code_blocks.block_protocol import BlockCall
from libs.code_blocks.block_turn import blocks_message
from libs.middleware.program_messages import by_person, told
from libs.sandbox.protocol import Execution

BLOCK = "```python\nprint(1)\n```"
CODE = "print(1)"
BLOCK_CALL = BlockCall(language="python", code=CODE, key="k")
ENDED = Execution(language="python", code=CODE, output="1\n", exit_code=0, seconds=0.1)
RAN = blocks_message("it printed 1", [BLOCK_CALL], [ENDED], ["1"])
THREAD: Sequence[AnyMessage] = [
    HumanMessage("a summary", additional_kwargs={"lc_source": "summarization"}),
    HumanMessage("first task"),
    AIMessage("It is 4711."),
    told("No code was run."),
    AIMessage(BLOCK),
    RAN,
    AIMessage(BLOCK),
    HumanMessage("typed over a question that was dropped"),
    AIMessage("Done."),
]
TYPED = ["first task", "typed over a question that was dropped"]


def test_reopened_chat_shows_only_messages_of_people() -> None:
    assert list(tasks(THREAD)) == TYPED


def test_editor_shows_messages_of_people_and_block_output() -> None:
    shown: list[Any] = list(replayed(THREAD, lambda _: None))
    texts = [(each.session_update, each.content.text) for each in shown]
    assert [text for kind, text in texts if kind == "user_message_chunk"] == TYPED
    others = [text for kind, text in texts if kind != "user_message_chunk"]
    assert [BLOCK in text for text in others] == [False, True, False, True, False]
    assert "it printed 1" in others[2]
    assert not any("No code was run" in text or "a summary" in text for text in others)


def test_one_tool_agent_marks_its_nudge() -> None:
    state: Any = {"messages": [HumanMessage("Count the rows of /data/sales.csv."), AIMessage("4711.")]}
    update: Any = CallsInText("", "").after_model(state, None)  # type: ignore[arg-type]
    [nudge] = update["messages"]
    assert not by_person(nudge)


class Objecting(Growth):
    def __init__(self) -> None: ...

    async def objections(self) -> str:
        return "That is no skill yet."


async def test_objection_to_a_proposed_skill_is_marked() -> None:
    state: Any = {"messages": [HumanMessage("Learn it."), AIMessage("Done.")]}
    update: Any = await SkillGrowth(Objecting()).aafter_model(state, None)  # type: ignore[arg-type]
    [objection] = update["messages"]
    assert (objection.text, by_person(objection)) == ("That is no skill yet.", False)
