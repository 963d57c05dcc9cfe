"""A conversation: lines in, turns of an agent out, in one thread after another."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Protocol

from rich.console import Console

from agent.agents import AgentRefused
from agent.ask import Answers, LeftPending, ask_person
from agent.carry_out import approve_all, carry_out
from agent.chat.commands import COMMANDS, completions, name_of
from agent.chat.meanwhile import TypedMeanwhile
from agent.chat.recalled import last_answer, tasks
from agent.config import SettingsError
from agent.events import Approval, Result
from agent.explained import explained
from agent.installation import Installation
from agent.plots import show_plots
from agent.produced import listing
from agent.show import APPROVALS_OFF, EventView
from agent.stop import STOPPED, on_ctrl_c
from libs.models.deferred import ModelUnavailable
from libs.models.scripted import ScriptError
from libs.persistence.errors import CheckpointerUnavailable
from libs.persistence.thread_lock import ThreadInUse
from libs.sandbox.errors import SandboxError

__all__ = ["Chat", "Lines"]

_STATUS = {"completed": 0, "interrupted": 3, "max_steps": 4}
_PROMPT = "> "
_AGAIN = 2.0
"""Seconds after Ctrl-C has stopped something in which another one ends the program."""
_RECALLED = 2_000
"""Characters of a message that are shown again."""
_ENDED = {
    "no_execution": "The model ran none of the code that the task needs.",
    "max_steps": "The steps of this turn are used up: another message goes on.",
}
_WAITS = "Nothing of what waits was run. /continue asks again; another message drops it."


class Lines(Protocol):
    """Where messages come from."""

    async def next(self, prompt: str, begun: str = "") -> str:
        """The next line. Raises EOFError at the end, KeyboardInterrupt for Ctrl-C."""
        ...


class Chat:
    """One conversation.

    Args:
        installation: carries out the turns.
        console: where they are shown.
        answers: where a person answers questions; None: nobody is there, and what waits stays.
        thread_id: the thread to begin with; None for a new one.
        asked: the agent of new threads, or `auto`.
    """

    def __init__(
        self,
        installation: Installation,
        console: Console,
        *,
        answers: Answers | None,
        thread_id: str | None = None,
        asked: Any = "auto",
    ) -> None:
        self.installation = installation
        self.console = console
        self.view = EventView(console)
        self.thread_id = thread_id or secrets.token_hex(4)
        self.asked = asked
        self.ended = False
        self.threads: Sequence[str] = ()
        """Those that are offered as completions."""
        self.files: Sequence[str] = ()
        """Likewise, relative to the workspace."""
        self._answers = answers
        self._meanwhile = TypedMeanwhile(heard=answers is not None)
        self._status = 0
        self._stopped = -_AGAIN
        """When Ctrl-C has stopped something last."""

    def suggest(self, line: str) -> Sequence[str]:
        """What a command that was begun may go on as."""
        return completions(self, line)

    async def converse(self, lines: Lines) -> int:
        """Until the end of the lines, or /exit; the exit status of the program."""
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
                await self._stoppable(self._take(line))
            if self._answers is None and self._status == _STATUS["interrupted"]:
                break  # the next line would drop what waits, which its writer could not know of
        return self._status

    def complain(self, text: str, status: int = 1) -> None:
        """Say what went wrong."""
        from agent.sinks import KNOWN

        self.view.say(KNOWN(text), "bold red")
        self._status = status

    async def go_to(self, thread_id: str) -> None:
        """Go on in another thread, or begin one."""
        self.thread_id = thread_id
        await self._open()

    async def turn(self, task: str | None) -> None:
        """One turn: a task, or what is pending in the thread."""
        held = ExitStack()
        await asyncio.to_thread(held.enter_context, self.installation.hold(self.thread_id))
        try:
            await self._carry_out(task)
        finally:
            held.close()

    async def introduce(self) -> None:
        """Say which thread, agent and model this is."""
        agent = await self.installation.agent(self.thread_id, self.asked)
        model = name_of(self.installation.model)
        self.view.say(
            f"Thread {self.thread_id}, {agent} agent, model {model}. /help lists the commands.", "dim"
        )
        if self.installation.settings.approvals == "auto":
            self.view.say(APPROVALS_OFF, "yellow")

    async def refresh(self) -> None:
        """Look at what is offered as completions."""
        self.threads = await self.installation.threads.newest(50)
        workspace = self.installation.settings.workspace_of(self.thread_id)
        self.files = sorted(await asyncio.to_thread(listing, workspace))

    async def _open(self) -> None:
        await self.introduce()
        await self.refresh()
        state = await self.installation.state(self.thread_id)
        if state is None:
            return
        self._recall(state.values.get("messages", []))
        if state.interrupts:
            await self.turn(None)
        elif state.next:
            self.view.say("This thread was broken off: /continue goes on with it.", "yellow")

    def _recall(self, messages: Sequence[Any]) -> None:
        """The last thing that was asked, and the last that was answered."""
        asked = list(tasks(messages))
        for text in (f"{_PROMPT}{asked[-1]}" if asked else "", last_answer(messages)):
            if text:
                self.view.say(text if len(text) <= _RECALLED else f"{text[:_RECALLED]} …", "dim")

    async def _take(self, line: str) -> None:
        word, _, rest = line.strip().partition(" ")
        # A path is a message: "/data/sales.csv has which columns?"
        if not line.startswith("/") or "/" in word[1:]:
            await self.turn(line.strip())
        elif (command := COMMANDS.get(word)) is not None:
            await command.act(self, rest.strip())
        else:
            self.complain(
                f"There is no command {word}: /help lists them. With a blank before it, it is a message.", 2
            )

    async def _carry_out(self, task: str | None) -> None:
        approvals = self.installation.settings.approvals
        # Only a graph with the gate in it knows of the questions that wait at the gate.
        run = await self.installation.run(self.thread_id, self.asked, approvals="ask")
        state = await run.state()
        if task is None and not state.next:
            self.view.say("Nothing is pending in this thread.", "dim")
            return
        if approvals == "auto" and (task is not None or not state.interrupts):
            run = await self.installation.run(self.thread_id, self.asked, approvals="auto")
        self.view = EventView(self.console)
        view = _TurnView(self.view)

        async def decide(approval: Approval) -> list[dict[str, Any]]:
            if approvals == "auto":
                return await approve_all(approval, view)
            if self._answers is None:
                view.show(approval)
                raise LeftPending(by_ctrl_c=False)
            with self._meanwhile.deaf():
                return await ask_person(
                    approval.question,
                    lambda index: self.view.show_request(approval.question, index),
                    self._answers,
                )

        with self._meanwhile.listening():
            outcome = await carry_out(run, view, task, decide)
        if outcome.by_ctrl_c == "stopped":
            self._stopped = time.monotonic()
            self.view.say("Stopped, with all that was started. The conversation goes on.", "yellow")
        await self._tell(outcome.result, stopped=outcome.by_ctrl_c == "stopped")

    async def _tell(self, result: Result, *, stopped: bool) -> None:
        self._status = 4 if result.status.startswith("budget_") else _STATUS.get(result.status, 1)
        if self.console.is_terminal:
            with self.installation.within(self.thread_id) as computer:
                await show_plots(result.files, computer, self.console)
        if not stopped:
            self.view.ended(result)
        if result.status == "interrupted":
            self.view.say(_WAITS, "yellow")
        elif (text := _ENDED.get(result.status)) or result.status.startswith("budget_"):
            self.view.say(text or f"Ended: {result.status}.", "yellow")
        await self.refresh()

    async def _stoppable(self, doing: Any) -> None:
        """Do something that Ctrl-C stops, after which the conversation goes on."""
        task = asyncio.ensure_future(_explaining(self, doing))
        with on_ctrl_c(task), suppress(asyncio.CancelledError):
            await task


class _TurnView:
    """Shows the steps of a turn. An error that nobody has foreseen ends the program, and is told before."""

    def __init__(self, view: EventView) -> None:
        self.show = view.show
        self.finish = view.ended


async def _explaining(chat: Chat, doing: Awaitable[None]) -> None:
    """Do it; what is known to go wrong is said, and the conversation goes on."""
    try:
        await doing
    except (SandboxError, CheckpointerUnavailable) as error:
        chat.complain(f"{error} {error.hint}")
    except (AgentRefused, SettingsError, ScriptError, ModelUnavailable, ThreadInUse) as error:
        chat.complain(str(error), 2)
    except Exception as error:
        if (text := explained(error)) is None:
            raise
        chat.complain(text)
