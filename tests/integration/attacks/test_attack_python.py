"""Commands plant Python modules and start-up files. The workers that serve the tools never import them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox import guest_tree
from tests.support.sandboxes import IMAGE, NEW_SANDBOX, RUNTIME

pytestmark = pytest.mark.docker

# Modules that the workers and the live interpreter import, and names of their own parts.
MODULES = """
json os re stat errno base64 codecs contextlib subprocess fcntl termios select struct time ctypes signal
typing enum collections encodings linecache traceback ast inspect types libs main frames link disk files text
search patterns runner repl interpreter supervisor site sitecustomize usercustomize readline asyncio tokenize
"""


@pytest.fixture
def poisoned(tmp_path: Path) -> Iterator[DockerExecutionBackend]:
    """Plant files; each one writes to /tmp/trace when it runs."""
    with DockerExecutionBackend(
        tmp_path / "workspace", image=IMAGE, runtime=RUNTIME, name="attack"
    ) as backend:
        lines = ["echo \"open('/tmp/trace', 'a').write(__name__ + ' ')\" > /tmp/evil.py"]
        folders = (
            "/workspace /tmp /tmp/home /workspace/scripts /tmp/home/.local/lib/python3*/site-packages /run"
        )
        lines += ["mkdir -p $(python3 -m site --user-site); touch /tmp/trace", f"for d in {folders}; do"]
        lines += [f"for m in {' '.join(MODULES.split())}; do cp /tmp/evil.py $d/$m.py; done"]
        lines += [
            f"for p in {' '.join(guest_tree())}; do mkdir -p $(dirname $d/$p); cp /tmp/evil.py $d/$p; done"
        ]
        lines += ["cp /tmp/evil.py $d/libs/__init__.py"]
        lines += [
            "echo \"import sys; open('/tmp/trace', 'a').write('pth ')\" > $d/evil.pth; done 2> /dev/null"
        ]
        lines += ["echo 'home = /workspace' > /workspace/pyvenv.cfg; cp /tmp/evil.py ~/.pythonrc.py; true"]
        assert backend.execute("\n".join(lines)).exit_code == 0
        backend.execute("export PYTHONSTARTUP=/tmp/evil.py PYTHONPATH=/workspace PYTHONHOME=/tmp; kill -9 -1")
        yield backend


def trace(backend: DockerExecutionBackend) -> str:
    return backend.execute("cat /tmp/trace").output


def test_planted_modules_are_never_imported(poisoned: DockerExecutionBackend) -> None:
    for _ in range(2):  # first a worker from before the attack, then a new worker
        assert poisoned.write("/workspace/new.txt", "needle\n").error is None
        assert poisoned.edit("/workspace/new.txt", "needle", "needles").error is None
        assert poisoned.read("/workspace/new.txt").error is None
        assert poisoned.ls("/workspace").error is None
        assert poisoned.glob("*.txt").error is None
        assert poisoned.grep("needles").error is None
        assert poisoned.upload_files([("/workspace/up.bin", b"x")])[0].error is None
        assert poisoned.download_files(["/workspace/up.bin"])[0].content == b"x"
        poisoned.execute("mkdir -p /workspace/folder/deep")
        assert poisoned.delete("/workspace/folder").error is None
        assert poisoned.delete("/workspace/new.txt").error is None
        assert trace(poisoned) == ""
        poisoned.execute("kill -9 -1")
    poisoned.reset()  # then a new container
    assert poisoned.execute("touch /tmp/trace; echo on").output == f"{NEW_SANDBOX}on\n"
    assert poisoned.ls("/workspace").error is None
    assert trace(poisoned) == ""


@pytest.mark.thorough
def test_interpreter_works_despite_planted_modules(poisoned: DockerExecutionBackend) -> None:
    """The interpreter may import planted modules. Its worker must still get an answer."""
    result = poisoned.sandbox.run_python("print(6 * 7)", session="s", timeout=20)
    assert "42" in result.output or result.exit_code != 0
    assert poisoned.execute("echo on").output == "on\n"
    poisoned.execute("rm -rf /tmp/home/.local")
    assert poisoned.sandbox.run_python("print(6 * 7)", session="t", timeout=20).output == "42\n"
