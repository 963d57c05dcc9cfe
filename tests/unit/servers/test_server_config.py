"""`.mcp.json` as other agents have it, and what is wrong with it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.settings import SettingsError, load_settings
from libs.servers import ServersError, read_servers

PROGRAM = {"command": sys.executable}


def config(folder: Path, **servers: Any) -> Path:
    file = folder / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    return file


def test_servers_are_read_with_their_variables(tmp_path: Path) -> None:
    file = config(
        tmp_path,
        **{
            "my-notes": {
                "type": "stdio",
                "command": sys.executable,
                "args": ["-m", "notes", "${FOLDER:-/default}"],
                "env": {"TOKEN": "${NOTES_TOKEN}"},
                "free": ["list_notes"],
                "autoApprove": ["${NOT_SET}"],
            },
            "web": {
                "type": "http",
                "url": "https://${HOST}/mcp",
                "headers": {"Authorization": "Bearer ${KEY}"},
            },
            "apart": {"command": "only-in-the-image", "sandbox": True},
            "off": {"command": "not-there", "env": {"TOKEN": "${NOT_SET}"}, "disabled": True},
        },
    )
    notes, web, apart = read_servers(file, {"NOTES_TOKEN": "secret", "HOST": "example.org", "KEY": "k"})
    assert (notes.name, notes.args) == ("my_notes", ("-m", "notes", "/default"))
    assert (notes.env, notes.free) == ((("TOKEN", "secret"),), {"list_notes"})
    assert dict(notes.variables) == {"FOLDER": "/default", "NOTES_TOKEN": "secret"}
    assert (apart.command, apart.sandbox, notes.sandbox) == ("only-in-the-image", True, False)
    assert (web.url, web.headers) == ("https://example.org/mcp", (("Authorization", "Bearer k"),))


def test_path_of_a_program_begins_at_its_folder(tmp_path: Path) -> None:
    (tmp_path / "run").touch(mode=0o755)
    [notes] = read_servers(config(tmp_path, notes={"command": "./run", "cwd": str(tmp_path)}), {})
    assert (notes.command, notes.cwd) == ("./run", str(tmp_path))


@pytest.mark.parametrize(
    ("servers", "told"),
    [
        (
            {"notes": {"command": "not-there-4711"}},
            "server 'notes': the program 'not-there-4711' is not there",
        ),
        ({"notes": {**PROGRAM, "env": {"A": "${NOT_SET}"}}}, "the variable NOT_SET is not set"),
        ({"a b": PROGRAM, "a-b": PROGRAM}, "'a b' and 'a-b' would both be the package servers.a_b"),
        ({"notes": {}}, 'needs either "command" or "url"'),
        ({"notes": {"url": "ftp://x"}}, '"url" must begin with http://'),
        ({"notes": {"url": "http://x", "sandbox": True}}, '"sandbox" is for programs'),
        ({"notes": {"command": 3}}, "server 'notes': command: Input should be a valid string"),
    ],
)
def test_error_names_the_server_and_the_reason(tmp_path: Path, servers: dict[str, Any], told: str) -> None:
    with pytest.raises(ServersError) as raised:
        read_servers(config(tmp_path, **servers), {"PATH": "/usr/bin:/bin"})
    assert told in str(raised.value)


@pytest.mark.parametrize("text", ["{", "[]", '{"servers": {}}'])
def test_file_of_another_form_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "mcp.json").write_text(text)
    with pytest.raises(ServersError, match=r"mcp\.json: "):
        read_servers(tmp_path / "mcp.json", {})


def test_config_in_the_workspace_is_refused_at_start(tmp_path: Path) -> None:
    file = config(tmp_path, notes=PROGRAM)
    with pytest.raises(SettingsError, match=r"MCP_CONFIG=.*: is in the workspace"):
        load_settings(None, workspace_dir=tmp_path, mcp_config=file)


def test_wrong_config_is_told_at_start(tmp_path: Path) -> None:
    file = config(tmp_path, notes={"command": "not-there-4711"})
    with pytest.raises(SettingsError, match=r"MCP_CONFIG=.*server 'notes'"):
        load_settings(None, workspace_dir=tmp_path / "workspace", mcp_config=file)
