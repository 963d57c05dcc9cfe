"""Skills as a library, inside the sandbox: `from skills.file import read`, from any directory.

The image holds this file as `skills/__init__.py` among Python's own packages. Its submodules are the
folders of the live mounts, so a folder with an `__init__.py` that is added to them can be imported at once.
As a regular package it wins over a folder that merely has the name, such as `/workspace/skills`; and
nothing but skills becomes importable, as it would with `/` on the path. The project's own come first.
"""

import glob

__path__ = ["/skills", *sorted(glob.glob("/skills.d/*"))]  # noqa: PTH207 - pathlib would cost every import
