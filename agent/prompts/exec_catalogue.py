"""Reads `exec_catalogue.yaml`, and formats its parameters, packages, interfaces and examples for a prompt."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from agent.settings import Settings

__all__ = ["Api", "Catalogue", "load_catalogue", "shown_apis", "shown_catalogue"]

FILE = Path(__file__).with_name("exec_catalogue.yaml")

Line = Annotated[str, Field(min_length=1, max_length=400)]
Program = Annotated[str, Field(min_length=1, max_length=4_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Packages(_Strict):
    """Use -> packages."""

    installed: Mapping[Line, tuple[Line, ...]]
    """Packages of the image."""
    installable: Mapping[Line, tuple[Line, ...]]
    """Suggestions for `dependencies`."""


class Api(_Strict):
    """A public HTTP interface that programs may use."""

    name: Line
    use: Line
    host: Line
    endpoint: Line
    auth: Line
    secret: Line | None = None
    """Variable that holds the key, or a placeholder if EGRESS_CREDENTIALS names the variable."""
    example: Program
    response: Line
    rate_limit: Line
    pagination: Line
    errors: Line


class Good(_Strict):
    """A good example: a call of `execute_code`."""

    task: Line
    why: Line
    code: Program
    dependencies: tuple[Line, ...] = ()
    files: Mapping[Line, str] = {}
    args: Any = None

    @property
    def inputs(self) -> dict[str, Any]:
        """The other parameters of the call, without empty ones."""
        given = {"dependencies": list(self.dependencies), "files": dict(self.files), "args": self.args}
        return {name: value for name, value in given.items() if value}


class Bad(_Strict):
    """A bad example."""

    code: Program
    why: Line


class Catalogue(_Strict):
    """The whole catalogue."""

    parameters: Mapping[str, Line]
    packages: Packages
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


def shown_catalogue(
    catalogue: Catalogue, settings: Settings, *, tools: bool, passed: Collection[str] = ()
) -> str:
    """Return the sections about packages, interfaces and examples.

    Args:
        tools: whether the model can call tools. Otherwise the section about parameters, and examples with
            packages, files or arguments, are left out: a program in a block has none of them.
        passed: names of the variables of the host that programs get.
    """
    parameters = "\n".join(f"- `{name}`: {text}" for name, text in catalogue.parameters.items())
    installs = tools and settings.egress_packages
    good = [each for each in catalogue.good if not each.inputs or (installs if each.dependencies else tools)]
    bad = (f"Bad ({each.why}):\n```python\n{each.code.rstrip()}\n```" for each in catalogue.bad)
    sections = (
        f"## Parameters\n{parameters}" if tools else "",
        f"## Packages that are installed\n{_by_use(catalogue.packages.installed)}",
        f"## Packages for `dependencies`\n{_by_use(catalogue.packages.installable)}" if installs else "",
        shown_apis(catalogue, settings, passed),
        "## Examples\n" + "\n\n".join([*map(_example, good), *bad]),
    )
    return "\n\n".join(filter(None, sections))


def _by_use(packages: Mapping[str, Collection[str]]) -> str:
    return "; ".join(f"{use}: {', '.join(names)}" for use, names in packages.items())


def _example(good: Good) -> str:
    inputs = "".join(
        f"\n`{name}`: {json.dumps(value, ensure_ascii=False)}" for name, value in good.inputs.items()
    )
    return f"Good, for “{good.task}” ({good.why}):{inputs}\n```python\n{good.code.rstrip()}\n```"


def shown_apis(catalogue: Catalogue, settings: Settings, passed: Collection[str] = ()) -> str:
    """Return the section about interfaces: allowed ones in full, others by name."""
    reached = [api for api in catalogue.apis if _is_reached(api, settings)]
    others = [api for api in catalogue.apis if api not in reached]
    parts = [_shown(api, settings, passed) for api in reached]
    if others:
        lines = "\n".join(f"- {api.name} ({api.use}): {api.endpoint}" for api in others)
        parts.append(f"Not reachable now, as EGRESS_ALLOW does not list their hosts:\n{lines}")
    return "\n\n".join(["## Interfaces", *parts]) if parts else ""


def _is_reached(api: Api, settings: Settings) -> bool:
    if not settings.egress_allow:
        return False
    from libs.gateway.rules import Rules

    return Rules.parse(settings.egress_allow).check("https", api.host, 443) is None


def _shown(api: Api, settings: Settings, passed: Collection[str]) -> str:
    auth, example = api.auth, api.example.rstrip()
    rule = next((rule for rule in settings.egress_credentials if rule.host == api.host), None)
    if rule:
        auth += f": the gateway puts the key there ({rule.secret} is a placeholder)"
        example = example.replace(api.secret or rule.secret, rule.secret)
    elif api.secret:
        auth += f": the key is in {api.secret}"
        auth += "" if api.secret in passed else ", which is not set here"
    return (
        f"### {api.name}: {api.use}\n{api.endpoint}\nAuth: {auth}. Limits: {api.rate_limit}. Pages: "
        f"{api.pagination}. Errors: {api.errors}. Response: {api.response}\n"
        f"```python\n{example}\n```"
    )
