"""Reads `exec_catalogue.yaml`, and formats its parameters, packages, interfaces and examples for a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field

from agent.settings import Settings

__all__ = ["Api", "Catalogue", "load_catalogue", "shown_apis", "shown_catalogue"]

FILE = Path(__file__).with_name("exec_catalogue.yaml")

Line = Annotated[str, Field(min_length=1, max_length=400)]
Program = Annotated[str, Field(min_length=1, max_length=4_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Package(_Strict):
    """A package that needs no `dependencies`."""

    name: Line
    use: Line


class Api(_Strict):
    """A public HTTP interface that programs may use."""

    name: Line
    use: Line
    host: Line
    endpoint: Line
    auth: Line
    secret: Line | None = None
    """Variable of the host with the key, for EGRESS_CREDENTIALS."""
    header: Line | None = None
    """Header in which the gateway sends the key."""
    example: Program
    response: Line
    rate_limit: Line
    pagination: Line
    errors: Line


class Good(_Strict):
    """A good example."""

    task: Line
    why: Line
    code: Program


class Bad(_Strict):
    """A bad example."""

    code: Program
    why: Line


class Catalogue(_Strict):
    """The whole catalogue."""

    parameters: Mapping[str, Line]
    packages: tuple[Package, ...]
    apis: tuple[Api, ...]
    good: tuple[Good, ...]
    bad: tuple[Bad, ...]


@cache
def load_catalogue(path: Path = FILE) -> Catalogue:
    """Read the catalogue.

    Raises:
        ValueError: an entry is wrong; the message names the entry.
    """
    return Catalogue.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def shown_catalogue(catalogue: Catalogue, settings: Settings, *, tools: bool) -> str:
    """Return the sections about packages, interfaces and examples; with `tools` about parameters, too."""
    parameters = "\n".join(f"- `{name}`: {text}" for name, text in catalogue.parameters.items())
    packages = "; ".join(f"{each.name} ({each.use})" for each in catalogue.packages)
    good = (
        f"Good, for “{each.task}” ({each.why}):\n```python\n{each.code.rstrip()}\n```"
        for each in catalogue.good
    )
    bad = (f"Bad ({each.why}):\n```python\n{each.code.rstrip()}\n```" for each in catalogue.bad)
    sections = (
        f"## Parameters\n{parameters}" if tools else "",
        f"## Packages that are there\n{packages}",
        shown_apis(catalogue, settings),
        "## Examples\n" + "\n\n".join([*good, *bad]),
    )
    return "\n\n".join(filter(None, sections))


def shown_apis(catalogue: Catalogue, settings: Settings) -> str:
    """Return the section about interfaces: allowed ones in full, others by name."""
    reached = [api for api in catalogue.apis if _is_reached(api, settings)]
    others = [api for api in catalogue.apis if api not in reached]
    parts = [_shown(api) for api in reached]
    if others:
        lines = "\n".join(f"- {api.name} ({api.use}): {api.endpoint}" for api in others)
        parts.append(f"Not reachable now, as EGRESS_ALLOW does not list their hosts:\n{lines}")
    return "\n\n".join(["## Interfaces", *parts]) if parts else ""


def _is_reached(api: Api, settings: Settings) -> bool:
    if not settings.egress_allow:
        return False
    from libs.gateway.rules import Rules

    return Rules.parse(settings.egress_allow).check("https", api.host, 443) is None


def _shown(api: Api) -> str:
    return (
        f"### {api.name}: {api.use}\n{api.endpoint}\nAuth: {api.auth}. Limits: {api.rate_limit}. Pages: "
        f"{api.pagination}. Errors: {api.errors}. Response: {api.response}\n"
        f"```python\n{api.example.rstrip()}\n```"
    )
