"""The live interpreter: a program in the sandbox that runs one block of Python after the other.

`python_worker.py` starts it with two descriptors, one to read blocks and one to write answers. Variables stay
between blocks. A block prints to standard output and error like any program.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import ctypes
import inspect
import linecache
import os
import re
import site
import struct
import sys
import traceback
import types
from typing import Any, Final

HEADER: Final = struct.Struct("!II8s")
"""Header of a block: lengths of the folders of commands and of the block, and the mark that the answer must
begin with."""
DONE, FAILED, INTERRUPTED = 0, 1, 130
_FIGURES: Final = "/results"
_ABOUT_DATA: Final = (LookupError, AttributeError, TypeError, ValueError, NameError)
_CALLED: Final = re.compile(r"(\w+)\(\) (?:got an unexpected|missing \d+ required|takes |got multiple)")
_TABLES: Final = 3
_COLUMNS: Final = 20
_MERGED_ROWS: Final = 100_000
_SOURCES: Final = 1_000
_libc = ctypes.CDLL(None)


def main() -> None:
    """Serve blocks until the descriptor ends."""
    reader, writer = (int(number) for number in sys.argv[1:3])
    os.set_inheritable(reader, False)
    os.set_inheritable(writer, False)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("500")  # the kernel kills this process before the supervisor when memory runs out
    # Saved, because a block may close or replace descriptors 1 and 2.
    saved = [os.dup(1), os.dup(2)]
    own = os.getpid()
    session = _Session(saved[1])
    with open(reader, "rb", closefd=False) as blocks:
        while header := blocks.read(HEADER.size):
            folders, length, mark = HEADER.unpack(header)
            _look_for_commands(os.fsdecode(blocks.read(folders)))
            source = blocks.read(length).decode("utf-8", "replace")
            status = session.run(source)
            _restore(saved)
            if os.getpid() != own:
                os._exit(status)  # a forked child must not run the next block
            os.write(writer, mark + bytes([status]))


def _restore(saved: list[int]) -> None:
    """Flush printed output and restore descriptors and streams."""
    _flush()
    for number, name in enumerate(("stdout", "stderr"), start=1):
        os.dup2(saved[number - 1], number)
        if not _writes_to(getattr(sys, name, None), number):
            setattr(sys, name, open(number, "w", buffering=1, errors="replace", closefd=False))


def _flush() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()  # type: ignore[union-attr]
    _libc.fflush(None)


def _writes_to(stream: Any, number: int) -> bool:
    try:
        return not stream.closed and stream.fileno() == number
    except (AttributeError, OSError, ValueError):
        return False


def _look_for_commands(folders: str) -> None:
    """Add folders to PATH, which an earlier block may have changed."""
    path = os.environ.get("PATH", os.defpath).split(":")
    if new := [folder for folder in folders.split(":") if folder and folder not in path]:
        os.environ["PATH"] = ":".join(path + new)


def _look_in_user_site() -> None:
    """Add the user's site folder to the path, so that packages installed by a block are found."""
    folder = site.getusersitepackages()
    if not site.ENABLE_USER_SITE or folder in sys.path:
        return
    with contextlib.suppress(OSError):
        os.makedirs(folder, exist_ok=True)
    above = set(site.getsitepackages())
    sys.path.insert(next((at for at, entry in enumerate(sys.path) if entry in above), len(sys.path)), folder)


class _Session:
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

    def run(self, source: str) -> int:
        """Run one block. Print the value of its last expression, unless it is None."""
        self._count += 1
        name = f"<block {self._count}>"
        # For tracebacks and inspect.getsource. Only the latest sources are kept.
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        linecache.cache.pop(f"<block {self._count - _SOURCES}>", None)
        try:
            try:
                self._execute(source, name)
            finally:
                self._save_figures()
        except SystemExit as end:
            if end.code in (None, 0):
                return DONE
            self._show(f"{end.code}\n" if isinstance(end.code, str) else f"SystemExit: {end.code}\n")
            return FAILED
        except KeyboardInterrupt:
            self._show(_error(self._module.__dict__))
            return INTERRUPTED
        except BaseException:
            self._show(_error(self._module.__dict__))
            return FAILED
        return DONE

    def _show(self, text: str) -> None:
        """Print an error message after the block's output.

        Uses a saved descriptor, because the block may have closed or replaced its streams.
        """
        _flush()
        with contextlib.suppress(OSError):
            os.write(self._errors, text.encode("utf-8", "replace"))

    def _execute(self, source: str, name: str) -> None:
        tree = ast.parse(source, name)
        last = tree.body[-1] if tree.body else None
        shown: ast.expr | None = None
        if isinstance(last, ast.Expr) and not _is_muted(source, last):
            tree.body.pop()
            shown = last.value
        self._evaluate(tree, name, "exec")
        if shown is not None:
            value = self._evaluate(ast.Expression(shown), name, "eval")
            if value is not None:
                self._module.__dict__["_"] = value
                print(repr(value))

    def _evaluate(self, tree: ast.AST, name: str, mode: str) -> Any:
        # dont_inherit: the `from __future__` of this file would turn annotations of a block into strings.
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(tree, name, mode, flags, dont_inherit=True)  # type: ignore[call-overload]
        value = eval(code, self._module.__dict__)
        return self._awaited(value) if code.co_flags & inspect.CO_COROUTINE else value

    def _awaited(self, coroutine: Any) -> Any:
        """Run a coroutine of a block to its end. An interrupted coroutine is cancelled."""
        import asyncio

        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()  # keeps its tasks between blocks
        loop = self._loop
        task = loop.create_task(coroutine)
        try:
            return loop.run_until_complete(task)
        except BaseException:
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    loop.run_until_complete(task)
            raise

    def _save_figures(self) -> None:
        """Save the figures that a block has left open, and print their names."""
        plt = sys.modules.get("matplotlib.pyplot")
        if plt is None:
            return
        for number in plt.get_fignums():
            self._figures += 1
            while os.path.exists(path := f"{_FIGURES}/figure-{self._figures}.png"):
                self._figures += 1
            try:
                plt.figure(number).savefig(path, bbox_inches="tight")
            except Exception as error:  # such as an invalid formula in a title
                print(f"[a figure could not be saved: {error}]")
            else:
                print(f"[figure saved: {path}]")
            finally:
                plt.close(number)  # otherwise it would fail again after every later block


def _is_muted(source: str, last: ast.stmt) -> bool:
    """Whether a semicolon follows the last statement. As in a notebook, `plot(x);` prints nothing."""
    line = source.split("\n")[(last.end_lineno or 1) - 1]
    return line.encode()[last.end_col_offset :].lstrip().startswith(b";")


def _error(variables: dict[str, Any]) -> str:
    """Return the traceback, and hints about tables, functions or modules."""
    error = sys.exc_info()
    lines = list(_own(traceback.TracebackException(*error, compact=True)).format())
    if isinstance(error[1], _ABOUT_DATA):
        with contextlib.suppress(Exception):  # a block may have changed pandas
            lines += _tables(variables, error[1].args[0] if isinstance(error[1], KeyError) else None)
    if isinstance(error[1], TypeError) and (called := _CALLED.match(str(error[1]))):
        with contextlib.suppress(Exception):  # the called object may be anything
            lines += _signature(variables.get(called[1]))
    if isinstance(error[1], ImportError):
        with contextlib.suppress(Exception):  # `__all__` of a module may be anything
            lines += _offered(error[1].name)
    return "".join(lines)


def _own(error: traceback.TracebackException) -> traceback.TracebackException:
    """Remove the frames of this program, of libraries and of skills, except for the last frame.

    Causes of the error that have no frame in the person's code are removed, too.
    """
    frames = [frame for frame in error.stack if frame.filename not in (__file__, ast.__file__)]
    last = frames[-1:]
    error.stack = traceback.StackSummary.from_list(
        [frame for frame in frames[:-1] if _is_own(frame.filename)] + last
    )
    for name in ("__cause__", "__context__"):
        earlier = getattr(error, name)
        if earlier is not None:
            mine = any(_is_own(frame.filename) for frame in earlier.stack)
            setattr(error, name, _own(earlier) if mine else None)
    return error


def _is_own(filename: str) -> bool:
    return filename.startswith(("<block ", "/workspace/", "/tmp/"))


def _offered(module: str | None) -> list[str]:
    """Return a hint with the names in `__all__` of a module, after a failed import from it."""
    names = getattr(sys.modules.get(module or ""), "__all__", ())
    return [f"[{module} has {', '.join(map(str, names[:_COLUMNS]))}]\n"] if names else []


def _signature(function: object) -> list[str]:
    """Return a hint with the signature of a function, without annotations."""
    if not inspect.isfunction(function):
        return []
    given = inspect.signature(function)
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in given.parameters.values()]
    shown = given.replace(parameters=bare, return_annotation=inspect.Signature.empty)
    return [f"[it is called as {function.__name__}{shown}]\n"]


def _tables(variables: dict[str, Any], missing: object) -> list[str]:
    """Return a line for each of the latest DataFrames, and a hint if one has the missing column."""
    kind = getattr(sys.modules.get("pandas"), "DataFrame", None)
    if kind is None:
        return []
    found = {name: value for name, value in variables.items() if type(value) is kind and name[0] != "_"}
    latest = dict(list(found.items())[-_TABLES:])
    lines = [_table(name, value) for name, value in latest.items()]
    owners = [name for name, value in latest.items() if isinstance(missing, str) and missing in value.columns]
    others = [name for name in latest if name not in owners]
    if owners and others:
        merge = "merge the two first"
        for other in reversed(others):
            if keys := _keys(latest[other], latest[owners[0]]):
                left, right = keys
                merge += f", as in {other}.merge({owners[0]}, left_on={left!r}, right_on={right!r})"
                break
        lines.append(f"[{missing!r} is a column of {owners[0]}: to have it in another table, {merge}]\n")
    return lines


def _table(name: str, value: Any) -> str:
    names = [str(each) for each in value.columns[:_COLUMNS]]
    kinds = ["text" if str(each) in ("object", "str") else str(each) for each in value.dtypes[:_COLUMNS]]
    columns = ", ".join(f"{column} ({kind})" for column, kind in zip(names, kinds, strict=True))
    more = f" and {len(value.columns) - _COLUMNS} more" if len(value.columns) > _COLUMNS else ""
    return f"[{name}: a DataFrame of {len(value):,} rows with the columns {columns}{more}]\n"


def _keys(left: Any, right: Any) -> tuple[str, str] | None:
    """Return the columns on which `left` can be merged with `right`, by their names and values."""
    if max(len(left), len(right)) > _MERGED_ROWS:
        return None
    for mine in map(str, left.columns):
        for theirs in map(str, right.columns):
            alike = mine.lower() in theirs.lower() or theirs.lower() in mine.lower()
            if alike and right[theirs].is_unique and left[mine].isin(right[theirs]).mean() > 0.5:
                return mine, theirs
    return None


if __name__ == "__main__":
    main()
