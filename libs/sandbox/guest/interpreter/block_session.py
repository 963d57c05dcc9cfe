"""Runs the blocks of one session in this process, and keeps their variables (standard library only)."""

from __future__ import annotations

import ast
import builtins
import contextlib
import contextvars
import ctypes
import linecache
import os
import signal
import site
import sys
import types
from ast import Expr, Expression
from collections.abc import Callable
from inspect import CO_COROUTINE
from os import getpid
from os import read as _read
from os import write as _write
from signal import SIGINT, default_int_handler
from typing import Any, Final, TypeVar

from libs.sandbox.guest.interpreter.block_errors import error_message, error_text
from libs.sandbox.guest.interpreter.block_source import is_muted, lines

__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
"""A copy, because a block may replace names in the module `builtins`."""

DONE, FAILED, INTERRUPTED = 0, 1, 130
_BETWEEN: Final = 3
"""Most errors of signal handlers and threads between two blocks that the next block shows."""
_FIGURES: Final = "/results"
_SOURCES: Final = 1_000
_SYNTAX: Final = ast.PyCF_ONLY_AST
_CODE: Final = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_UNSHOWN: Final = "[the block raised an error that cannot be shown]\n"
_flush_c: Final = ctypes.CDLL(None).fflush
_set_handler: Final = signal.signal

Result = TypeVar("Result")


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
        self._count = 0
        self._figures = 0
        self._loop: Any = None
        self._context = contextvars.copy_context()
        self._own = getpid()
        self._between: list[str] = []
        """Errors that signal handlers and threads have raised since the last block."""
        _set_handler(SIGINT, _ignore)

    def read(self, descriptor: int, length: int) -> bytes:
        """Read `length` bytes, or none at the end or if the descriptor is closed.

        A signal handler or a thread of a block may raise after each step of this method. So that no bytes are
        lost, `extend` reads and keeps them in one step.
        """
        pieces: list[bytes] = []
        while (data := attempt(self._read, pieces, descriptor, length)) is None:
            pass  # a second error came while the first was kept
        return data

    def _read(self, pieces: list[bytes], descriptor: int, length: int) -> bytes:
        while True:
            try:
                left = length - sum(map(len, pieces))
                if not left:
                    return b"".join(pieces)
                pieces.extend(map(_read, (descriptor,), (left,)))
                if not pieces[-1]:
                    return b""
            except BaseException as error:
                if attempt(getattr, error, "errno"):  # raised by the kernel
                    return b""
                attempt(self._keep_error, error)

    def _keep_error(self, error: BaseException) -> None:
        self._between = [*self._between, error_message(error)][:_BETWEEN]

    def run(self, source: str) -> int:
        """Run one block. Print the value of its last expression, unless it is None.

        An interrupt ends only the block, never this program. As in Jupyter, SIGINT raises KeyboardInterrupt
        during a block, even if an earlier block has set another handler. Between two blocks SIGINT has no
        effect.
        """
        status = attempt(self._status, source)
        if status is None:
            attempt(self._show, _UNSHOWN)
        return FAILED if status is None else status

    def _status(self, source: str) -> int:
        for error in self._between:
            self._show(f"[raised by a signal handler or a thread since the last block: {error.rstrip()}]\n")
        self._between = []
        try:
            _interruptible(self._run, source)
        except BaseException as error:
            return self._failed(error)
        return DONE

    def _run(self, source: str) -> None:
        self._count += 1
        name = f"<block {self._count}>"
        attempt(self._keep_source, name, source)
        try:
            self._execute(source, name)
        finally:
            self._save_figures()

    def _keep_source(self, name: str, source: str) -> None:
        """Keep the source for tracebacks and inspect.getsource. Only the latest sources are kept."""
        linecache.cache[name] = (len(source), None, lines(source), name)
        linecache.cache.pop(f"<block {self._count - _SOURCES}>", None)

    def _failed(self, error: BaseException) -> int:
        """Print the error of a block and return the block's status."""
        if issubclass(type(error), SystemExit):  # `__class__` of an error may be anything
            code = error.code  # type: ignore[attr-defined]
            number = 0 if code is None else int.__int__(code) if issubclass(type(code), int) else None
            if number == 0:
                return DONE
            if number is not None and getpid() != self._own:
                return number & 0xFF  # the exit code of a forked child
            text = f"{code}\n" if type(code) is str else attempt(_interruptible, error_message, error)
        else:
            text = attempt(_interruptible, error_text, self._module.__dict__, error)
        self._show(text or f"{type(error).__name__}\n")
        return INTERRUPTED if issubclass(type(error), KeyboardInterrupt) else FAILED

    def _show(self, text: str) -> None:
        """Print an error message after the block's output.

        Uses a saved descriptor, because the block may have closed or replaced its streams.
        """
        self.flush()
        write(self._errors, text.encode("utf-8", "backslashreplace"))

    def flush(self) -> None:
        """Write out what the block has printed."""
        for name in ("stdout", "stderr"):
            attempt(_flush, name)
        attempt(_flush_c, None)

    def _execute(self, source: str, name: str) -> None:
        tree: Any = compile(source, name, "exec", _SYNTAX, dont_inherit=True)
        last = tree.body[-1] if tree.body else None
        shown: ast.expr | None = None
        if isinstance(last, Expr) and not is_muted(source, last):
            tree.body.pop()
            shown = last.value
        self._evaluate(tree, name, "exec")
        if shown is not None:
            value = self._evaluate(Expression(shown), name, "eval")
            if value is not None:
                vars(builtins)["_"] = value  # as in the REPL, a variable `_` of a block is not changed
                print(repr(value))

    def _evaluate(self, tree: ast.AST, name: str, mode: str) -> Any:
        # dont_inherit: the `from __future__` of this file would turn annotations of a block into strings.
        code = compile(tree, name, mode, _CODE, dont_inherit=True)  # type: ignore[call-overload]
        value = self._context.run(eval, code, self._module.__dict__)
        return self._awaited(value) if code.co_flags & CO_COROUTINE else value

    def _awaited(self, coroutine: Any) -> Any:
        """Run a coroutine of a block to its end. An interrupted coroutine is cancelled."""
        try:
            import asyncio

            if self._loop is None or self._loop.is_closed():
                self._loop = asyncio.new_event_loop()  # keeps its tasks between blocks
            loop = self._loop
            task = loop.create_task(coroutine, context=self._context)
        except BaseException:
            coroutine.close()  # otherwise Python warns that it was never awaited
            raise
        try:
            return loop.run_until_complete(task)
        except BaseException:
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    loop.run_until_complete(task)
            raise

    def _save_figures(self) -> None:
        """Save the figures that a block has left open, and print their names.

        An error, such as an invalid formula in a title, is not an error of the block.
        """
        plt: Any = sys.modules.get("matplotlib.pyplot")
        try:
            # A thread may be importing the module.
            for number in plt.get_fignums() if hasattr(plt, "get_fignums") else ():
                self._save_figure(plt, number)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a block may have changed the module
            self._show(f"[figures could not be saved or closed: {error_message(error).rstrip()}]\n")

    def _save_figure(self, plt: Any, number: int) -> None:
        self._figures += 1
        while os.path.exists(path := f"{_FIGURES}/figure-{self._figures}.png"):
            self._figures += 1
        try:
            plt.figure(number).savefig(path, bbox_inches="tight")
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._show(f"[a figure could not be saved: {error_message(error).rstrip()}]\n")
        else:
            self._show(f"[figure saved: {path}]\n")
        finally:
            plt.close(number)  # otherwise it would fail again after every later block


def attempt(do: Callable[..., Result], *arguments: Any) -> Result | None:
    """Call a function. Return None if it raises.

    A block can make almost every call of this program raise: with an audit hook, a signal handler, an object
    whose methods raise, or a changed standard library. The variables must survive such errors.
    """
    try:
        return do(*arguments)
    except BaseException:
        return None


def write(descriptor: int, data: bytes) -> None:
    """Write to a descriptor, also when a signal handler or a thread raises. See `Session.read`.

    Does nothing if the descriptor is closed.
    """
    written: list[int] = []
    while True:
        try:
            left = data[sum(written) :]
            if not left:
                return
            written.extend(map(_write, (descriptor,), (left,)))
        except BaseException as error:
            if attempt(getattr, error, "errno"):
                return


def _look_in_user_site() -> None:
    """Add the user's site folder to the path, so that packages installed by a block are found."""
    folder = site.getusersitepackages()
    if not site.ENABLE_USER_SITE or folder in sys.path:
        return
    with contextlib.suppress(OSError):
        os.makedirs(folder, exist_ok=True)
    above = set(site.getsitepackages())
    sys.path.insert(next((at for at, entry in enumerate(sys.path) if entry in above), len(sys.path)), folder)


def _flush(name: str) -> None:
    getattr(sys, name).flush()


def _interruptible(do: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function. During the call, SIGINT raises KeyboardInterrupt; afterwards SIGINT has no effect."""
    try:
        try:
            _set_handler(SIGINT, default_int_handler)
            return do(*arguments)
        finally:
            _set_handler(SIGINT, _ignore)
    except BaseException:
        _set_handler(SIGINT, _ignore)  # the interrupt may have come before the call above
        raise


def _ignore(*_: object) -> None:
    """Handle SIGINT between blocks. Unlike SIG_IGN, programs that a thread starts do not inherit this."""
