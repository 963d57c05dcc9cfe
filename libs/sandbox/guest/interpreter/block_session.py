"""Runs the blocks of one session in this process, and keeps their variables (standard library only)."""

from __future__ import annotations

import ast
import builtins
import contextvars
import ctypes
import linecache
import os
import site
import sys
import types
import warnings
from ast import Assign, Expr, Name, Store
from contextlib import suppress
from inspect import CO_COROUTINE
from os import _exit, getpid
from os import read as _read
from os import set_blocking as _set_blocking
from typing import Any, Final

from libs.sandbox.guest.interpreter.block_calls import (
    Signals,
    attempt,
    ignore_interrupts,
    interruptible,
    is_raised_below,
    write,
)
from libs.sandbox.guest.interpreter.block_errors import error_message, error_text
from libs.sandbox.guest.interpreter.block_figures import Figures
from libs.sandbox.guest.interpreter.block_source import is_muted, lines
from libs.sandbox.guest.interpreter.event_loop import EventLoop

__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
"""A copy, because a block may replace names in the module `builtins`."""

DONE, FAILED, INTERRUPTED = 0, 1, 130
_BETWEEN: Final = 3
"""Most errors of signal handlers and threads between two blocks that the next block shows."""
_SOURCES: Final = 1_000
_SYNTAX: Final = ast.PyCF_ONLY_AST
_CODE: Final = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_VALUE: Final = "value of the last expression"
"""Variable for the value until it is shown. It is no name, so a block cannot use it."""
_REMEMBER: Final = compile("names['_'] = value", "<value of an earlier block>", "exec")
"""Sets `_`. A warning about the value that `_` held before, such as a coroutine that was never awaited, names
this file name."""
_MOST_REFUSED: Final = 100
"""Refusals of memory, one after the other, after which a block cannot be read."""
_NO_ROOM: Final = b"[no memory was left to read this block: it did not begin]\n"
_REST: Final = "[SystemExit: the rest of the block did not run]\n"
_PERHAPS_REST: Final = "[SystemExit: the rest of the block, if any, did not run]\n"
_UNSHOWN: Final = "[the block raised an error that cannot be shown{}]\n"
_name_of: Final = type.__dict__["__name__"].__get__
_traceback_of: Final = BaseException.__dict__["__traceback__"].__get__
_flush_c: Final = ctypes.CDLL(None).fflush
_set_trace: Final = sys.settrace
_set_profile: Final = sys.setprofile
_profile: Final = sys.getprofile


class Session:
    """The variables of a session. `errors` is the descriptor for error messages."""

    def __init__(self, errors: int) -> None:
        self._errors = errors
        # A real module, so that pickle and multiprocessing find classes of a block.
        self._module = types.ModuleType("__main__")
        self._module.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = self._module
        sys.argv = [""]
        sys.path[0] = ""
        _look_in_user_site()
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        self._streams = sys.stdout, sys.stderr
        """The first streams. A block that replaces them may still write to them."""
        self._count = 0
        self._last: tuple[int, int] | None = (0, 0)
        """Line and column of the last statement of the block. None: all statements have run."""
        self._raised = ""
        """Type of the error that has ended the block."""
        self._figures = Figures(self._show)
        self._context = contextvars.copy_context()
        self._loop = EventLoop(self._context)
        self._own = getpid()
        self._refused = 0
        """How often the memory for a block was refused."""
        self._between: list[str] = []
        """The first errors that signal handlers and threads have raised since the last block."""
        self._unshown = 0
        """Number of the errors after them."""
        ignore_interrupts()
        self._signals = Signals()

    def read(self, descriptor: int, length: int) -> bytes:
        """Read `length` bytes, or none at the end or if the descriptor is closed.

        A signal handler or a thread of a block may raise after each step of this method. So that no bytes are
        lost, `extend` reads and keeps them in one step. If there is no memory for them, the program says so
        and exits.
        """
        pieces: list[bytes] = []
        self._refused = 0
        while (data := attempt(self._read, pieces, descriptor, length)) is None:
            pass  # a second error came while the first was kept
        return data

    def _read(self, pieces: list[bytes], descriptor: int, length: int) -> bytes:
        while True:
            try:
                self._signals.let_in()
                left = length - sum(map(len, pieces))
                if not left:
                    self._signals.hold()
                    return b"".join(pieces)
                pieces.extend(map(_read, (descriptor,), (left,)))
                if not pieces[-1]:
                    return b""
            except BaseException as error:
                ours = attempt(is_raised_below, error) is False
                if ours and attempt(getattr, error, "errno"):  # raised by the kernel
                    return b""
                if ours and type(error) is MemoryError:
                    self._refused += 1
                    if self._refused > _MOST_REFUSED:
                        write(self._errors, _NO_ROOM)
                        _exit(FAILED)
                else:
                    attempt(self._keep_error, error)

    def _keep_error(self, error: BaseException) -> None:
        if len(self._between) < _BETWEEN:
            self._between.append(error_message(error))
        else:
            self._unshown += 1

    def run(self, source: str) -> int:
        """Run one block. Print the value of its last expression, unless it is None.

        An interrupt ends only the block, never this program. As in Jupyter, SIGINT raises KeyboardInterrupt
        during a block, even if an earlier block has set another handler or has blocked SIGINT. Between two
        blocks SIGINT has no effect.
        """
        # A signal handler may exit before the block begins: see `_has_rest`.
        self._count += 1
        self._last = (0, 0)
        self._raised = ""
        status: int | None = None
        try:
            try:
                status = self._status(source)
            finally:
                self._signals.hold()
        except BaseException:
            self._signals.hold()  # a handler may have raised just before the signals waited
        if status is None:
            attempt(self._show, _UNSHOWN.format(f": {self._raised}" if self._raised else ""))
        return FAILED if status is None else status

    def _status(self, source: str) -> int:
        for error in self._between:
            self._show(f"[raised by a signal handler or a thread since the last block: {error.rstrip()}]\n")
        if self._unshown:
            self._show(f"[not shown: {self._unshown:,} further errors of this kind]\n")
        self._between, self._unshown = [], 0
        try:
            # Before SIGINT raises an error: an interrupt that an earlier block has held back has no effect.
            self._signals.release()
            interruptible(self._run, source)
        except BaseException as error:
            self._raised = attempt(_name_of, type(error)) or ""
            return self._failed(error)
        return DONE

    def _run(self, source: str) -> None:
        name = f"<block {self._count}>"
        attempt(self._keep_source, name, source)
        attempt(_warn_again)
        interrupted = False
        try:
            self._execute(source, name)
        except BaseException as error:
            interrupted = bool(attempt(_is_interrupt, error))
            raise
        finally:
            # A trace or profile function may raise at every call of this program.
            _set_trace(None)
            if callable(_profile()):  # cProfile is no function, and may go on in the next block
                _set_profile(None)
            if getpid() == self._own:  # a forked child has copies of the figures
                self._figures.save(interrupted=interrupted)

    def _keep_source(self, name: str, source: str) -> None:
        """Keep the source for tracebacks and inspect.getsource. Only the latest sources are kept."""
        # Python marks the wrong characters in a last line without a line end.
        ended = lines(source if source.endswith(("\n", "\r")) else f"{source}\n")
        linecache.cache[name] = (len(source), None, ended, name)
        linecache.cache.pop(f"<block {self._count - _SOURCES}>", None)

    def _failed(self, error: BaseException) -> int:
        """Print the error of a block and return the block's status."""
        if issubclass(type(error), SystemExit):  # `__class__` of an error may be anything
            code = interruptible(getattr, error, "code")  # `code` may be a property
            number = 0 if code is None else int.__int__(code) if issubclass(type(code), int) else None
            rest = ""
            if getpid() == self._own:
                # A handler of the block may raise meanwhile, again and again.
                rest = {True: _REST, False: "", None: _PERHAPS_REST}[attempt(self._has_rest, error)]
            if number == 0:
                if rest:
                    self._show(rest)
                return DONE
            if number is not None and getpid() != self._own:
                return number & 0xFF  # the exit code of a forked child
            text = f"{code}\n{rest}" if type(code) is str else attempt(interruptible, error_message, error)
        else:
            text = attempt(interruptible, error_text, self._module.__dict__, error)
        self._show(text or f"{type(error).__name__}\n")
        return INTERRUPTED if issubclass(type(error), KeyboardInterrupt) else FAILED

    def _has_rest(self, error: BaseException) -> bool:
        """Return whether statements follow the one that an error has ended.

        A signal handler or a task of an earlier block may have raised the error.
        """
        trace = _traceback_of(error)  # the class of the error may have a property of that name
        while trace and trace.tb_frame.f_code.co_filename != f"<block {self._count}>":
            trace = trace.tb_next
        if self._last is None or trace is None:
            return self._last is not None
        line, _, column, _ = list(trace.tb_frame.f_code.co_positions())[trace.tb_lasti // 2]
        return (line or 0, column or 0) < self._last

    def _show(self, text: str) -> None:
        """Print an error message after the block's output.

        Uses a saved descriptor, because the block may have closed or replaced its streams.
        """
        self.flush()
        write(self._errors, text.encode("utf-8", "backslashreplace"))

    def flush(self) -> None:
        """Write out what the block has printed.

        A program that shares the output may have made it non-blocking. Then a long text would lose its end.
        """
        attempt(_set_blocking, self._errors, True)
        for name in ("stdout", "stderr"):
            attempt(_flush, name)
        for stream in self._streams:
            attempt(stream.flush)
        attempt(_flush_c, None)

    def _execute(self, source: str, name: str) -> None:
        tree: Any = compile(source, name, "exec", _SYNTAX, dont_inherit=True)
        last: Any = tree.body[-1] if tree.body else None
        self._last = (last.lineno, last.col_offset) if last else (0, 0)
        shown = isinstance(last, Expr) and not is_muted(source, last)
        if shown:
            at = {field: getattr(last, field) for field in last._attributes}
            tree.body[-1] = Assign([Name(_VALUE, Store(), **at)], last.value, **at)
        # The whole block is one code, compiled once: a second time, Python shows the same warnings again.
        # dont_inherit: the `from __future__` of this file would turn annotations of a block into strings.
        code = compile(tree, name, "exec", _CODE, dont_inherit=True)
        variables = self._module.__dict__
        try:
            result = self._context.run(eval, code, variables)
            if code.co_flags & CO_COROUTINE:
                self._loop.run(result)
        finally:
            value = variables.pop(_VALUE, None)
        self._last = None
        if shown and value is not None:
            # As in the REPL, a variable `_` of a block is not changed.
            exec(_REMEMBER, {"names": vars(builtins), "value": value})
            print(repr(value))


def _look_in_user_site() -> None:
    """Add the user's site folder to the path, so that packages installed by a block are found."""
    folder = site.getusersitepackages()
    if not site.ENABLE_USER_SITE or folder in sys.path:
        return
    with suppress(OSError):
        os.makedirs(folder, exist_ok=True)
    above = set(site.getsitepackages())
    sys.path.insert(next((at for at, entry in enumerate(sys.path) if entry in above), len(sys.path)), folder)


def _warn_again() -> None:
    """Let each block show its warnings.

    Python shows a warning once for each line of a module, and all blocks are one module. So the same warning
    of a corrected block would be missing, as if its cause were gone.
    """
    with warnings.catch_warnings():
        pass  # changes no filter, but Python forgets which warnings it has shown: see `warnings`


def _is_interrupt(error: BaseException) -> bool:
    """Return whether an error is KeyboardInterrupt, or was raised while one was handled."""
    seen = set[int]()
    earlier: BaseException | None = error
    while earlier is not None and id(earlier) not in seen:
        if issubclass(type(earlier), KeyboardInterrupt):
            return True
        seen.add(id(earlier))
        earlier = earlier.__context__
    return False


def _flush(name: str) -> None:
    getattr(sys, name).flush()
