"""The sample task on two machines, one of which is switched off in the middle."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clients.cli_program import Program, check_lines, containers_of
from tests.support.cluster.ray_cluster import Cluster
from tests.support.cluster.ray_node import Node
from tests.support.cluster.ray_start import AUTHENTICATION

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[3]
TASK = "Add up the revenue in /data/sales.csv by month and plot it."
STAYS = "echo up; sleep 600"


def replies() -> list[dict[str, Any]]:
    """Return the sample's replies. The step that plots hangs at first, and is repeated when it has failed."""
    sample: list[dict[str, Any]] = yaml.safe_load((ROOT / "agent" / "demo.yaml").read_text())
    [at] = [number for number, reply in enumerate(sample) if "savefig" in str(reply)]
    [plots] = sample[at]["tool_calls"]
    hangs = {"name": "execute", "args": {"command": f"{STAYS}\n{plots['args']['command']}"}}
    looks = {"name": "execute", "args": {"command": "head -c 4 /results/revenue_by_month.png"}}
    return [
        *sample[:at],
        {"tool_calls": [hangs]},
        {"tool_calls": [plots]},
        {"tool_calls": [looks]},
        *sample[at + 1 :],
    ]


@pytest.fixture
def program(tmp_path: Path, cluster: Cluster) -> Program:
    data = tmp_path / "workspace" / "data"
    data.mkdir(parents=True)
    shutil.copy(ROOT / "workspace" / "data" / "sales.csv", data)
    stays = [{"tool_calls": [{"name": "execute", "args": {"command": STAYS}}]}, {"text": "Done."}]
    conversations = [{"when": "Add up", "replies": replies()}, {"when": "Stay", "replies": stays}]
    (tmp_path / "script.yaml").write_text(yaml.safe_dump({"conversations": conversations}))
    environment = {
        "SANDBOX_CLUSTER": cluster.address,
        "SANDBOX_SCOPE": "thread",
        "SANDBOX_WARM": "0",
        **AUTHENTICATION,
    }
    return Program(tmp_path, environment)


def begun(program: Program, thread: str, task: str) -> subprocess.Popen[str]:
    """Start a run, and wait until its command hangs."""
    run = program.start("run", "--json", "--approve", "auto", "--thread", thread, task)
    assert run.stdout
    for line in run.stdout:
        if '"up\\n"' in line:
            return run
    raise AssertionError(f"the run ended with {run.wait()}")


def thread_runs_on(cluster: Cluster, thread: str) -> Node:
    """Return the node with the thread's container."""
    [found] = [node for node in cluster.nodes if thread in labels_on(node)]
    return found


def labels_on(node: Node) -> str:
    command = ["docker", "--host", node.engine.socket, "ps", "--format={{.Labels}}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_task_ends_with_its_plot_although_its_machine_was_switched_off(
    program: Program, cluster: Cluster
) -> None:
    with begun(program, "other-thread", "Stay.") as other, begun(program, "sample-thread", TASK) as run:
        lost = thread_runs_on(cluster, "sample-thread")
        kept = thread_runs_on(cluster, "other-thread")
        assert lost is not kept, "threads spread over the nodes"
        lost.kill()
        assert run.stdout
        lines = check_lines(run.stdout.read())
        assert run.wait(60) == 0
        assert other.poll() is None
        assert "other-thread" in labels_on(kept)
        assert containers_of(run.pid) == [], "nothing ran on the server's machine"
        other.kill()

    hung, plotted, looked = lines[-1]["executions"][-3:]
    assert hung["exit_code"] == 125
    assert "has not answered" in hung["output"] or "is gone" in hung["output"]
    assert plotted["exit_code"] == 0, plotted["output"]
    assert looked["output"].encode("utf-8", "replace").endswith(b"PNG")
    assert lines[-1]["status"] == "completed"
    assert "/results/revenue_by_month.png" in lines[-1]["text"]
