"""Which variables of `.env` a Python program has in its environment, also after a change of the file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.settings import ROOT, Settings
from tests.support.canaries import listening

KEY = "sk-ant-5e9b1f7c2a8d4f60"
ALONE = """
import os
from agent.{module} import build_graph
graph = build_graph()
print(os.environ.get("LANGSMITH_TRACING"), os.environ.get("OTHER"), os.environ.get("approvals"))
list(graph.stream({{"messages": [("user", "go")]}}, {{"configurable": {{"thread_id": "1"}}}}))
from langchain_core.tracers.langchain import wait_for_all_tracers
wait_for_all_tracers()
"""
EDITED = """
import os
from pathlib import Path
from langgraph.checkpoint.memory import InMemorySaver
from agent.graph import build_graph, graph  # graph exports the variables of the first file
from agent.settings import load_settings
file = Path(".env")
file.write_text(file.read_text().replace("auto", "ask").replace("first", "second"))
made = build_graph(checkpointer=InMemorySaver())
state = made.invoke({"messages": [("user", "go")]}, {"configurable": {"thread_id": "1"}})
print([asked.value["action_requests"][0]["name"] for asked in state["__interrupt__"]])
print([os.environ[name] for name in ("OF_FILE", "OF_BOTH")])
print(load_settings().secret("GROQ_API_KEY").get_secret_value())
file.write_text(file.read_text().replace("ask", "auto"))
print(load_settings().approvals)
os.chdir("elsewhere")
print(load_settings().approvals)
"""


def python(program: str, folder: Path, **added: str) -> list[str]:
    """Run a program in a folder and return its printed lines. The environment has no setting."""
    names = {name.upper() for name in Settings.model_fields}
    environment = {name: value for name, value in os.environ.items() if name.upper() not in names}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT), "DOCKER_HOST": "unix:///nonexistent"} | added,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("module", ["graph", "code_graph", "exec_graph"])
def test_build_graph_alone_exports_variables_of_packages(tmp_path: Path, module: str) -> None:
    """The variables switch tracing on, so the traces must be redacted, too."""
    (tmp_path / "script.json").write_text(json.dumps([{"text": f"The key is {KEY}, and a frog jumps."}] * 2))
    with listening() as tracing:
        (tmp_path / ".env").write_text(
            "MODEL=scripted:script.json\napprovals=auto\nOTHER=of the file\nLANGSMITH_TRACING=true\n"
            f"ANTHROPIC_API_KEY={KEY}\nLANGSMITH_API_KEY=lsv2_pt_5e9b1f7c2a8d\n"
            f"LANGSMITH_ENDPOINT=http://127.0.0.1:{tracing.port}\n"
        )
        assert python(ALONE.format(module=module), tmp_path, OTHER="") == ["true of the file None"]
        parts = [part for body in tracing.bodies for part in body.split(b"\r\n--")]
    # Other parts describe the model, and the script is a part of this model.
    outputs = b"".join(part for part in parts if b'.outputs"' in part)
    assert b"The key is [REDACTED], and a frog jumps." in outputs
    assert KEY.encode() not in outputs


def test_later_change_of_the_file_holds_for_the_next_graph(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    call = {"name": "execute", "args": {"command": "true"}}
    (tmp_path / "script.json").write_text(json.dumps([{"tool_calls": [call]}, {"text": "Done."}]))
    (tmp_path / ".env").write_text(
        "MODEL=scripted:script.json\nAPPROVALS=auto\nOF_FILE=first\nOF_BOTH=first\nGROQ_API_KEY=first-key\n"
    )

    assert python(EDITED, tmp_path, OF_BOTH="of the environment") == [
        "['execute']",
        "['second', 'of the environment']",
        "second-key",
        "auto",
        "ask",
    ]
