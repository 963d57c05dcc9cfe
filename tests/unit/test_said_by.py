"""Who has said a message: what the program tells a model is never shown as a person's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from agent.acp.replay import replayed
from agent.chat.recalled import tasks
from agent.exec_text import CallsInText
from agent.skill_growth import Growth
from agent.skill_growth_middleware import SkillGrowth
from libs.code_blocks.protocol import Execution
from libs.code_blocks.state import Approved
from libs.code_blocks.told import told_of_blocks
from libs.middleware.told import by_person, told

BLOCK = "```python\nprint(1)\n```"
CODE = "print(1)"
APPROVED = Approved(language="python", code=CODE, key="k", refused=None)
ENDED = Execution(language="python", code=CODE, output="1\n", exit_code=0, seconds=0.1)
RAN = told_of_blocks("it printed 1", [APPROVED], [ENDED])
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


def test_a_thread_that_is_opened_again_shows_what_people_have_asked() -> None:
    assert list(tasks(THREAD)) == TYPED


def test_an_editor_is_shown_the_same_and_what_blocks_have_printed() -> None:
    shown: list[Any] = list(replayed(THREAD, lambda _: None))
    texts = [(each.session_update, each.content.text) for each in shown]
    assert [text for kind, text in texts if kind == "user_message_chunk"] == TYPED
    others = [text for kind, text in texts if kind != "user_message_chunk"]
    assert [BLOCK in text for text in others] == [False, True, False, True, False]
    assert "it printed 1" in others[2]
    assert not any("No code was run" in text or "a summary" in text for text in others)


def test_the_one_tool_agent_marks_its_nudge() -> None:
    state: Any = {"messages": [HumanMessage("Count the rows of /data/sales.csv."), AIMessage("4711.")]}
    update: Any = CallsInText("", "").after_model(state, None)  # type: ignore[arg-type]
    [nudge] = update["messages"]
    assert not by_person(nudge)


class Objecting(Growth):
    def __init__(self) -> None: ...

    async def objections(self) -> str:
        return "That is no skill yet."


async def test_what_is_said_of_proposed_skills_is_marked() -> None:
    state: Any = {"messages": [HumanMessage("Learn it."), AIMessage("Done.")]}
    update: Any = await SkillGrowth(Objecting()).aafter_model(state, None)  # type: ignore[arg-type]
    [objection] = update["messages"]
    assert (objection.text, by_person(objection)) == ("That is no skill yet.", False)
