"""Permissions in a container, whose user is not root: kept and restored, and named where they forbid."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.persistence.thread_database import SqliteDatabase
from libs.sandbox.docker.container import DockerSandbox
from libs.workspace import Catalog, ContentMissing, Contents, Difference, WorkspaceStore
from tests.support.sandboxes import IMAGE, RUNTIME
from tests.support.snapshots.trees import Tree, tree

pytestmark = pytest.mark.docker

DENIED = "permission denied"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    root = tmp_path_factory.mktemp("workspaces") / "workspace"
    with DockerSandbox(root, image=IMAGE, runtime=RUNTIME, name="workspace") as made:
        yield made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WorkspaceStore]:
    database = SqliteDatabase(tmp_path / "threads.sqlite")
    yield WorkspaceStore(Catalog(database), Contents(str(tmp_path / "snapshots")))
    database.close()


@pytest.fixture(autouse=True)
def empty(sandbox: DockerSandbox) -> None:
    ok(sandbox, "chmod -R u+rwx .; find . -mindepth 1 -not -path './.output*' -delete")


def ok(sandbox: DockerSandbox, command: str) -> None:
    done = sandbox.run(f"cd /workspace; {command}")
    assert done.exit_code == 0, done.output


def state(sandbox: DockerSandbox) -> Tree:
    """Return what the workspace holds, as root sees it on the host."""
    found = tree(sandbox.root)
    return {path: value for path, value in found.items() if "/.output" not in path}


def test_command_is_undone_byte_for_byte(sandbox: DockerSandbox, store: WorkspaceStore) -> None:
    ok(
        sandbox,
        "mkdir -p data results/a; echo 1,2 > data/sales.csv; echo old > results/a/report; ln -s data d",
    )
    before, wanted = store.capture(sandbox).id, state(sandbox)
    ok(
        sandbox,
        "rm -r data; echo new > results/a/report; mv results/a results/b; rm d; mkdir d; echo 3 > data",
    )
    captured = store.capture(sandbox, base=before)
    assert captured.difference.created == ("/results/b", "/results/b/report")
    assert captured.difference.changed == ("/data", "/workspace/d")
    assert captured.difference.deleted == ("/data/sales.csv", "/results/a", "/results/a/report")
    restored = store.restore(sandbox, before)
    assert not restored.kept
    assert state(sandbox) == wanted
    ok(sandbox, "echo 5 >> data/sales.csv; echo x > results/a/y")  # the sandbox's user owns all


def test_read_only_folders_are_restored(sandbox: DockerSandbox, store: WorkspaceStore) -> None:
    ok(sandbox, "mkdir -p a/b; echo 1 > a/b/f; echo 2 > a/b/g; chmod 444 a/b/f; chmod 555 a/b a")
    before, wanted = store.capture(sandbox).id, state(sandbox)
    ok(sandbox, "chmod 755 a/b; rm a/b/f; echo 3 > a/b/g; echo new > a/b/h; chmod 555 a/b")
    changed, later = store.capture(sandbox).id, state(sandbox)
    for to, expected in ((before, wanted), (changed, later)):
        assert not store.restore(sandbox, to).kept
        assert state(sandbox) == expected
    ok(sandbox, "chmod -R u+w a; rm -r a")
    assert not store.restore(sandbox, before).kept
    assert state(sandbox) == wanted


def test_file_that_may_not_be_read_is_named(sandbox: DockerSandbox, store: WorkspaceStore) -> None:
    ok(sandbox, "echo secret > f; chmod 000 f; echo g > g")
    captured = store.capture(sandbox)
    assert captured.skipped == {"/workspace/f": DENIED}
    ok(sandbox, "chmod 600 f; rm g")
    assert store.restore(sandbox, captured.id).kept == {
        "/workspace/f": f"its earlier content was not kept: {DENIED}"
    }
    assert state(sandbox).keys() >= {"/workspace/f", "/workspace/g"}


@pytest.mark.parametrize("mode", ["000", "300", "600"])
def test_closed_folder_is_named_and_undone_with_its_content(
    sandbox: DockerSandbox, store: WorkspaceStore, mode: str
) -> None:
    ok(sandbox, "mkdir -p d/sub; echo 1 > d/f; echo 2 > d/sub/g; ln -s f d/l")
    before, wanted = store.capture(sandbox).id, state(sandbox)
    ok(sandbox, f"echo changed > d/f; rm -r d/sub; echo new > d/new; chmod {mode} d")
    captured = store.capture(sandbox, base=before)
    assert captured.skipped == {"/workspace/d": DENIED}
    assert captured.difference.changed == ("/workspace/d",)
    assert not captured.difference.deleted
    assert not store.restore(sandbox, before).kept
    assert state(sandbox) == wanted


def test_dry_run_names_the_closed_folders_whose_content_would_be_brought_back(
    sandbox: DockerSandbox, store: WorkspaceStore
) -> None:
    ok(sandbox, "mkdir d; echo 1 > d/f; echo 2 > d/g; echo 3 > h")
    before, wanted = store.capture(sandbox).id, state(sandbox)
    ok(sandbox, "echo changed > d/f; rm h")
    store.capture(sandbox)  # so that the change of d/f is known, but not its present content
    ok(sandbox, "rm d/g; mkdir new; chmod 000 d new")
    told = store.restore(sandbox, before, dry_run=True)
    assert told.unlisted == ("/workspace/d",)
    assert told.difference == Difference(created=("/workspace/h",), changed=("/workspace/d",))
    done = store.restore(sandbox, before)
    assert told.kept == done.kept == {"/workspace/new": f"its present content is not kept: {DENIED}"}
    assert set(done.difference) - set(told.difference) == {"/workspace/d/f", "/workspace/d/g"}
    assert not done.unlisted
    ok(sandbox, "rmdir new")
    assert state(sandbox) == wanted


def test_restore_that_fails_in_a_folder_it_has_opened_is_undone_as_a_whole(
    sandbox: DockerSandbox, store: WorkspaceStore, tmp_path: Path
) -> None:
    """The content of a closed folder is restored in a second round."""
    ok(sandbox, "mkdir d; echo 1 > d/f; echo 2 > d/g; echo a > a")
    before = store.capture(sandbox).id
    ok(sandbox, "echo changed > d/f; rm d/g; echo new > d/h; echo b > a; chmod 000 d")
    present = state(sandbox)
    [kept] = (tmp_path / "snapshots").rglob(hashlib.sha256(b"2\n").hexdigest())
    content = kept.read_bytes()
    kept.unlink()
    with pytest.raises(ContentMissing):
        store.restore(sandbox, before)
    assert state(sandbox) == present
    kept.write_bytes(content)
    assert not store.restore(sandbox, before).kept


def test_paths_in_a_folder_that_was_never_read_are_named(
    sandbox: DockerSandbox, store: WorkspaceStore, tmp_path: Path
) -> None:
    """A program that starts anew knows nothing of the closed folder's content."""
    ok(sandbox, "mkdir d; echo 1 > d/f; chmod 000 d")
    closed = store.capture(sandbox).id
    ok(sandbox, "chmod 755 d")
    opened = store.capture(sandbox).id
    ok(sandbox, "chmod 000 d; mkdir e; touch e/g")
    again = WorkspaceStore(store._catalog, store._contents)
    assert again.restore(sandbox, closed).kept == {
        "/workspace/d": f"its present content is not kept: {DENIED}"
    }
    ok(sandbox, "chmod 755 d; test -e d/f; test ! -e e")
    ok(sandbox, "chmod 000 d")
    restored = WorkspaceStore(store._catalog, store._contents).restore(
        sandbox, opened, only=["/workspace/d/f"]
    )
    assert restored.kept == {"/workspace/d/f": f"its present content is not kept: {DENIED}"}


def test_unreadable_workspace_is_named_and_changes_nothing(
    sandbox: DockerSandbox, store: WorkspaceStore
) -> None:
    ok(sandbox, "echo 1 > f; mkdir d")
    before = store.capture(sandbox)
    mode = sandbox.root.stat().st_mode
    sandbox.root.chmod(0o300)
    captured = store.capture(sandbox, base=before.id)
    assert captured.skipped == {"/workspace": DENIED}
    assert not captured.difference
    assert store.restore(sandbox, before.id).kept == {
        "/workspace": f"its present content is not kept: {DENIED}"
    }
    sandbox.root.chmod(mode)
    assert store.capture(sandbox).id == before.id


def test_files_of_root_are_replaced(sandbox: DockerSandbox, store: WorkspaceStore) -> None:
    """Root on the host adds files that the sandbox's user can read, but not change."""
    ok(sandbox, "echo mine > f; touch -d @1 f")
    before, wanted = store.capture(sandbox).id, state(sandbox)
    file = sandbox.root / "f"
    file.unlink()
    file.write_text("mine\n")
    file.chmod(0o604)
    assert not store.restore(sandbox, before).kept
    assert state(sandbox) == wanted
    ok(sandbox, "echo more >> f")
