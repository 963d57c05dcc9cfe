"""A stand-in for a terminal: a screen that can be read, and answers to what programs ask of terminals."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence

import pyte
from cli_program import Program, Terminal

_ATTRIBUTES, _CELL, _KITTY = "\x1b[c", "\x1b[16t", "a=q"
"""The questions that `textual-image` asks: device attributes, the size of a character, kitty's protocol."""

SAYS: Mapping[str, Mapping[str, str]] = {
    "kitty": {_ATTRIBUTES: "\x1b[?62;52c", _CELL: "\x1b[6;20;10t", _KITTY: "\x1b_Gi=1;OK\x1b\\"},
    "sixel": {_ATTRIBUTES: "\x1b[?62;4;22c", _CELL: "\x1b[6;20;10t"},
    "plain": {_ATTRIBUTES: "\x1b[?62;22c"},
    "nothing": {},
}
"""What each kind of terminal answers to them."""

COLUMNS, ROWS = 100, 40

# What a terminal draws instead of printing it, or leaves alone.
_STRINGS = re.compile(r"\x1b[P_\]][^\x1b\x07]*(?:\x1b\\|\x07)")
_SEQUENCES = re.compile(r"\x1b\[[0-9;?>]*[ -/]*[@-~]|\x1b[=>()][0-9A-B]?")


class ScreenTerminal(Terminal):
    """The program at a terminal of 100 columns and 40 rows, which answers as one of `SAYS`."""

    def __init__(
        self, program: Program, arguments: Sequence[str], says: str = "plain", *, term: str = "xterm-256color"
    ) -> None:
        self._says = says
        self._dumb = term == "dumb"
        self._answered: list[str] = []
        program.environment = {**program.environment, "COLUMNS": str(COLUMNS)}
        super().__init__(program, arguments, size=(ROWS, COLUMNS), term=term)

    @property
    def asked(self) -> int:
        """How often the program has asked what the terminal can draw."""
        return self.raw.count(_ATTRIBUTES)

    @property
    def text(self) -> str:
        """All that was ever printed, in order, without what steers the terminal."""
        return _SEQUENCES.sub("", _STRINGS.sub("", self.raw)).replace("\r\n", "\n").replace("\r", "")

    @property
    def shown(self) -> str:
        """What a person sees, with what has scrolled away."""
        screen = pyte.HistoryScreen(COLUMNS, ROWS, history=10_000)
        pyte.Stream(screen).feed(_STRINGS.sub("", self.raw))
        above = ["".join(line[x].data for x in range(COLUMNS)) for line in screen.history.top]
        return "\n".join(line.rstrip() for line in [*above, *screen.display]).rstrip()

    def prompted(self) -> None:
        """Wait until the person may type a message: the last line is the prompt and nothing else."""
        self.prompted_with("")

    def prompted_with(self, begun: str, seconds: float = 60) -> None:
        """Wait until the last prompt has this on it; a menu of completions may be below."""
        deadline = time.monotonic() + seconds
        while not self._prompt_is(f"> {begun}".rstrip()):
            assert self._read(max(deadline - time.monotonic(), 0)), f"no prompt: {self.shown}"
        self._seen = len(self.text)

    def _prompt_is(self, line: str) -> bool:
        lines = self.shown.split("\n")
        return lines[-1] == line or (line != ">" and line in lines[-12:])

    def send(self, line: str) -> None:
        """Type a message at the prompt, and Enter."""
        self.prompted()
        if self._dumb:
            time.sleep(0.5)  # the prompt is there a moment before keys are no longer echoed by the kernel
        self.type(line)
        self.prompted_with(line)
        self.type("\r")

    def _read(self, seconds: float) -> bool:
        more = super()._read(seconds)
        for question in (_ATTRIBUTES, _KITTY, _CELL):
            # Each is asked once; what is drawn later does not look like one.
            if question in self.raw and question not in self._answered:
                self._answered.append(question)
                self.type(SAYS[self._says].get(question, ""))
        return more
