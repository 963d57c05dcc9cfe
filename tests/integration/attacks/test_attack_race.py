"""A program in the sandbox exchanges folders and links while the host calls every file tool on them.

ATTACK_CALLS sets the number of calls; see CONTRIBUTING.md.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox import SandboxError
from libs.sandbox.docker.ownership import give_to_sandbox
from libs.sandbox.workspace import prepare_workspace
from tests.support.sandboxes import IMAGE, RUNTIME

pytestmark = pytest.mark.docker

CALLS = int(os.environ.get("ATTACK_CALLS", "3000"))
SECONDS = 200 + CALLS // 50
ROUNDS = 200
"""Number of times that root puts files into the exchanged folders."""
CANARY = "canary-of-the-host"
# renameat2(2) with RENAME_EXCHANGE: both names exist at every moment.
SWAPPER = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
pairs = [(f"/workspace/race/{n}".encode(), f"/workspace/race/{n}.link".encode()) for n in sys.argv[1:]]
os.chdir("/workspace/race")
count = 0
while not os.path.exists("/tmp/stop"):
    for first, second in pairs:
        for _ in range(250):
            libc.renameat2(-100, first, -100, second, 2)
    count += 250 * len(pairs)
    with open("/tmp/count.new", "w") as file:
        file.write(str(count))
    os.rename("/tmp/count.new", "/tmp/count")
"""


def fingerprint(folder: Path) -> str:
    """Return a hash of all contents, owners, modes and extended attributes in a folder."""
    digest = hashlib.sha256()
    for path in [folder, *sorted(folder.rglob("*"))]:
        info = path.lstat()
        digest.update(f"{path} {info.st_mode} {info.st_uid} {info.st_gid} {info.st_nlink}".encode())
        digest.update(path.read_bytes() if path.is_file() else b"")
        for name in sorted(os.listxattr(path, follow_symlinks=False)):
            digest.update(name.encode() + os.getxattr(path, name, follow_symlinks=False))
    return digest.hexdigest()


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    (folder / "deep").mkdir(parents=True)
    for name in ("file", "deep/file", "hostname"):
        (folder / name).write_text(f"{CANARY} {name}\n")
    return folder


@pytest.fixture
def racing(tmp_path: Path, outside: Path) -> Iterator[DockerExecutionBackend]:
    """Exchange three folders with links to /etc and to `outside` (absolute and relative).

    The workspace belongs to an ordinary user.
    """
    root = tmp_path / "workspace"
    root.mkdir()
    if os.geteuid() == 0:
        os.chown(root, 1000, 1000)
    with DockerExecutionBackend(root, image=IMAGE, runtime=RUNTIME, name="attack") as backend:
        links = {"etc": "/etc", "absolute": str(outside), "relative": "../../outside"}
        for name, target in links.items():
            folder = f"/workspace/race/{name}"
            made = f"mkdir -p {folder}/deep; cd {folder}; echo in | tee file deep/file hostname"
            assert backend.execute(f"{made}; ln -s {target} {folder}.link").exit_code == 0
        start_swapping(backend, links)
        yield backend


def start_swapping(backend: DockerExecutionBackend, names: Iterable[str]) -> None:
    """Start the program that exchanges folders and links, and wait for its first count in /tmp/count."""
    backend.upload_files([("/tmp/swapper.py", SWAPPER.encode())])
    backend.execute(f"python3 /tmp/swapper.py {' '.join(names)} > /dev/null 2>&1 & true")
    begun = backend.execute("until [ -e /tmp/count ]; do sleep 0.05; done", timeout=30)
    assert begun.exit_code == 0


def call(backend: DockerExecutionBackend, index: int) -> Any:
    """Call one file tool on one of the three folders. Every text that a call writes contains "in"."""
    folder = f"/workspace/race/{('etc', 'absolute', 'relative')[index % 3]}"
    name = ("file", "deep/file", "hostname", f"new-{index % 50}")[index // 3 % 4]
    path = f"{folder}/{name}"
    return (
        lambda: backend.read(path),
        lambda: backend.write(path, "in, written\n"),
        lambda: backend.edit(path, "in", "in"),
        lambda: backend.ls(folder),
        lambda: backend.glob("**/*", folder),
        lambda: backend.grep(CANARY, folder),
        lambda: backend.upload_files([(path, b"in, uploaded\n")]),
        lambda: backend.download_files([path]),
        lambda: backend.delete(f"{folder}/new-{index % 50}"),
    )[index // 12 % 9]()


@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize(
    ("calls", "exchanges"), [(120, 2_000), pytest.param(CALLS, 100_000, marks=pytest.mark.thorough)]
)
def test_no_byte_outside_is_read_or_written(
    racing: DockerExecutionBackend, outside: Path, tmp_path: Path, calls: int, exchanges: int
) -> None:
    before = fingerprint(outside)
    host = Path("/etc/hostname").read_text()
    answers: Counter[str] = Counter()
    swaps = made = 0
    end = time.monotonic() + SECONDS
    while (made < calls or swaps < exchanges) and time.monotonic() < end:
        answer = call(racing, made)
        made += 1
        shown = str(answer)
        assert CANARY not in shown
        answers["read inside" if "'in" in shown or "b'in" in shown else "other"] += 1
        if made % (calls // 6) == 0:
            swaps = int(racing.execute("cat /tmp/count").output)
            assert fingerprint(outside) == before
    racing.execute("touch /tmp/stop")
    assert made >= calls
    assert swaps >= exchanges
    assert answers["read inside"] > 0
    assert fingerprint(outside) == before
    assert Path("/etc/hostname").read_text() == host
    assert {path.name for path in tmp_path.iterdir()} == {"workspace", "outside"}
    print(f"{made} calls during {swaps} exchanges: {dict(answers)}")


def give(folder: int) -> None:
    """Put files and a folder of root into a folder, with the names that `outside` has too."""
    for name in ("file", "hostname"):
        os.close(os.open("new", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=folder))
        os.rename("new", name, src_dir_fd=folder, dst_dir_fd=folder)
    with suppress(FileExistsError):
        os.mkdir("deep", dir_fd=folder)
    os.chown("deep", 0, 0, dir_fd=folder, follow_symlinks=False)


def opened(name: str, folder: int) -> int:
    """Open a folder that is exchanged with a link, at a moment when the name is the folder's."""
    while True:
        with suppress(OSError):
            return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_ownership_change_at_start_follows_no_swapped_link(outside: Path, tmp_path: Path) -> None:
    """Files, folders and their parent folders are exchanged with links while root gives them to the sandbox.

    The links lead to files of the same names. A step that followed a link would change their owner.
    """
    root = tmp_path / "workspace"
    links = {"absolute": str(outside), "relative": "../../outside", "given": "../../outside/file"}
    before = fingerprint(outside)
    handed: Counter[str] = Counter()
    with DockerExecutionBackend(root, image=IMAGE, runtime=RUNTIME, name="attack") as backend:
        made = "mkdir -p race/absolute race/relative && cd race && touch given"
        linked = "; ".join(f"ln -s {target} {name}.link" for name, target in links.items())
        assert backend.execute(f"{made} && {linked}").exit_code == 0
        start_swapping(backend, links)
        race = os.open(root / "race", os.O_RDONLY | os.O_DIRECTORY)
        folders = {name: opened(name, race) for name in ("absolute", "relative")}
        rounds = swaps = 0
        while rounds < ROUNDS or swaps < ROUNDS * 100:
            for folder in folders.values():
                give(folder)
            for name in ("given", "given.link"):
                os.chown(name, 0, 0, dir_fd=race, follow_symlinks=False)
            give_to_sandbox(root, 1000)
            assert fingerprint(outside) == before
            for name, folder in folders.items():
                handed[name] += os.stat("file", dir_fd=folder).st_uid != 0
                handed["deep"] += os.stat("deep", dir_fd=folder).st_uid != 0
            handed["given"] += os.lstat("given", dir_fd=race).st_uid != 0
            rounds += 1
            if rounds % 20 == 0:
                swaps = int(backend.execute("cat /tmp/count").output)
        backend.execute("touch /tmp/stop; sleep 0.2")
        for folder in folders.values():
            give(folder)
        give_to_sandbox(root, 1000)
        assert {path.lstat().st_uid for path in root.rglob("*")} == {1000}
        for folder in (race, *folders.values()):
            os.close(folder)
    assert fingerprint(outside) == before
    assert all(handed[name] > ROUNDS // 20 for name in ("absolute", "relative", "deep", "given"))
    print(f"{rounds} rounds during {swaps} exchanges: {dict(handed)}")


def test_link_that_replaces_a_new_folder_is_not_followed(
    tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another sandbox on the same workspace replaces the folder before the host's next step."""
    make = Path.mkdir

    def beaten(path: Path, *args: Any, **kwargs: Any) -> None:
        make(path, *args, **kwargs)
        if path.name == "data":
            path.rmdir()
            path.symlink_to(outside)

    root = tmp_path / "workspace"
    root.mkdir()
    if os.geteuid() == 0:
        os.chown(root, 4321, 4321)
    before = fingerprint(outside)
    monkeypatch.setattr(Path, "mkdir", beaten)
    prepare_workspace(root)
    assert fingerprint(outside) == before


@pytest.mark.parametrize(
    ("place", "exists"), [("threads", True), ("threads/one", True), ("threads/one", False), ("data", True)]
)
def test_thread_sandbox_refuses_links_of_a_shared_sandbox(
    tmp_path: Path, outside: Path, place: str, exists: bool
) -> None:
    """A command of a shared sandbox leaves the link. Later a thread gets a sandbox on the same workspace."""
    with DockerExecutionBackend(
        tmp_path / "workspace", image=IMAGE, runtime=RUNTIME, name="attack"
    ) as shared:
        target = outside if exists else outside.parent / "elsewhere"
        plant = f"cd /workspace; mkdir -p $(dirname {place}); rm -rf {place}; ln -s {target} {place}"
        assert shared.execute(plant).exit_code == 0
    before = fingerprint(outside)
    with DockerExecutionBackend(
        tmp_path / "workspace", image=IMAGE, runtime=RUNTIME, name="attack", scope="thread", warm=1
    ) as backend:
        sandbox = backend.sandbox_of("one")
        with pytest.raises(SandboxError, match="link"):
            sandbox.run("cat /workspace/file /data/file; touch /workspace/x")
    assert fingerprint(outside) == before
    assert not (outside.parent / "elsewhere").exists()
