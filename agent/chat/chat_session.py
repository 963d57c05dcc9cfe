"""Holds a conversation: reads lines, and carries out turns of an agent or commands."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from langchain_core.messages import AIMessage, AnyMessage
from rich.console import Console

from agent.chat.typed_lines import TypedLines
from agent.models import shown_name
from agent.run import Approval, Result, Runtime, complaint
from agent.secrets import KNOWN
from agent.terminal import (
    APPROVALS_OFF,
    STOPPED,
    EventView,
    Person,
    ask_person,
    exit_status,
    on_ctrl_c,
    take_turn,
)
from agent.terminal.terminal_plots import show_plots
from agent.terminal.typed_answers import TypedAnswers
from agent.threads import held
from libs.middleware.program_messages import by_person
from libs.middleware.unfinished import is_unfinished

__all__ = ["Chat", "Command", "Lines", "tasks"]

_PROMPT = "> "
_AGAIN = 2.0
"""Seconds after Ctrl-C has stopped a turn in which a second Ctrl-C ends the program."""
_RECALLED = 2_000
"""Characters of a message that are shown again."""
_ENDED = {
    "no_execution": "The model was asked again, and sent no code that can be run.",
    "max_steps": "This turn reached its step limit. Send another message to continue.",
}
_WAITS = "Pending calls wait for a decision. /continue asks again; another message drops them."


class Lines(Protocol):
    """Source of the lines of a conversation."""

    async def next(self, prompt: str, begun: str = "") -> str:
        """Return the next line. Raises EOFError at the end, KeyboardInterrupt for Ctrl-C."""
        ...


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command, which is for the program and not for the agent."""

    usage: str
    about: str
    act: Callable[[Chat, str], Awaitable[None]]
    words: Callable[[Chat], Sequence[str]] = lambda _: ()
    """Returns completions for the argument."""


class Chat:
    """One conversation.

    Args:
        commands: first word of each command -> the command.
        answers: reads a person's answers; None: there is no person, and approvals stay pending.
        thread_id: the first thread; None for a new thread.
        options: options such as `--model` to print in the commands that continue a thread.
    """

    def __init__(
        self,
        runtime: Runtime,
        console: Console,
        commands: Mapping[str, Command],
        *,
        answers: TypedAnswers | None,
        thread_id: str | None = None,
        asked: Any = "auto",
        options: Sequence[str] = (),
    ) -> None:
        self.runtime = runtime
        self.console = console
        self.commands = commands
        self.view = EventView(console)
        self.thread_id = thread_id or secrets.token_hex(4)
        self.asked = asked
        self.options = options
        self.ended = False
        self.threads: Sequence[str] = ()
        """Threads that are offered as completions."""
        self.files: Sequence[str] = ()
        """Files that are offered as completions, relative to the workspace."""
        self._answers = answers
        self._meanwhile = TypedLines(heard=answers is not None)
        self._status = 0
        self._stopped = -_AGAIN
        """Time at which Ctrl-C last stopped a turn."""

    def suggest(self, line: str) -> Sequence[str]:
        """Return whole lines that complete the beginning of a command."""
        name, blank, _ = line.partition(" ")
        if not blank:
            return (
                [known for known in self.commands if known.startswith(line)] if line.startswith("/") else []
            )
        command = self.commands.get(name)
        return [f"{name} {word}" for word in command.words(self)] if command else []

    async def converse(self, lines: Lines) -> int:
        """Read lines until their end or /exit; return the exit status of the program.

        If calls are pending at the end, or nobody is at a terminal, prints the commands that continue the
        thread.
        """
        self.view.say_new_workspace(self.runtime.settings.workspace_dir)
        status = await self._converse(lines)
        if self._status == exit_status("interrupted"):
            await self._say_how_to_continue()
        elif self._answers is None and await self._can_go_on():
            self.view.say_go_on(["chat", "--thread", self.thread_id, *self.options])
        return status

    async def _converse(self, lines: Lines) -> int:
        await self._stoppable(self._open())
        interrupted = False
        if self._answers is None and self._status:
            return self._status
        while not (self.ended or self._meanwhile.at_end):
            begun = self._meanwhile.taken()
            try:
                line = await lines.next(_PROMPT, begun)
            except EOFError:
                break
            except KeyboardInterrupt:
                if interrupted or time.monotonic() - self._stopped < _AGAIN:
                    return STOPPED
                interrupted = True
                self.view.say("Ctrl-C again, or Ctrl-D, ends the program.", "dim")
                continue
            except ValueError as error:
                self.complain(str(error), 2)
                break
            interrupted = False
            if line.strip():
                if self._answers is None:  # at a terminal the line is on the screen already
                    self.view.say(f"{_PROMPT}{_briefly(KNOWN(line))}", "dim")
                await self._stoppable(self._take(line))
            if self._answers is None and self._status == exit_status("interrupted"):
                break  # the next line would drop the pending calls, which its writer does not know
        return self._status

    def complain(self, text: str, status: int = 1) -> None:
        """Print an error and set the exit status."""
        self.view.say(KNOWN(text), "bold red")
        self._status = status

    async def go_to(self, thread_id: str) -> None:
        """Change to another thread, which may be new."""
        self.thread_id = thread_id
        await self._open()

    async def turn(self, task: str | None) -> None:
        """Carry out a task; None: resume what is pending in the thread."""
        async with held(self.thread_id):
            await self._carry_out(task)

    async def introduce(self) -> None:
        """Print thread, agent and model."""
        agent = await self.runtime.agent(self.thread_id, self.asked)
        model = shown_name(self.runtime.model)
        said = f"Thread {self.thread_id}, {agent} agent, model {model}. /help lists the commands."
        self.view.say(said, "dim")
        if self.runtime.settings.approvals == "auto":
            self.view.say(APPROVALS_OFF, "yellow")

    async def refresh(self) -> None:
        """Update the completions."""
        self.threads = await self.runtime.threads.newest(50)
        self.files = sorted(await self.runtime.listing(self.thread_id))

    async def _open(self) -> None:
        await self.introduce()
        await self.refresh()
        state = await self.runtime.state(self.thread_id)
        if state is None:
            return
        self._recall(state.values.get("messages", []))
        if state.interrupts:
            await self.turn(None)
        elif is_unfinished(state):
            self.view.say("The last run of this thread was interrupted: /continue resumes it.", "yellow")

    def _recall(self, messages: Sequence[Any]) -> None:
        """Print the last message of the person and the last answer."""
        asked = list(tasks(messages))
        for text in (f"{_PROMPT}{asked[-1]}" if asked else "", _last_answer(messages)):
            if text:
                self.view.say(_briefly(text), "dim")

    async def _take(self, line: str) -> None:
        word, _, rest = line.strip().partition(" ")
        # A path is a message: "/data/sales.csv has which columns?"
        if not line.startswith("/") or "/" in word[1:]:
            await self.turn(line.strip())
        elif (command := self.commands.get(word)) is not None:
            await command.act(self, rest.strip())
        else:
            self.complain(
                f"There is no command {word}: /help lists them. With a blank before it, it is a message.", 2
            )

    async def _carry_out(self, task: str | None) -> None:
        run = await self.runtime.run(self.thread_id, self.asked, pending=task is None)
        if task is None and not is_unfinished(await run.state()):
            self.view.say("Nothing is pending in this thread.", "dim")
            return
        await self.runtime.check(run.agent)
        self.view = EventView(self.console)
        approvals = self.runtime.settings.approvals
        ask = None if self._answers is None else partial(self._ask, self._answers)
        with self._meanwhile.listening():
            outcome = await take_turn(run, self.view, task, approvals=approvals, ask=ask)
        if outcome.by_ctrl_c == "stopped":
            self._stopped = time.monotonic()
            self.view.say(
                "Stopped, including all processes that the run started. You can continue the conversation.",
                "yellow",
            )
        await self._tell(outcome.result, stopped=outcome.by_ctrl_c == "stopped")

    async def _ask(self, answers: TypedAnswers, approval: Approval) -> list[dict[str, Any]]:
        with self._meanwhile.listening(on=False):
            rules = await asyncio.to_thread(lambda: self.runtime.rules)
            person = Person(answers, rules, self.runtime)
            return await ask_person(approval, view=self.view, person=person, thread=self.thread_id)

    async def _tell(self, result: Result, *, stopped: bool) -> None:
        self._status = exit_status(result.status)
        if self.console.is_terminal:
            with self.runtime.within(self.thread_id) as computer:
                await show_plots(result.files, computer, self.console)
        if not stopped:
            self.view.finish(result)
        if result.status == "interrupted":
            if self._answers:
                self.view.say(_WAITS, "yellow")
        elif (text := _ENDED.get(result.status)) or result.status.startswith("budget_"):
            self.view.say(text or f"Ended: {result.status}.", "yellow")
        await self.refresh()

    async def _can_go_on(self) -> bool:
        """Return whether the thread exists and its model can answer another message."""
        state = await self.runtime.state(self.thread_id)
        return state is not None and await self.runtime.goes_on(self.thread_id)

    async def _say_how_to_continue(self) -> None:
        state = await self.runtime.state(self.thread_id)
        if state is None or not state.interrupts:  # the last line changed to another thread
            return
        if self._answers is None:
            self.view.say_pending(["run", "--thread", self.thread_id, *self.options])
        else:
            self.view.say(f"Calls wait for approval in thread {self.thread_id}. Continue:", "yellow")
            self.view.say_command(["chat", "--thread", self.thread_id, *self.options])

    async def _stoppable(self, doing: Any) -> None:
        """Run a coroutine that Ctrl-C cancels; the conversation goes on."""
        task = asyncio.ensure_future(_explaining(self, doing))
        with on_ctrl_c(task), suppress(asyncio.CancelledError):
            await task


def _briefly(text: str) -> str:
    return text if len(text) <= _RECALLED else f"{text[:_RECALLED]} …"


def tasks(messages: Sequence[AnyMessage]) -> Iterator[str]:
    """Yield the messages of people in a thread."""
    return (message.text for message in messages if by_person(message))


def _last_answer(messages: Sequence[AnyMessage]) -> str:
    answers = (message.text for message in reversed(messages) if isinstance(message, AIMessage))
    return next((text for text in answers if text.strip()), "")


async def _explaining(chat: Chat, doing: Awaitable[None]) -> None:
    """Await `doing`; an expected error is printed, and the conversation goes on."""
    try:
        await doing
    except Exception as error:
        if (told := complaint(error)) is None:
            raise
        chat.complain(*told)
