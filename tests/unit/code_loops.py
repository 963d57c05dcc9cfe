"""Code-block loops on the engine without a container, for the tests of the loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGenerationChunk
from langgraph.graph.state import CompiledStateGraph
from pydantic import PrivateAttr

from libs.code_blocks import CodeLoop, SandboxRunner
from libs.code_blocks.model import TextModel
from libs.middleware.answers import answer_by_id
from libs.middleware.budget import Budget, Meter
from libs.models.scripted import Conversation, Reply, ScriptedChatModel
from libs.sandbox.local import LocalSandbox

TASK = "Count the rows of /data/sales.csv."
SYSTEM = "You write code."
FULL = Budget()


class Recording(ScriptedChatModel):
    """Plays its script and keeps every request, with whatever was sent along."""

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


class InTurn(Recording):
    """Gives its replies one after the other, whatever it is sent."""

    def _next(self, messages: Any) -> AIMessage:
        return AIMessage(self.conversations[0].replies[len(self._requests) - 1].text)


def playing(*replies: str, model: type[ScriptedChatModel] = Recording) -> Any:
    """A model that gives these replies."""
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
    """A graph whose blocks run as this user in `folder`."""

    async def opening() -> list[AnyMessage]:
        return [SystemMessage(SYSTEM)]

    with LocalSandbox(folder / "workspace") as sandbox:
        loop = CodeLoop(
            model,
            runner(lambda: sandbox, scratch=str(folder / "scratch")),
            opening=opening,
            meter=lambda spent: Meter(budget, spent=spent),  # type: ignore[arg-type]
            **options,
        )
        yield answer_by_id(loop.graph(checkpointer=checkpointer))


def run(folder: Path, *replies: str, task: str = TASK, **options: Any) -> dict[str, Any]:
    """Run a task to its end with a model that gives these replies."""
    with looping(folder, playing(*replies), **options) as graph:
        result: dict[str, Any] = graph.invoke({"messages": [HumanMessage(task)]})
    return result


def said_to_the_model(result: dict[str, Any]) -> list[str]:
    """What the loop itself told the model, in order."""
    return [message.text for message in result["messages"][1:] if isinstance(message, HumanMessage)]


def outputs(result: dict[str, Any]) -> list[str]:
    """What each block printed."""
    return [each["output"].strip() for each in result["executions"]]


def roles(messages: Sequence[BaseMessage]) -> list[str]:
    return [message.type for message in messages]
