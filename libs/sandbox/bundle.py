"""Put the container end into one file, from which it starts sooner (standard library only).

`python3 bundle.py <folder>` writes `main.pyc` beside the packages in that folder, for the Python that runs
it: each has a format of its own. What starts from it looks for no file, and reads what it imports alone. The
sources stay where they are: tracebacks show their lines, and one runs as a program.
"""

from __future__ import annotations

import marshal
import sys
from importlib import import_module
from importlib.util import MAGIC_NUMBER
from pathlib import Path

__all__ = ["write_bundle"]

_PACKAGES = ("libs", "libs.sandbox")
_LIBRARY = ("__future__", "struct")
"""Modules of Python's own that every start imports, and that are no part of its program."""
_PROGRAMS = ("bundle", "repl")
"""What is run, not imported."""
_MAIN = """
import marshal
import sys
from _frozen_importlib import ModuleSpec


class Bundle:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return ModuleSpec(name, Bundle, is_package=name in PACKAGES) if name in CODES else None

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        code = marshal.loads(CODES[module.__name__])
        module.__file__ = code.co_filename
        exec(code, module.__dict__)


sys.meta_path.insert(0, Bundle)
from libs.sandbox.boot import main

main()
"""


def write_bundle(folder: Path) -> None:
    """Write `main.pyc`, of all modules in `libs/sandbox` below the folder, which stays where it is then.

    Raises:
        OSError: a file cannot be read or written.
        SyntaxError: of one of them.
    """
    codes = {name: marshal.dumps(compile("", name, "exec")) for name in _PACKAGES}
    # Where a module lies is written into it, and it looks beside itself for what it starts.
    folder = folder.absolute()
    paths = {name: Path(str(import_module(name).__file__)) for name in _LIBRARY}
    for path in sorted(folder.glob("libs/sandbox/*.py")):
        if path.stem not in _PROGRAMS:
            paths[f"libs.sandbox.{path.stem}"] = path
    for name, path in paths.items():
        codes[name] = marshal.dumps(compile(path.read_bytes(), str(path), "exec", dont_inherit=True))
    program = folder / "main.pyc"
    text = f"PACKAGES = {_PACKAGES!r}\nCODES = {codes!r}\n{_MAIN}"
    main = marshal.dumps(compile(text, str(program), "exec", dont_inherit=True))
    # After the format's number, what would be compared with a source: see PEP 552.
    program.write_bytes(MAGIC_NUMBER + bytes(12) + main)


if __name__ == "__main__":
    write_bundle(Path(sys.argv[1]))
