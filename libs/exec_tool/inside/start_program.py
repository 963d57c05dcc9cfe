"""Runs a Python program, and has the exception that ended the program written down (standard library only).

`python3 .start program.py` runs in the sandbox as `python3 program.py` would: same `__main__`, arguments,
tracebacks and exit code. `tell_exception.py` lies beside this file as `.start.tell`. This file is short,
because every program waits until Python has compiled this file.
"""

import os
import sys

process = os.getpid()
del sys.argv[0], sys.orig_argv[1]
path = sys.argv[0]
# The program gets a new `__main__`, because the names of this file are not the program's.
main = sys.modules["__main__"] = type(sys)("__main__")
main.__dict__.update(
    __annotations__={},
    __builtins__=__builtins__,
    __cached__=None,
    __file__=path,
    __loader__=type(__loader__)("__main__", path),  # type: ignore[name-defined]
)
try:
    with open(path, "rb") as file:
        source = file.read()
    exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)
except BaseException as error:
    if os.getpid() == process:  # not a fork of the program
        try:
            tools: dict[str, object] = {}
            with open(f"{__file__}.tell", "rb") as file:
                exec(file.read(), tools)
            ran = error.__traceback__.tb_next is not None  # type: ignore[union-attr]
            tools["tell"](error, f"{__file__}.ended", ran=ran)  # type: ignore[operator]
        except BaseException:
            pass  # the record cannot be written, or the exception itself fails: nothing is known
    # The traceback begins with the program, as if the interpreter had run it. `raise` adds no frame.
    error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
    # A program that could not be compiled has no frames. Python 3.11.2 crashes at a `raise` without frames.
    if error.__traceback__ is None:
        sys.excepthook(type(error), error, None)
        sys.exit(1)
    raise
