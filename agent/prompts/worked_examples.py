"""Worked examples as turns of a conversation, for a local model.

A small model follows examples better than rules. The examples are the same for every task.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from pydantic import BaseModel, ConfigDict, Field

from agent.prompts.code_prompt import data_section

__all__ = ["WorkedExample", "example_turns", "worked_examples"]

_FILE = Path(__file__).with_suffix(".yaml")


class WorkedExample(BaseModel):
    """A task, the code that does it, what the code prints, and the answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str
    files: dict[str, str] = Field(default_factory=dict)
    """Name in /data -> content."""
    listing: str = ""
    """The listing of /data."""
    plan: str
    code: str
    output: str
    answer: str


@cache
def worked_examples() -> list[WorkedExample]:
    """Read the examples in `worked_examples.yaml`. Blocks: do not call on the event loop."""
    return [WorkedExample.model_validate(each) for each in yaml.safe_load(_FILE.read_text(encoding="utf-8"))]


def example_turns() -> list[AnyMessage]:
    """Return four messages for each example: task, reply with code, output, answer."""
    turns: list[AnyMessage] = []
    for example in worked_examples():
        turns += [
            HumanMessage(f"{data_section(example.listing)}\n\n{example.task}".lstrip()),
            AIMessage(f"{example.plan}\n```python\n{example.code.rstrip()}\n```"),
            HumanMessage(f"The python block succeeded:\n```output\n{example.output}\n```"),
            AIMessage(example.answer),
        ]
    return turns
