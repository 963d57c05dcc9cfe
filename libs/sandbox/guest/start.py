"""The program that starts a sandbox: `python3 -I -S start.py` (standard library only).

It is short, because Python compiles the main program at every start. The modules are compiled in the image.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.path.insert(0, __file__.removesuffix("/libs/sandbox/guest/start.py"))
    from libs.sandbox.guest.boot import main

    main()
