"""Prints a run for a person, at a terminal or in a log."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.segment import Segment, Segments

from agent.listing import absent_line, is_input, is_plot
from agent.run import (
    Approval,
    CommandEnded,
    CommandStarted,
    Event,
    FileMade,
    Message,
    Output,
    Result,
    Run,
    SecretSuspected,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from agent.secrets import KNOWN
from agent.terminal.effect_lines import described
from agent.terminal.harmless_text import harmless
from agent.terminal.word_wrap import WordWrap
from libs.code_blocks import without_thoughts
from libs.sandbox import in_one_line, program

__all__ = ["APPROVALS_OFF", "EventView", "HumanView"]

APPROVALS_OFF = "Approvals are off: every command, edit and deletion runs without asking."
_ALL_REJECTED = "Nobody is asked: every call that needs approval is rejected."

_PROMPTS = {"bash": "$", "python": ">>>"}
_GRANTED = {
    "command": "approved earlier in this thread: exactly this",
    "tool": "approved earlier in this thread: any call of this tool",
    "rule": "allowed by a rule",
    "effect": "ran at once, and changed nothing that needs approval",
}
_ENDINGS = {"error": "bold red", "stopped": "yellow"}
"""Status of a run whose result has a text that is not the model's -> style."""
_TASK = 200
"""Most characters of a task that are shown."""
_MARKS = {"completed": "✓", "in_progress": "›", "pending": " "}


class EventView:
    """Prints each event. Tabs stay unchanged, and markup is not interpreted.

    At a terminal, long lines of sentences are broken between words. Code, commands and output are not broken,
    so that a person can copy them.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._streaming: str | None = None
        """Id of the message whose pieces are printed now."""
        self._streamed: dict[str, str] = {}
        self._said = ""
        """The last whole reply."""
        self.at_line_start = True
        """Whether the last printed text ended its line."""
        self.printed_at = time.monotonic()
        """Time of the last printed text."""
        self._wrap = WordWrap()
        self._commands: dict[str, str] = {}
        self._output_of: str | None = None
        self._absent: set[str] = set()

    def show(self, event: Event) -> None:
        """Print an event."""
        match event:
            case TextDelta():
                self._delta(event)
            case Message(message_id=message_id, text=text, subagent=subagent):
                if (rest := _unsaid(text, self._streamed.get(message_id, ""))).strip():
                    self._delta(TextDelta(message_id, rest, subagent))
                self._end_line()
                self._said = text
            case CommandStarted(call_id=call_id, language=language, code=code, subagent=subagent):
                shown = _briefly(code) if code in self._said else code
                self._commands[call_id] = f"{_PROMPTS[language]} {_briefly(code)}"
                self._line(f"{_indent(subagent)}{_PROMPTS[language]} {shown}", "bold cyan")
                self._earlier(event.granted)
                self._output_of = call_id
            case Output(call_id=call_id, text=text):
                self._output(call_id, text)
            case CommandEnded(execution=done):
                self._output_of = None
                self._line(f"  {event.ended}", "green" if done["exit_code"] == 0 else "red")
                if done["exit_code"] in (None, 125):  # the command printed nothing: show the reason
                    self._line(f"  {done['output']}", "red")
            case ToolStarted(name=name, args=args, subagent=subagent):
                self._line(f"{_indent(subagent)}• {_about_tool(name, args)}", "cyan")
                self._earlier(event.granted)
            case ToolEnded(name=name, error=error):
                if error is not None:
                    self._line(f"  {name}: {error}", "red")
            case SecretSuspected(found=found):
                self._line("  This looks like a secret, and is in the thread now:", "yellow")
                for each in found:
                    self._line(
                        f"    {each['kind']} {each['sample']} in line {each['line']} of the output", "yellow"
                    )
            case FileMade(path=path):
                self._line(f"+ {in_one_line(path)}{'  (plot)' if is_plot(path) else ''}", "magenta")
            case Approval(question=question):
                for index in range(len(question["action_requests"])):
                    self.show_request(question, index)

    def show_request(self, question: Mapping[str, Any], index: int) -> None:
        """Print one call of an approval, whole."""
        requests: Sequence[Mapping[str, Any]] = question["action_requests"]
        count = f" ({index + 1} of {len(requests)})" if len(requests) > 1 else ""
        waits = (
            "Has run, and waits for your decision" if "effect" in requests[index] else "Waits for approval"
        )
        self._line(f"{waits}{count}:", "bold yellow")
        self.show_lines(described(requests[index]))

    def show_lines(self, lines: Iterable[tuple[str, str]]) -> None:
        """Print lines, each with its style, below each other."""
        for line, style in lines:
            self._line(f"  {line}" if line else "", style)

    def say(self, text: str, style: str = "", *, whole: bool = False) -> None:
        """Print text as lines of their own. `whole`: do not break long lines, so that they can be copied."""
        self._end_line()
        self._line(text if whole else self._wrapped(text) + self._rest(), style)

    def say_command(self, arguments: Sequence[str]) -> None:
        """Print a command of this program that a person can copy."""
        self.say(f"  {shlex.join([program(), *arguments])}", whole=True)

    def say_go_on(self, arguments: Sequence[str], task: str = "") -> None:
        """Print the command of this program that continues a thread."""
        self.say(f"Go on: {shlex.join([program(), *arguments])}{task}", "dim", whole=True)

    def say_new_workspace(self, folder: Path) -> None:
        """Print where files will be, if the folder of the workspace does not exist yet."""
        if not folder.exists():
            self.say(f"New workspace in {folder.absolute()}", "dim", whole=True)

    def say_pending(self, arguments: Sequence[str]) -> None:
        """Print that calls are pending, and the commands that ask about the calls or approve them."""
        self.say("Pending calls wait for a decision. Continue at a terminal, or approve them:", "yellow")
        self.say_command(arguments)
        self.say_command([*arguments, "--approve", "auto"])

    def finish(self, result: Result) -> None:
        """Print the error and the files of a run, and the paths of the task that do not exist."""
        self._end_line()
        if result.status in _ENDINGS and result.text != self._said:
            self.say(result.text, _ENDINGS[result.status])
        self.console.print()
        for path in result.files:
            self._line(f"{'Plot' if is_plot(path) else 'File'}: {in_one_line(path)}", "magenta")
        self._say_absent(result.absent_paths)

    def say_absent(self, paths: Sequence[str]) -> None:
        """Print, before a question, the absent paths of the task below /data that were not named yet."""
        self._say_absent([path for path in paths if is_input(path) and path not in self._absent])
        self._absent.update(paths)

    def _say_absent(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._line(absent_line(path), "yellow")

    def _earlier(self, granted: str | None) -> None:
        if granted:
            self._line(f"  {_GRANTED[granted]}", "yellow")

    def _delta(self, delta: TextDelta) -> None:
        if self._streaming != delta.message_id:
            self._end_line()
            self._streaming = delta.message_id
            self._streamed.setdefault(delta.message_id, "")
            self.console.print()
            if delta.subagent:
                self._print("[subagent]\n", "dim")
        self._streamed[delta.message_id] += delta.text
        self._piece(self._wrapped(delta.text), "")

    def _output(self, call_id: str, text: str) -> None:
        if self._output_of != call_id:
            command = self._commands.get(call_id)  # shown later, if the command runs before it is approved
            self._line(f"output of {command[:100]}" if command else "output", "dim")
            self._output_of = call_id
        for line in harmless(text).splitlines(keepends=True):
            self._piece(f"  │ {line}" if self.at_line_start else line, "dim")

    def _wrapped(self, text: str) -> str:
        """Return the part of streamed text that can be printed now; at a terminal, broken between words."""
        return self._wrap.feed(harmless(text), self.console.width) if self.console.is_terminal else text

    def _rest(self) -> str:
        return self._wrap.end(self.console.width) if self.console.is_terminal else ""

    def _piece(self, text: str, style: str) -> None:
        """Print text that may end in the middle of a line."""
        if text:
            text = harmless(text)
            self._print(text, style)
            self.at_line_start = text.endswith("\n")

    def _line(self, text: str, style: str) -> None:
        self._end_line()
        self._print(f"{harmless(text)}\n", style)

    def _print(self, text: str, style: str) -> None:
        self.printed_at = time.monotonic()
        # As segments, because rich expands tabs and folds long lines in text.
        segments = Segments([Segment(text, self.console.get_style(style))])
        self.console.print(segments, end="", crop=False, soft_wrap=True)

    def _end_line(self) -> None:
        self._streaming = None
        self._piece(self._rest(), "")
        if not self.at_line_start:
            self.console.print()
            self.at_line_start = True


class HumanView(EventView):
    """Prints one run, with a header, and at the end the command that goes on, with `options` again.

    `task` is None for a run that resumes a thread.
    """

    def __init__(
        self,
        console: Console,
        run: Run,
        model: str,
        approvals: str,
        options: Sequence[str],
        *,
        task: str | None = None,
    ) -> None:
        super().__init__(console)
        self._model = model
        self._go_on = ["run", "--thread", run.thread_id, *options]
        self.goes_on = True
        """Whether the model can answer another message. If not, `finish` prints no command for it."""
        self.files_travel = False
        """Whether no folder of this machine has the files: `finish` prints a command that copies them."""
        self._line(f"Thread {run.thread_id}, {run.agent} agent, model {model}", "dim")
        if task is not None:
            said = " ".join(KNOWN(task).split())
            self._line(f"Task: {said if len(said) <= _TASK else f'{said[:_TASK]} …'}", "dim")
        if approvals in ("auto", "reject"):
            self._line(APPROVALS_OFF if approvals == "auto" else _ALL_REJECTED, "yellow")

    def finish(self, result: Result) -> None:
        """Print how the run ended, its files, and the command that goes on."""
        super().finish(result)
        if result.files and self.files_travel:
            self.say("The files are on another machine. To copy all files of the thread:", "dim")
            self.say_command(["files", str(result.thread_id), "--to", "FOLDER"])
        self._line(f"Thread {result.thread_id}: {result.status}. Model: {self._model}", "dim")
        if result.status == "interrupted":
            self.say_pending(self._go_on)
        elif self.goes_on:
            self.say_go_on(self._go_on, ' "…"')


def _indent(subagent: bool) -> str:
    return "[subagent] " if subagent else ""


def _unsaid(text: str, streamed: str) -> str:
    """Return the end of a reply that was not streamed, such as words added at the end of a run."""
    for said in (streamed, without_thoughts(streamed)):
        if text.startswith(said):
            return text.removeprefix(said)
    return text


def _briefly(code: str) -> str:
    """Return the first line of code and the number of lines."""
    first, *others = code.split("\n")
    return f"{first} … ({len(others) + 1} lines)" if others else first


def _about_tool(name: str, args: Mapping[str, Any]) -> str:
    if name == "write_todos" and isinstance(args.get("todos"), list):
        steps = (
            f"\n    {_MARKS.get(step.get('status'), '?')} {step.get('content')}" for step in args["todos"]
        )
        return f"plan{''.join(steps)}"
    shown = args.get("file_path") or args.get("path") or args.get("pattern") or args.get("description") or ""
    return f"{name} {str(shown)[:200]}".rstrip()
