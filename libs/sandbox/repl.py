"""The live interpreter itself: a program of the sandbox that runs one block of Python after the other.

It is started by `interpreter.py` with two descriptors: it reads blocks from one and answers on the other.
Variables stay between blocks. Everything a block prints goes to standard output and error as in any program.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import ctypes
import inspect
import linecache
import os
import struct
import sys
import traceback
import types
from typing import Any, Final

HEADER: Final = struct.Struct("!I")
DONE, FAILED, INTERRUPTED = 0, 1, 130
_FIGURES: Final = "/results"
_libc = ctypes.CDLL(None)


def main() -> None:
    """Serve blocks until the descriptor ends."""
    reader, writer = (int(number) for number in sys.argv[1:3])
    os.set_inheritable(reader, False)
    os.set_inheritable(writer, False)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("500")  # under memory pressure this is to end, not the supervisor
    # Whatever a block does to descriptors 1 and 2, the next one finds them as they were.
    saved = [os.dup(1), os.dup(2)]
    session = _Session()
    with open(reader, "rb", closefd=False) as blocks:
        while header := blocks.read(HEADER.size):
            source = blocks.read(HEADER.unpack(header)[0]).decode("utf-8", "replace")
            status = session.run(source)
            _restore(saved)
            os.write(writer, bytes([status]))


def _restore(saved: list[int]) -> None:
    """Flush everything that was printed, and put descriptors and streams back."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()  # type: ignore[union-attr]
    _libc.fflush(None)
    for number, name in enumerate(("stdout", "stderr"), start=1):
        os.dup2(saved[number - 1], number)
        if not _writes_to(getattr(sys, name, None), number):
            setattr(sys, name, open(number, "w", buffering=1, errors="replace", closefd=False))


def _writes_to(stream: Any, number: int) -> bool:
    try:
        return not stream.closed and stream.fileno() == number
    except (AttributeError, OSError, ValueError):
        return False


class _Session:
    """The variables, and how a block is run with them."""

    def __init__(self) -> None:
        # A real module, so that classes of a block can be pickled and multiprocessing finds them.
        self._module = types.ModuleType("__main__")
        self._module.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = self._module
        sys.argv = [""]
        sys.path[0] = ""
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        self._count = 0
        self._figures = 0
        self._loop: Any = None

    def run(self, source: str) -> int:
        """Run one block; what its last expression gives is shown, unless it is None."""
        self._count += 1
        name = f"<block {self._count}>"
        # For tracebacks, and for inspect.getsource.
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        try:
            try:
                self._execute(source, name)
            finally:
                self._save_figures()
        except SystemExit as end:
            if end.code in (None, 0):
                return DONE
            print(end.code if isinstance(end.code, str) else f"SystemExit: {end.code}", file=sys.stderr)
            return FAILED
        except KeyboardInterrupt:
            _show_error()
            return INTERRUPTED
        except BaseException:
            _show_error()
            return FAILED
        return DONE

    def _execute(self, source: str, name: str) -> None:
        tree = ast.parse(source, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        self._evaluate(tree, name, "exec")
        if last is not None:
            value = self._evaluate(ast.Expression(last.value), name, "eval")  # type: ignore[attr-defined]
            if value is not None:
                self._module.__dict__["_"] = value
                print(repr(value))

    def _evaluate(self, tree: ast.AST, name: str, mode: str) -> Any:
        code = compile(tree, name, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)  # type: ignore[call-overload]
        value = eval(code, self._module.__dict__)
        if code.co_flags & inspect.CO_COROUTINE:
            value = self._event_loop().run_until_complete(value)
        return value

    def _event_loop(self) -> Any:
        """The loop for blocks that await at top level; kept, so that their tasks are too."""
        import asyncio

        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        return self._loop

    def _save_figures(self) -> None:
        """Save and name the figures that a block has left open: nobody would see them."""
        plt = sys.modules.get("matplotlib.pyplot")
        if plt is None:
            return
        for number in plt.get_fignums():
            self._figures += 1
            while os.path.exists(path := f"{_FIGURES}/figure-{self._figures}.png"):
                self._figures += 1
            try:
                plt.figure(number).savefig(path, bbox_inches="tight")
            except OSError as error:
                print(f"[a figure could not be saved: {error}]")
            else:
                print(f"[figure saved: {path}]")
            plt.close(number)


def _show_error() -> None:
    """A traceback that begins in the block; the frames of this program are left out."""
    kind, error, trace = sys.exc_info()
    while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, ast.__file__):
        trace = trace.tb_next
    # A stream that the block has closed or replaced is not where an error may get lost.
    lines = traceback.format_exception(kind, error, trace)
    os.write(2, "".join(lines).encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
