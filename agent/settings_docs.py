"""Writes `.env.example` and `docs/configuration.md` from `Settings`: `python -m agent.settings_docs`."""

from __future__ import annotations

import ast
import functools
import inspect
from itertools import pairwise
from typing import Literal, cast, get_args, get_origin

from annotated_types import Ge, Le
from pydantic.fields import FieldInfo

from agent.config import ROOT, Settings

__all__ = ["configuration_md", "env_example"]

_INTRO = """\
# Configuration

Every setting is an environment variable, or a line `NAME=value` in a file `.env` in the working directory;
the environment wins. Empty means unset. `.env.example` lists them all. A value that cannot be is named when
the program starts, with what is allowed.

| variable | default | what it does |
|---|---|---|
"""

_OUTRO = """
Sizes are numbers with `k`, `m`, `g` or `t`, in units of 1024 bytes.

## Which model

The first of these that applies:

1. `MODEL=provider:model`: any provider of LangChain's `init_chat_model` whose package is installed, with that
   provider's own key variable (`ANTHROPIC_API_KEY`, `GOOGLE_API_KEY`, …), which may be in `.env` too.
   `MODEL=scripted:<file>` plays a script, as `make demo` does. `MODEL=local` is the model that needs no key:
   `make local` installs what runs it and fetches its file, `code-agent model` shows and removes the file.
   `MODEL=local:<file.gguf>` runs a file of your own (architectures that OpenVINO GenAI reads from GGUF:
   Llama, Qwen2, Qwen3).
2. `OPENAI_BASE_URL`: an OpenAI-compatible server; no key is needed.
3. `OPENAI_API_KEY`: OpenAI.
4. none of them: `local`. `make run` and `make eval` do what `make local` does first.

`OPENAI_MODEL` names the model in cases 2 and 3; `code-agent model which` prints what is chosen. A missing key
is named when the model is first called; nothing is needed to start.

## What may leave the sandbox

Nothing, until `EGRESS_ALLOW` lists where to: `https://api.github.com`, `example.com` (https on 443 and
http on 80), `example.com:8080`, `*.example.com` (every host below it). `EGRESS_CREDENTIALS` adds secrets on
the way out, which programs inside can use but not read:

```
EGRESS_ALLOW=https://api.github.com
EGRESS_CREDENTIALS={"api.github.com": {"header": "Authorization", "secret": "GITHUB_TOKEN"}}
GITHUB_TOKEN=ghp_...
```

[network.md](network.md) says more.
"""


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is None:
        return ""
    return ",".join(value) if isinstance(value, tuple) else str(value)


@functools.cache
def _texts() -> dict[str, str]:
    """What stands below each field. Read here alone: pydantic's own reading would cost every start 30 ms."""
    return {
        field.target.id: inspect.cleandoc(str(ast.literal_eval(text.value)))
        for part in _parts()
        for body in [cast(ast.ClassDef, ast.parse(inspect.getsource(part)).body[0]).body]
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr)
    }


def _parts() -> list[type[Settings]]:
    """Settings, and the classes that it is put together from."""
    return [part for part in Settings.__mro__ if part.__module__.startswith("agent.")]


def _fields() -> dict[str, FieldInfo]:
    """The fields by name: those of Settings itself first, as they stand there."""
    own = [name for part in _parts() for name in part.__annotations__ if name in Settings.model_fields]
    return {name: Settings.model_fields[name] for name in own}


def _about(name: str, field: FieldInfo) -> str:
    text = _texts()[name]
    low = next((bound.ge for bound in field.metadata if isinstance(bound, Ge)), None)
    high = next((bound.le for bound in field.metadata if isinstance(bound, Le)), None)
    if low is not None and high is not None:
        return f"{text} From {low:,} to {high:,}."
    if get_origin(field.annotation) is Literal:
        return f"{text} Allowed: {', '.join(f'`{choice}`' for choice in get_args(field.annotation))}."
    return text


def configuration_md() -> str:
    """The text of `docs/configuration.md`."""
    rows = []
    for name, field in _fields().items():
        default = f"`{_default(field)}`" if _default(field) else "unset"
        rows.append(f"| `{name.upper()}` | {default} | {_about(name, field)} |\n")
    return _INTRO + "".join(rows) + _OUTRO


def env_example() -> str:
    """The text of `.env.example`: every variable, commented out, with its default."""
    lines = ["# Copy to .env and uncomment what you change. docs/configuration.md says more.\n"]
    for name, field in _fields().items():
        lines.append(f"\n# {_about(name, field)}\n# {name.upper()}={_default(field)}\n")
    return "".join(lines)


if __name__ == "__main__":
    (ROOT / ".env.example").write_text(env_example(), encoding="utf-8")
    (ROOT / "docs" / "configuration.md").write_text(configuration_md(), encoding="utf-8")
