"""The same captures in both databases, in a folder and at an S3 server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from libs.persistence.thread_database import Database
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.workspace import Catalog, ContentMissing, Contents, SnapshotsUnavailable, WorkspaceStore
from tests.servers.thread_databases import both_databases
from tests.support.snapshots.trees import tree


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[LocalSandbox]:
    with LocalSandbox(tmp_path / "workspace") as made:
        made.root.mkdir()
        yield made


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[str]:
    """Run an S3 server with a bucket `name`. The environment names the server, as for programs of AWS."""
    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tester")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3-9Kd8Wq2Lm4Xz")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    boto3.client("s3").create_bucket(Bucket=name)
    yield f"s3://{name}/of/tests"
    server.stop()


def change(root: Path) -> None:
    (root / "a\udcff\n").write_text("a")
    (root / "large").write_bytes(os.urandom(5_000_000))
    (root / "folder").mkdir()
    (root / "link").symlink_to("folder")


@both_databases
def test_captures_are_the_same_in_both_databases_and_load_again(
    sandbox: LocalSandbox, database: Database, another: Database, tmp_path: Path
) -> None:
    contents = Contents(str(tmp_path / "snapshots"))
    store = WorkspaceStore(Catalog(database), contents)
    change(sandbox.root)
    first, before = store.capture(sandbox).id, tree(sandbox.root)
    (sandbox.root / "large").unlink()
    second = store.capture(sandbox).id
    later = WorkspaceStore(Catalog(another), contents)
    assert later.manifest(first).id == first
    assert later.manifest(second).id == second
    assert later.difference(first, second).deleted == ("/workspace/large",)
    assert not later.restore(sandbox, first).kept
    assert tree(sandbox.root) == before


def test_captures_at_an_s3_server(sandbox: LocalSandbox, database: Database, s3: str, name: str) -> None:
    store = WorkspaceStore(Catalog(database), Contents(s3))
    change(sandbox.root)
    first, before = store.capture(sandbox).id, tree(sandbox.root)
    objects = boto3.client("s3").list_objects_v2(Bucket=name)["Contents"]
    objects = [found for found in objects if "/contents/" in found["Key"]]
    assert len(objects) == 2
    for path in ("large", "a\udcff\n"):
        (sandbox.root / path).unlink()
    (sandbox.root / "new").write_text("new")
    assert not store.restore(sandbox, first).kept
    assert tree(sandbox.root) == before

    for found in objects:
        boto3.client("s3").delete_object(Bucket=name, Key=found["Key"])
    (sandbox.root / "large").unlink()
    left = tree(sandbox.root)
    with pytest.raises(ContentMissing, match="is gone"):
        store.restore(sandbox, first)
    assert tree(sandbox.root) == left


@pytest.mark.parametrize(
    ("changed", "url"),
    [
        ({}, "s3://nowhere/x"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "s3://snapshots/x"),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_METADATA_ENDPOINT": "http://127.0.0.1:9"}, "s3://snapshots/x"),
    ],
    ids=["no bucket", "no server", "no credentials"],
)
def test_wrong_address_of_an_s3_server(
    sandbox: LocalSandbox,
    database: Database,
    s3: str,
    monkeypatch: pytest.MonkeyPatch,
    changed: dict[str, str],
    url: str,
) -> None:
    for name, value in changed.items():
        monkeypatch.setenv(name, value)
        if not value:
            monkeypatch.delenv(name)
    (sandbox.root / "a").write_text("a")
    with pytest.raises(SnapshotsUnavailable) as caught:
        WorkspaceStore(Catalog(database), Contents(url)).capture(sandbox)
    assert url in str(caught.value)
    assert "SNAPSHOTS_URL" in caught.value.hint
    assert "s3-9Kd8Wq2Lm4Xz" not in str(caught.value)
