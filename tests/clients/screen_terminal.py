"""A terminal for tests: a screen to read, and answers to the questions that programs ask terminals."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence

import pyte

from tests.clients.cli_program import Program, Terminal, containers_of
from tests.support.waiting import eventually

_ATTRIBUTES, _CELL, _KITTY = "\x1b[c", "\x1b[16t", "a=q"
"""The questions that `textual-image` asks: device attributes, the size of a character, kitty's protocol."""

SAYS: Mapping[str, Mapping[str, str]] = {
    "kitty": {_ATTRIBUTES: "\x1b[?62;52c", _CELL: "\x1b[6;20;10t", _KITTY: "\x1b_Gi=1;OK\x1b\\"},
    "sixel": {_ATTRIBUTES: "\x1b[?62;4;22c", _CELL: "\x1b[6;20;10t"},
    "plain": {_ATTRIBUTES: "\x1b[?62;22c"},
    "nothing": {},
}
"""Kind of terminal -> its answers."""

COLUMNS, ROWS = 100, 40

# Control sequences, which a terminal does not print.
_STRINGS = re.compile(r"\x1b[P_\]][^\x1b\x07]*(?:\x1b\\|\x07)")
_SEQUENCES = re.compile(r"\x1b\[[0-9;?>]*[ -/]*[@-~]|\x1b[=>()][0-9A-B]?")


class ScreenTerminal(Terminal):
    """Runs the program at a terminal of 100 columns and 40 rows that answers as `SAYS[says]`."""

    size = (ROWS, COLUMNS)

    def __init__(
        self, program: Program, arguments: Sequence[str], says: str = "plain", *, term: str = "xterm-256color"
    ) -> None:
        self._says = says
        self._dumb = term == "dumb"
        self._answered: list[str] = []
        program.environment = {**program.environment, "COLUMNS": str(COLUMNS)}
        super().__init__(program, arguments, term=term)

    @property
    def asked(self) -> int:
        """How often the program asked for the abilities of the terminal."""
        return self.raw.count(_ATTRIBUTES)

    @property
    def text(self) -> str:
        """All printed text, without control sequences."""
        return _SEQUENCES.sub("", _STRINGS.sub("", self.raw)).replace("\r\n", "\n").replace("\r", "")

    @property
    def shown(self) -> str:
        """The screen as a person sees it, with the lines that scrolled away."""
        screen = pyte.HistoryScreen(COLUMNS, ROWS, history=10_000)
        pyte.Stream(screen).feed(_STRINGS.sub("", self.raw))
        above = ["".join(line[x].data for x in range(COLUMNS)) for line in screen.history.top]
        return "\n".join(line.rstrip() for line in [*above, *screen.display]).rstrip()

    def prompted(self) -> None:
        """Wait until the last line is an empty prompt."""
        self.prompted_with("")

    def prompted_with(self, begun: str) -> None:
        """Wait until the last prompt shows `begun`; a menu of completions may be below."""
        deadline = time.monotonic() + 60
        while f"> {begun}".rstrip() not in self.shown.split("\n")[-12 if begun else -1 :]:
            assert self._read(deadline - time.monotonic()), f"no prompt: {self.shown}"
        self._seen = len(self.text)

    def send(self, line: str) -> None:
        """Type a message at the prompt, and Enter."""
        self.prompted()
        if self._dumb:
            time.sleep(0.5)  # for a moment the kernel still echoes keys
        self.type(line)
        self.prompted_with(line)
        self.type("\r")

    def _read(self, seconds: float) -> bool:
        more = super()._read(seconds)
        for question in (_ATTRIBUTES, _KITTY, _CELL):
            # The program asks each question once.
            if question in self.raw and question not in self._answered:
                self._answered.append(question)
                self.type(SAYS[self._says].get(question, ""))
        return more


def chat(program: Program, *arguments: str, says: str = "plain") -> ScreenTerminal:
    return ScreenTerminal(program, ["chat", *arguments], says)


def ended(terminal: ScreenTerminal, status: int = 0) -> None:
    """Check that the program ends with this status, and that no container is left."""
    assert terminal.end() == status, terminal.text
    assert "Traceback" not in terminal.text
    eventually(lambda: not containers_of(terminal.pid))
