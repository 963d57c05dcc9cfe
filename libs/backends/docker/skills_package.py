"""Makes skills importable inside the sandbox: `from skills.file import read`, from any directory.

The image has this file as `skills/__init__.py` in its site-packages. The submodules of the package are the
folders and modules of the mounts, so a new folder with an `__init__.py`, or a new module, can be imported at
once. A regular package takes precedence over a folder of the same name, such as `/workspace/skills`. The
project's own skills come first.
"""

import glob

__path__ = ["/skills", *sorted(glob.glob("/skills.d/*"))]  # noqa: PTH207 - pathlib would cost every import
