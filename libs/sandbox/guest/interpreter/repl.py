"""The live interpreter: a program in the sandbox that runs blocks of Python, one after another.

`python_worker.py` starts it with two descriptors, one to read blocks and one to write answers. Variables stay
between blocks. A block prints to standard output and error like any program.

This file is short, because Python compiles the main program at every start. The image holds the other
modules in compiled form.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.path.insert(0, __file__.removesuffix("/libs/sandbox/guest/interpreter/repl.py"))
    from libs.sandbox.guest.interpreter.block_server import serve

    # A block may import modules of its own with these names.
    del sys.path[0]
    for name in [name for name in sys.modules if name.partition(".")[0] == "libs"]:
        del sys.modules[name]
    serve(int(sys.argv[1]), int(sys.argv[2]))
