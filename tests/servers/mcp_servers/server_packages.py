"""Run the package that was written for an MCP server, with a channel that records the calls."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from unittest.mock import patch


@dataclass
class Channel:
    """Stands in for `servers._channel`."""

    answer: Any = None
    calls: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)

    def call(self, server: str, tool: str, arguments: dict[str, Any]) -> Any:
        self.calls.append((server, tool, arguments))
        return self.answer


@contextmanager
def imported(files: Mapping[str, str]) -> Iterator[tuple[ModuleType, Channel]]:
    """Import the files of a package as `servers.x`, until the block ends."""
    channel = Channel()
    modules = {name: ModuleType(name) for name in ("servers", "servers._channel", "servers.x")}
    modules |= {f"servers.x.{name}": ModuleType(f"servers.x.{name}") for name in ("_records", "_tools")}
    modules["servers._channel"].__dict__["call"] = channel.call
    with patch.dict(sys.modules, modules):
        for file in ("_records", "_tools", "__init__"):
            name = "servers.x" if file == "__init__" else f"servers.x.{file}"
            modules[name].__package__ = "servers.x"
            modules[name].__path__ = []  # type: ignore[attr-defined]
            exec(
                compile(files[f"{file}.py"], f"{file}.py", "exec", dont_inherit=True), modules[name].__dict__
            )
        yield modules["servers.x"], channel
