"""Reads `.mcp.json`, the file in which agents find their MCP servers."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from libs.servers.stubs import python_name

__all__ = ["ServerConfig", "ServersError", "read_servers"]

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


class ServersError(ValueError):
    """The file cannot be used. `str(error)` names the file and the server."""


class _Entry(BaseModel):
    """One server, as other agents write it. Keys that are not known here are for them."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    type: Literal["stdio", "http", "streamable-http", "streamableHttp", "sse"] | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    free: tuple[str, ...] = ()
    sandbox: bool = False

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError('needs either "command" or "url"')
        if self.type is not None and (self.type == "stdio") != (self.url is None):
            raise ValueError(f'"type" is {self.type}, which does not fit the other keys')
        if self.url is not None and not re.match(r"https?://[^/]", self.url):
            raise ValueError('"url" must begin with http:// or https:// and a host')
        if self.sandbox and self.command is None:
            raise ValueError('"sandbox" is for programs: leave it out for a server with "url"')
        return self


class _File(BaseModel):
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    servers: dict[str, dict[str, Any]] = Field(alias="mcpServers")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """How to reach one server. Either `command` or `url` is set."""

    name: str
    """Name of its package: a Python identifier."""
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    sse: bool = False
    """Whether the server speaks the older transport with server-sent events."""
    free: frozenset[str] = frozenset()
    """Tools that a person lets programs call without a declaration."""
    sandbox: bool = False
    """Whether the program runs in a sandbox of its own. `command` and `cwd` are paths inside."""
    variables: tuple[tuple[str, str], ...] = ()
    """The variables that `${NAME}` has been replaced by, with their values."""


def read_servers(path: Path, variables: Mapping[str, str]) -> tuple[ServerConfig, ...]:
    """Read the servers of a file; blocks.

    `${NAME}` and `${NAME:-default}` are replaced in `command`, `args`, `env`, `cwd`, `url` and `headers`, as
    in Claude Code. A server that is `disabled` is left out.

    Args:
        path: the file.
        variables: values for `${NAME}`.

    Raises:
        ServersError: the file is no JSON or has another form, a variable or a program is missing, or two
            servers would have the same package.
    """
    try:
        file = _File.model_validate(json.loads(path.read_bytes()))
    except OSError as error:
        raise ServersError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise ServersError(f"{path}: {_first(error)}") from None
    except ValueError as error:
        raise ServersError(f"{path}: is not JSON: {error}") from None
    found: dict[str, tuple[str, ServerConfig]] = {}
    for name, given in file.servers.items():
        try:
            config = _server(name, given, variables)
        except ValidationError as error:
            raise ServersError(f"{path}: server {name!r}: {_first(error)}") from None
        except ValueError as error:
            raise ServersError(f"{path}: server {name!r}: {error}") from None
        if config is None:
            continue
        if (other := found.get(config.name)) is not None:
            raise ServersError(
                f"{path}: the servers {other[0]!r} and {name!r} would both be the package "
                f"servers.{config.name}: rename one of them"
            )
        found[config.name] = name, config
    return tuple(config for _, config in found.values())


def _server(name: str, given: Mapping[str, Any], variables: Mapping[str, str]) -> ServerConfig | None:
    if given.get("disabled"):  # perhaps because a variable is not set
        return None
    used: dict[str, str] = {}

    def found(match: re.Match[str]) -> str:
        if (value := variables.get(match[1]) or match[2]) is None:
            raise ValueError(f"the variable {match[1]} is not set")
        used[match[1]] = value
        return value

    known = {key: value for key, value in given.items() if key in _Entry.model_fields}
    entry = _Entry.model_validate(
        {key: value if key in ("free", "type") else _expanded(value, found) for key, value in known.items()}
    )
    if entry.command is not None and not entry.sandbox:
        searched = entry.env.get("PATH") or variables.get("PATH")
        program = Path(entry.cwd or "", entry.command) if "/" in entry.command else entry.command
        if shutil.which(program, path=searched) is None:
            raise ValueError(f"the program {entry.command!r} is not there: install it, or correct its name")
    return ServerConfig(
        name=python_name(name),
        command=entry.command or "",
        args=entry.args,
        env=tuple(entry.env.items()),
        cwd=entry.cwd,
        url=entry.url or "",
        headers=tuple(entry.headers.items()),
        sse=entry.type == "sse",
        free=frozenset(entry.free),
        sandbox=entry.sandbox,
        variables=tuple(used.items()),
    )


def _expanded(value: Any, found: Callable[[re.Match[str]], str]) -> Any:
    """Replace variables in every text of a value."""
    if isinstance(value, str):
        return _VARIABLE.sub(found, value)
    if isinstance(value, list):
        return [_expanded(each, found) for each in value]
    if isinstance(value, dict):
        return {key: _expanded(each, found) for key, each in value.items()}
    return value


def _first(error: ValidationError) -> str:
    """Return the first problem. The values are left out, because they may be secrets."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}{': ' * bool(where)}{first['msg'].removeprefix('Value error, ')}"
