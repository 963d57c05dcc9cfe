"""What `exec_catalogue.yaml` says of parameters, packages, interfaces and examples, as a prompt shows it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field

from agent.config import Settings

__all__ = [
    "Api",
    "Catalogue",
    "load_catalogue",
    "shown_apis",
    "shown_examples",
    "shown_packages",
    "shown_parameters",
]

FILE = Path(__file__).with_name("exec_catalogue.yaml")

Line = Annotated[str, Field(min_length=1, max_length=400)]
Program = Annotated[str, Field(min_length=1, max_length=4_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Package(_Strict):
    """One that is there without `dependencies`."""

    name: Line
    use: Line


class Api(_Strict):
    """An interface of somebody else's that programs may ask."""

    name: Line
    use: Line
    host: Line
    endpoint: Line
    auth: Line
    secret: Line | None = None
    """Variable that holds its key on the host, in EGRESS_CREDENTIALS."""
    header: Line | None = None
    """Header that the gateway adds the key as."""
    example: Program
    response: Line
    rate_limit: Line
    pagination: Line
    errors: Line


class Good(_Strict):
    """A program as it should be."""

    task: Line
    why: Line
    code: Program


class Bad(_Strict):
    """A program as it should not be."""

    code: Program
    why: Line


class Catalogue(_Strict):
    """All of it."""

    parameters: Mapping[str, Line]
    packages: tuple[Package, ...]
    apis: tuple[Api, ...]
    good: tuple[Good, ...]
    bad: tuple[Bad, ...]


@cache
def load_catalogue(path: Path = FILE) -> Catalogue:
    """Read it.

    Raises:
        ValueError: an entry is not what it must be; the message names it.
    """
    return Catalogue.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def shown_parameters(catalogue: Catalogue) -> str:
    """The parameters of the tool."""
    parameters = "\n".join(f"- `{name}`: {text}" for name, text in catalogue.parameters.items())
    return f"## Parameters\n{parameters}"


def shown_packages(catalogue: Catalogue) -> str:
    """The packages that are there."""
    packages = "; ".join(f"{each.name} ({each.use})" for each in catalogue.packages)
    return f"## Packages that are there\n{packages}"


def shown_apis(catalogue: Catalogue, settings: Settings) -> str:
    """The interfaces: those that can be reached in full, the others by name."""
    reached = [api for api in catalogue.apis if _is_reached(api, settings)]
    others = [api for api in catalogue.apis if api not in reached]
    parts = [_shown(api) for api in reached]
    if others:
        lines = "\n".join(f"- {api.name} ({api.use}): {api.endpoint}" for api in others)
        parts.append(f"Not reachable now, as EGRESS_ALLOW does not list their hosts:\n{lines}")
    return "\n\n".join(["## Interfaces", *parts]) if parts else ""


def shown_examples(catalogue: Catalogue) -> str:
    """Programs as they should be, and as they should not."""
    good = "\n\n".join(
        f"Good, for “{each.task}” ({each.why}):\n```python\n{each.code.rstrip()}\n```"
        for each in catalogue.good
    )
    bad = "\n\n".join(f"Bad ({each.why}):\n```python\n{each.code.rstrip()}\n```" for each in catalogue.bad)
    return f"## Examples\n{good}\n\n{bad}"


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
