"""The sample task on two machines, one of which is switched off meanwhile, and a plot of each other agent."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.clients.cli_program import Program, call, check_lines
from tests.support.cluster.ray_cluster import Cluster
from tests.support.cluster.ray_node import Node
from tests.support.cluster.ray_start import AUTHENTICATION

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[3]
TASK = "Add up the revenue in /data/sales.csv by month and plot it."
STAYS = "echo up; sleep 600"
PLOTS = """
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
sales = pd.read_csv("data/sales.csv")
sales.groupby(sales["order_date"].str[:7])["units"].sum().plot()
plt.savefig("results/units.png")
print('{"answer": "Plotted."}')
"""
KEY = "sk-5e9b1f7c2a8d"
"""A secret of the server."""


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
    """`code-agent` on a machine without an Engine."""
    data = tmp_path / "workspace" / "data"
    data.mkdir(parents=True)
    shutil.copy(ROOT / "workspace" / "data" / "sales.csv", data)
    stays = [{"tool_calls": [{"name": "execute", "args": {"command": STAYS}}]}, {"text": "Done."}]
    block = [{"text": f"```python\n{PLOTS}```"}, {"text": "Done."}]
    conversations = [
        {"when": "Add up", "replies": replies()},
        {"when": "Stay", "replies": stays},
        {"when": "In a block", "replies": block},
        {"when": "In a program", "replies": [{"tool_calls": [call("execute_code", code=PLOTS)]}]},
    ]
    (tmp_path / "script.yaml").write_text(yaml.safe_dump({"conversations": conversations}))
    environment = {
        "DOCKER_HOST": "unix:///nonexistent/docker.sock",
        "OPENAI_API_KEY": KEY,
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


def plot_of(program: Program, thread: str, name: str) -> bytes:
    """Return the beginning of a plot, which is copied to the server's machine."""
    done = program.run("files", thread, "--to", f"copy-of-{thread}")
    assert done.returncode == 0, done.stderr
    return (program.folder / f"copy-of-{thread}" / "results" / name).read_bytes()[:4]


def places_of_the_key(node: Node) -> list[str]:
    """Return the programs of a node that have the server's secret, and the files outside of its Engine."""
    said: list[tuple[str, str]] = []
    for program in node.machine.processes:
        with suppress(psutil.NoSuchProcess):  # ended meanwhile
            said.append((program.name(), f"{program.environ()} {program.cmdline()}"))
    assert any(name.startswith("ray::NodeHost") for name, _ in said)
    found = [name for name, text in said if KEY in text]
    search = ["grep", "-rlsF", "--devices=skip", KEY, node.folder / "ray", node.folder / "own"]
    return found + subprocess.run(search, capture_output=True, text=True, check=False).stdout.splitlines()


def test_task_ends_with_its_plot_although_its_machine_was_switched_off(
    program: Program, cluster: Cluster
) -> None:
    with begun(program, "other-thread", "Stay.") as other, begun(program, "sample-thread", TASK) as run:
        lost = thread_runs_on(cluster, "sample-thread")
        kept = thread_runs_on(cluster, "other-thread")
        assert lost is not kept, "threads spread over the nodes"
        assert [places_of_the_key(node) for node in cluster.nodes] == [[], []]
        lost.kill()
        assert run.stdout
        lines = check_lines(run.stdout.read())
        assert run.wait(60) == 0
        assert other.poll() is None
        assert "other-thread" in labels_on(kept)
        other.kill()

    hung, plotted, looked = lines[-1]["executions"][-3:]
    assert hung["exit_code"] == 125
    assert "has not answered" in hung["output"] or "is gone" in hung["output"]
    assert plotted["exit_code"] == 0, plotted["output"]
    assert looked["output"].encode("utf-8", "replace").endswith(b"PNG")
    assert lines[-1]["status"] == "completed"
    assert "/results/revenue_by_month.png" in lines[-1]["text"]
    assert plot_of(program, "sample-thread", "revenue_by_month.png") == b"\x89PNG"


def test_code_block_agent_plots_on_a_node(program: Program) -> None:
    result = program.lines("--agent", "code", "--thread", "b", "--approve", "auto", "In a block")[-1]
    assert result["status"] == "completed"
    assert "results/units.png" in result["files"]
    assert plot_of(program, "b", "units.png") == b"\x89PNG"


def test_one_tool_agent_plots_on_the_machine_of_the_server(program: Program) -> None:
    del program.environment["DOCKER_HOST"]
    result = program.lines("--agent", "exec", "--thread", "p", "--approve", "auto", "In a program")[-1]
    assert (result["status"], result["files"]) == ("completed", ["results/units.png"])
    assert plot_of(program, "p", "units.png") == b"\x89PNG"
    plot = program.workspace / "threads" / "p" / "results" / "units.png"
    assert plot.read_bytes()[:4] == b"\x89PNG"
