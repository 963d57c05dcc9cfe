"""Reads lines with editing, history and completion, and answers to questions, with prompt_toolkit.

prompt_toolkit reads keys on the event loop, so other tasks go on.
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

from agent.run import LeftPending
from agent.secrets import KNOWN
from agent.terminal.harmless_text import harmless

__all__ = ["KeptHistory", "TypedAnswers", "TypedLines"]

_MOST = 1_000
"""Lines of history that a trimmed file keeps."""

Suggest = Callable[[str], Sequence[str]]
"""Returns whole lines that complete the typed beginning of a line."""


def _session(**options: Any) -> PromptSession[str]:
    """Make a prompt at this terminal."""
    if is_dumb_terminal():  # then print only the typed text
        with create_app_session(output=PlainTextOutput(sys.stdout)):
            return PromptSession(**options)
    output = create_output()
    # A late answer to a cursor request would be left in the input when the program ends.
    if hasattr(output, "enable_cpr"):
        output.enable_cpr = False
    return PromptSession(**options, output=output)


class KeptHistory(FileHistory):
    """Keeps typed lines, without known secrets, in a file that only its owner can read.

    Keeps at least the newest 1,000 lines. A start with more than 2,000 lines trims the file to 1,000.
    """

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
        """Keep a line. Errors are ignored: a full disk must not end the conversation."""
        with contextlib.suppress(OSError):
            super().store_string(KNOWN(string))


class _Suggested(Completer):
    def __init__(self, suggest: Suggest) -> None:
        self._suggest = suggest

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        text = document.text_before_cursor
        for line in self._suggest(text):
            if line.startswith(text) and line != text:
                # The menu shows the line from the last word on.
                start = text.rfind(" ") + 1
                shown = harmless(line[start:])
                if shown == line[start:]:  # offer only visible text
                    yield Completion(line[start:], start_position=start - len(text))


class TypedLines:
    """Reads the lines of a conversation. Implements `agent.chat.chat_session.Lines`."""

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
            # Enter sends the message; the binding above makes Alt-Enter begin a line.
            multiline=False,
        )

    async def next(self, prompt: str, begun: str = "") -> str:
        """Return the next message, which may have several lines; `begun` is on the line already.

        Raises:
            KeyboardInterrupt: Ctrl-C.
            EOFError: Ctrl-D.
        """
        return await self._session.prompt_async(prompt, default=begun)


class TypedAnswers:
    """Reads answers to questions, which are not in the history.

    Each method raises `LeftPending` for Ctrl-C and at the end of the input.
    """

    def __init__(self) -> None:
        self._session = _session(history=InMemoryHistory())

    async def choice(self, prompt: str) -> str:
        """Read one line. Keys pressed before the question are dropped: they cannot be an answer."""
        clear_typeahead(self._session.input)
        with contextlib.suppress(ImportError):  # Windows
            import termios

            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        above, _, last = prompt.rpartition("\n")
        if above:
            _say(f"{above}\n")
        return await self.line(last)

    async def line(self, prompt: str) -> str:
        """Read one line."""
        return (await self._typed(prompt, "", several=False)).strip()

    async def edited(self, prompt: str, text: str) -> str:
        """Let the person edit `text`. Enter ends a single line; Alt-Enter ends several lines."""
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


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
