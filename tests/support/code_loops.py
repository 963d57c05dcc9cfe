"""Code-block agents on a local sandbox, for tests of the loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGenerationChunk
from langgraph.graph.state import CompiledStateGraph
from pydantic import PrivateAttr

from libs.code_blocks import EDITS, CodeLoop, SandboxRunner
from libs.code_blocks.block_model import TextModel
from libs.middleware.approvals.addressed_graph import answer_by_id
from libs.middleware.budget.run_budget import Budget
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel
from libs.sandbox.host.local_sandbox import LocalSandbox

TASK = "Count the rows of /data/sales.csv."
SYSTEM = "You write code."
FULL = Budget()


class Recording(ScriptedChatModel):
    """A scripted model that keeps every request and its options."""

    _requests: list[tuple[list[BaseMessage], dict[str, Any]]] = PrivateAttr(default_factory=list)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        self._requests.append((list(messages), {"stop": stop, **kwargs}))
        return super()._stream(messages, stop, run_manager, **kwargs)


def playing(*replies: str, model: type[ScriptedChatModel] = Recording) -> Any:
    """Return a model with these replies."""
    return model(conversations=(Conversation(replies=tuple(Reply(text=text) for text in replies)),))


def bash(code: str) -> str:
    return f"```bash\n{code}\n```"


def python(code: str) -> str:
    return f"```python\n{code}\n```"


@contextmanager
def looping(
    folder: Path,
    model: TextModel,
    *,
    budget: Budget = FULL,
    checkpointer: Any = None,
    runner: type[SandboxRunner] = SandboxRunner,
    **options: Any,
) -> Iterator[CompiledStateGraph[Any, Any, Any, Any]]:
    """Make a graph whose blocks run as the current user in `folder`."""

    async def opening(_: Sequence[str]) -> list[AnyMessage]:
        return [SystemMessage(SYSTEM)]

    with LocalSandbox(folder / "workspace") as sandbox:
        loop = CodeLoop(
            model=model,
            runner=runner(lambda: sandbox, scratch=str(folder / "scratch")),
            opening=opening,
            budget=budget,
            **options,
        )
        yield answer_by_id(loop.graph(checkpointer=checkpointer), edits=EDITS)


def run(folder: Path, *replies: str, task: str = TASK, **options: Any) -> dict[str, Any]:
    """Run a task to its end with a model that gives these replies."""
    with looping(folder, playing(*replies), **options) as graph:
        result: dict[str, Any] = graph.invoke({"messages": [HumanMessage(task)]})
    return result


def said_to_the_model(result: dict[str, Any]) -> list[str]:
    """Return the messages that the loop sent to the model, in order."""
    return [message.text for message in result["messages"][1:] if isinstance(message, HumanMessage)]


def outputs(result: dict[str, Any]) -> list[str]:
    """Return the output of each block."""
    return [each["output"].strip() for each in result["executions"]]


def roles(messages: Sequence[BaseMessage]) -> list[str]:
    return [message.type for message in messages]
