"""Modules and start-up files left where Python looks: what serves the tools imports none of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend

pytestmark = pytest.mark.docker

# What the workers and the live interpreter import, their own parts and those of the standard library.
MODULES = """
json os re stat errno base64 codecs contextlib subprocess fcntl termios select struct time ctypes signal
typing enum collections encodings linecache traceback ast inspect types libs main frames link disk files text
search patterns runner repl interpreter supervisor site sitecustomize usercustomize readline asyncio tokenize
"""


@pytest.fixture
def poisoned(tmp_path: Path) -> Iterator[DockerExecutionBackend]:
    """Each planted file leaves a trace when it is run."""
    with DockerExecutionBackend(tmp_path / "workspace", name="attack") as backend:
        lines = ["echo \"open('/tmp/trace', 'a').write(__name__ + ' ')\" > /tmp/evil.py"]
        folders = (
            "/workspace /tmp /tmp/home /workspace/scripts /tmp/home/.local/lib/python3*/site-packages /run"
        )
        lines += ["mkdir -p $(python3 -m site --user-site); touch /tmp/trace", f"for d in {folders}; do"]
        lines += [f"for m in {' '.join(MODULES.split())}; do cp /tmp/evil.py $d/$m.py; done"]
        lines += [
            "mkdir -p $d/libs/sandbox; cp $d/os.py $d/libs/__init__.py; cp $d/os.py $d/libs/sandbox/files.py"
        ]
        lines += [
            "echo \"import sys; open('/tmp/trace', 'a').write('pth ')\" > $d/evil.pth; done 2> /dev/null"
        ]
        lines += ["echo 'home = /workspace' > /workspace/pyvenv.cfg; cp /tmp/evil.py ~/.pythonrc.py; true"]
        assert backend.execute("\n".join(lines)).exit_code == 0
        backend.execute("export PYTHONSTARTUP=/tmp/evil.py PYTHONPATH=/workspace PYTHONHOME=/tmp; kill -9 -1")
        yield backend


def trace(backend: DockerExecutionBackend) -> str:
    return backend.execute("cat /tmp/trace").output


def test_file_tools_import_nothing_of_the_workspace(poisoned: DockerExecutionBackend) -> None:
    for _ in range(2):  # by a worker of before, and by one that starts now
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


def test_starting_anew_imports_nothing_either(poisoned: DockerExecutionBackend) -> None:
    poisoned.reset()
    assert poisoned.execute("touch /tmp/trace; echo on").output == "on\n"
    assert poisoned.ls("/workspace").error is None
    assert trace(poisoned) == ""


def test_the_live_interpreter_serves_on(poisoned: DockerExecutionBackend) -> None:
    """It runs a model's code and sees what that has installed; its worker does not, and gets its answer."""
    result = poisoned.sandbox.run_python("print(6 * 7)", session="s", timeout=20)
    assert "42" in result.output or result.exit_code != 0
    assert poisoned.execute("echo on").output == "on\n"
    poisoned.execute("rm -rf /tmp/home/.local")
    assert poisoned.sandbox.run_python("print(6 * 7)", session="t", timeout=20).output == "42\n"
