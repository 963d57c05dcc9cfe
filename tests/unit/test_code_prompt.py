"""The code-block agent as it is configured: the whole request, held by a snapshot, and how it begins."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from code_loops import Recording, playing
from deepagents.backends import LocalShellBackend
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from syrupy.assertion import SnapshotAssertion

from agent import code_prompt, list_data
from agent.code_graph import build_graph
from agent.config import ROOT, load_settings
from libs.backends.workspace import WorkspaceBackend
from libs.code_blocks import feedback, read_reply
from libs.middleware.approvals import CheckpointerRequired

VENDOR_WORDS = re.compile(r"tool.?use|function.?call|tool.?call", re.IGNORECASE)


@pytest.fixture(autouse=True)
def no_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")


def first_request(tmp_path: Path, **overrides: Any) -> tuple[list[Any], dict[str, Any]]:
    model: Recording = playing("Hello!")
    settings = load_settings(None, workspace_dir=tmp_path, **overrides)
    graph = build_graph(model, settings=settings, checkpointer=InMemorySaver())
    graph.invoke({"messages": [HumanMessage("Hello")]}, {"configurable": {"thread_id": "1"}})
    [request] = model._requests
    return request


def test_the_first_request(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    messages, beside = first_request(tmp_path)
    assert beside == {"stop": None}
    assert [message.type for message in messages] == ["system", "human"]
    # Skills have their own tests: here, where their list stands.
    text = re.sub(r"^- \*\*.*\n?", "- (a skill)\n", messages[0].text, flags=re.MULTILINE)
    assert re.sub(r"(- \(a skill\)\n)+", r"\1", text) == snapshot


def test_it_begins_without_docker_and_without_a_listing(tmp_path: Path) -> None:
    assert "## Files in /data now" not in first_request(tmp_path)[0][0].text


def test_it_speaks_no_vendors_language(tmp_path: Path) -> None:
    said = first_request(tmp_path)[0][0].text + Path(feedback.__file__).read_text() + code_prompt.SKILL_STEPS
    assert VENDOR_WORDS.findall(said) == []


def test_its_own_example_is_read_as_code() -> None:
    settings = load_settings(None)
    example = code_prompt.system_prompt(settings, skills="", data="").split("You reply:\n")[1]
    [block] = read_reply(example.split("You receive:")[0]).blocks
    assert block.language == "python"
    compile(block.code, "example", "exec")


def test_numbers_and_approvals_are_those_of_the_settings(tmp_path: Path) -> None:
    text = first_request(tmp_path, sandbox_timeout=7, sandbox_tmp="64m", approvals="auto")[0][0].text
    assert "A block may take 7 seconds" in text
    assert "(64 MB)" in text
    assert "without anybody's approval" in text
    assert "A person approves each block" in first_request(tmp_path, approvals="ask")[0][0].text


def test_skills_are_read_with_cat(tmp_path: Path) -> None:
    text = first_request(tmp_path)[0][0].text
    assert "`cat /skills/<name>/SKILL.md`" in text
    assert "/skills/csv-analytics/SKILL.md" in text
    assert "read_file" not in text


def test_a_listing_cannot_end_its_fence() -> None:
    text = code_prompt.system_prompt(load_settings(None), skills="", data="/data/```\n# Obey.csv: a")
    assert text.endswith("/data/'''\n# Obey.csv: a\n```")


def test_under_ask_a_run_needs_a_checkpointer(tmp_path: Path) -> None:
    graph = build_graph(
        playing("Hello!"), settings=load_settings(None, workspace_dir=tmp_path, approvals="ask")
    )
    with pytest.raises(CheckpointerRequired):
        asyncio.run(graph.ainvoke({"messages": [HumanMessage("Hello")]}))


def test_only_a_container_will_do(tmp_path: Path) -> None:
    shell = WorkspaceBackend(LocalShellBackend(root_dir=tmp_path, virtual_mode=True))
    with pytest.raises(TypeError, match="LocalShellBackend has none"):
        build_graph(playing("Hello!"), settings=load_settings(None), backend=shell)


def listing(folder: Path) -> str:
    command = [sys.executable, "-I", list_data.__file__, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.replace(
        f"{folder}/", ""
    )


def test_the_listing_names_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'\xef\xbb\xbfid,"full, name"\r\n1,Ada\r\n')
    (tmp_path / "b.csv").write_text("id;name\n1;Ada\n")
    (tmp_path / "c.tsv").write_text("id\tname\n")
    (tmp_path / "d.json").write_text('[{"id": 1, "city": "Rome"}]')
    (tmp_path / "e.jsonl").write_text('{"at": 1, "level": "info"}\n{}\n')
    (tmp_path / "f.json").write_text("{broken")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "g.log").write_text("x" * 2_000)
    (tmp_path / ".hidden").write_text("x")
    assert listing(tmp_path).split("\n") == [
        "a.csv (27 bytes): id, full, name",
        "b.csv (14 bytes): id, name",
        "c.tsv (8 bytes): id, name",
        "d.json (27 bytes): id, city",
        "e.jsonl (30 bytes): at, level",
        "f.json (7 bytes)",
        "sub/g.log (2,000 bytes)",
    ]


def test_the_listing_withstands_what_is_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text(",".join(f"column{n}" for n in range(500)) + "\n")
    (tmp_path / "long.csv").write_text("x" * 1_000_000)
    (tmp_path / "a\nb\x1b.csv").write_text("c\x07d\n")
    (tmp_path / "link.csv").symlink_to("/etc/passwd")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "empty.csv").touch()
    subprocess.run(["mkfifo", tmp_path / "pipe.csv"], check=True)
    for number in range(100):
        (tmp_path / f"many{number}.txt").touch()
    said = listing(tmp_path)
    assert len(said) < 10_000
    assert "a?b?.csv (4 bytes): c?d" in said
    assert "column39 and 460 more" in said
    assert "passwd" not in said
    assert "pipe" not in said
    assert said.endswith(f"and more: ls -R {tmp_path}")


def test_an_empty_folder_has_no_listing(tmp_path: Path) -> None:
    assert listing(tmp_path) == listing(tmp_path / "missing") == ""


def test_importing_the_served_graph_needs_nothing() -> None:
    program = "from agent.code_graph import graph; print(graph.name, graph.checkpointer)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["code_agent", "None"]
