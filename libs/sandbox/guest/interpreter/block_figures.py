"""Saves the figures that blocks leave open (standard library only)."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from contextlib import suppress
from io import BufferedWriter, BytesIO
from os import makedirs as _make_folders
from os import unlink as _unlink
from os.path import exists as _exists
from os.path import islink as _is_link
from os.path import realpath as _real_path
from typing import Any, Final

from libs.sandbox.guest.interpreter.block_errors import error_message

__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
"""A copy, because a block may replace names in the module `builtins`."""

_FOLDER: Final = "/results"
_ONE: Final = "[a figure was not saved: the block was interrupted. The figure is closed]\n"
_SEVERAL: Final = "[{} figures were not saved: the block was interrupted. The figures are closed]\n"


class Figures:
    """The figures of a session. `show` prints a line after the block's output."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._count = 0

    def save(self, *, interrupted: bool = False) -> None:
        """Save the open figures, print their names and close them.

        An error, such as an invalid formula in a title, is not an error of the block. An interrupt is. After
        an interrupt, figures are only closed: saving them takes so long that the variables would be lost with
        the interpreter.
        """
        try:
            plt: Any = sys.modules.get("matplotlib.pyplot")
            # A thread may be importing the module.
            numbers = list(plt.get_fignums()) if hasattr(plt, "get_fignums") else []
            unsaved = len(numbers)
            try:
                while numbers and not interrupted:
                    self._save(plt, numbers.pop(0))
                    unsaved = len(numbers)
            except KeyboardInterrupt:
                self._close(plt, numbers, unsaved)
                raise
            self._close(plt, numbers, unsaved)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a block may have changed the module, or `sys`
            self._show(f"[figures could not be saved or closed: {error_message(error).rstrip()}]\n")

    def _save(self, plt: Any, number: int) -> None:
        """Save one figure. If it is not saved whole, no file is left.

        Errors of saving are shown, not raised, except KeyboardInterrupt.
        """
        file: Any = None
        try:
            picture = BytesIO()
            plt.figure(number).savefig(picture, format="png", bbox_inches="tight")
            if not picture.getbuffer():  # a block may have replaced the function
                raise ValueError("`savefig` has written nothing")
            file = self._new_file()
            with file:
                file.write(picture.getbuffer())
        except BaseException as error:
            if file:
                with suppress(OSError):
                    _unlink(file.name)
            if issubclass(type(error), KeyboardInterrupt):
                raise
            self._show(f"[a figure could not be saved, and is closed: {error_message(error).rstrip()}]\n")
        else:
            self._show(f"[figure saved: {file.name}]\n")
        finally:
            plt.close(number)  # otherwise it would fail again after every later block

    def _close(self, plt: Any, numbers: list[int], unsaved: int) -> None:
        """Close figures after an interrupt.

        Args:
            unsaved: the number of figures that were not saved, including one that was interrupted, and is
                closed already.
        """
        if unsaved:
            self._show(_ONE if unsaved == 1 else _SEVERAL.format(unsaved))
        for number in numbers:
            plt.close(number)

    def _new_file(self) -> BufferedWriter:
        if _is_link(_FOLDER) and not _exists(_FOLDER):  # a command may have removed the folder
            _make_folders(_real_path(_FOLDER), exist_ok=True)
        while True:
            self._count += 1
            with suppress(FileExistsError):  # another session may save a figure at the same moment
                return open(f"{_FOLDER}/figure-{self._count}.png", "xb")
