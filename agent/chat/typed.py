"""What a person types at a terminal: lines with editing, history and completion, and answers to questions.

Built on prompt_toolkit, which reads keys on the event loop and so holds nothing up.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output
from prompt_toolkit.output.plain_text import PlainTextOutput
from prompt_toolkit.utils import is_dumb_terminal

from agent.ask import LeftPending
from agent.show import harmless
from agent.sinks import KNOWN

__all__ = ["KeptHistory", "TypedAnswers", "TypedLines"]

_MOST = 1_000
"""Lines of history that are kept."""

Suggest = Callable[[str], Sequence[str]]
"""What a line that was begun may go on as: whole lines."""


def _session(**options: Any) -> PromptSession[str]:
    """A prompt at this terminal."""
    if is_dumb_terminal():  # prompt_toolkit then writes what is typed and nothing else
        with create_app_session(output=PlainTextOutput(sys.stdout)):
            return PromptSession(**options)
    output = create_output()
    # Asking where the cursor is would leave an answer in the input of a program that has ended meanwhile.
    if hasattr(output, "enable_cpr"):
        output.enable_cpr = False
    return PromptSession(**options, output=output)


class KeptHistory(FileHistory):
    """Lines in a file that only its owner reads, without known secrets; the newest 1,000."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        super().__init__(path)
        kept = list(self.load_history_strings())
        if len(kept) > 2 * _MOST:
            path.write_text("")
            for line in reversed(kept[:_MOST]):
                self.store_string(line)

    def store_string(self, string: str) -> None:
        """Keep a line. A disk that is full costs the history, not the conversation."""
        with contextlib.suppress(OSError):
            super().store_string(KNOWN(string))


class _Suggested(Completer):
    def __init__(self, suggest: Suggest) -> None:
        self._suggest = suggest

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        text = document.text_before_cursor
        for line in self._suggest(text):
            if line.startswith(text) and line != text:
                # From the last word on, as that is what the menu shows.
                start = text.rfind(" ") + 1
                shown = harmless(line[start:])
                if shown == line[start:]:  # what would be typed can be seen
                    yield Completion(line[start:], start_position=start - len(text))


class TypedLines:
    """The lines of a conversation.

    Args:
        history: the file that keeps them from one session to the next.
        suggest: completes commands.
    """

    def __init__(self, history: Path, suggest: Suggest) -> None:
        keys = KeyBindings()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        self._session = _session(
            history=KeptHistory(history),
            completer=_Suggested(suggest),
            complete_while_typing=Condition(lambda: self._session.default_buffer.text.startswith("/")),
            key_bindings=keys,
            enable_open_in_editor=False,
            # Alt-Enter makes a line more; Enter sends, as the binding of one line does.
            multiline=False,
        )

    async def next(self, prompt: str, begun: str = "") -> str:
        """The next line; with Alt-Enter it may have several.

        Args:
            prompt: stands before it.
            begun: what is on it already.

        Raises:
            KeyboardInterrupt: Ctrl-C.
            EOFError: Ctrl-D.
        """
        return await self._session.prompt_async(prompt, default=begun)


class TypedAnswers:
    """Answers to questions; implements `agent.ask.Answers`. They are in no history."""

    def __init__(self) -> None:
        self._session = _session(history=InMemoryHistory())

    async def choice(self, prompt: str) -> str:
        """See `Answers.choice`."""
        self._forget_what_was_typed()
        above, _, last = prompt.rpartition("\n")
        if above:
            _say(f"{above}\n")
        return await self.line(last)

    async def line(self, prompt: str) -> str:
        """See `Answers.line`."""
        return (await self._typed(prompt, "", several=False)).strip()

    async def edited(self, prompt: str, text: str) -> str:
        """See `Answers.edited`. Of one line, Enter ends it; of several, Alt-Enter."""
        if is_dumb_terminal():
            _say(f"{prompt}{harmless(text)}\nInstead of it (nothing keeps it): ")
            return await self._typed("", "", several=False) or text
        several = "\n" in text
        if several:
            _say("Alt-Enter (or Esc, then Enter) ends the change.\n")
        return await self._typed(prompt, text, several=several)

    async def _typed(self, prompt: str, text: str, *, several: bool) -> str:
        try:
            return await self._session.prompt_async(prompt, default=text, multiline=several)
        except KeyboardInterrupt:
            raise LeftPending(by_ctrl_c=True) from None
        except EOFError:
            raise LeftPending(by_ctrl_c=False) from None

    def _forget_what_was_typed(self) -> None:
        """Drop keys pressed before the question was there, also those that came in with the last answer."""
        clear_typeahead(self._session.input)
        try:
            import termios
        except ImportError:  # Windows
            return
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
