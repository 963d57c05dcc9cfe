"""The page's files of a thread on a cluster: uploads are kept, and another server reads them without one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import ray

from tests.integration.files.calls import entries
from tests.support.cluster.ray_cluster import Cluster
from tests.support.sandboxes import IMAGE
from tests.support.small_files import pdf
from tests.support.workspaces.file_servers import FileServer, file_server


@pytest.fixture
async def servers(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[FileServer]]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workspace" / "data").mkdir(parents=True)
    (tmp_path / "workspace" / "data" / "common.csv").write_text("a\n7\n")
    settings = {"sandbox_cluster": cluster.address, "sandbox_scope": "thread", "sandbox_image": IMAGE}
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(file_server(**settings)) for _ in range(2)]
    ray.shutdown()


async def test_uploads_are_kept_and_read_by_another_server(
    cluster: Cluster, servers: list[FileServer]
) -> None:
    first, second = servers
    assert (await first.put("results/one.pdf", pdf("one"))).status_code == 200
    assert (await first.put("rows.csv", b"a,b\n1,2\n")).status_code == 200
    [node] = [node for node in cluster.nodes if node.ip in first.sandbox.node]
    node.kill()
    assert list(entries(await second.get("list"))) == ["data", "results", "scripts", "rows.csv"]
    assert (await second.get("content", path="rows.csv")).content == b"a,b\n1,2\n"
    assert (await second.get("table", path="rows.csv")).json()["rows"] == [["1", "2"]]
    assert (await second.get("pdf", path="results/one.pdf")).content.startswith(b"\x89PNG")
    assert (await second.get("table", path="data/common.csv")).json()["rows"] == [["7"]]
    assert not second.sandbox.running
    assert (await second.put("rows.csv", b"new", replace="1")).status_code == 200
    assert second.sandbox.run("cat rows.csv; ls results").output == "newone.pdf\n"
