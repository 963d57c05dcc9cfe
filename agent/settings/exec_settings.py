"""Settings of the one-tool agent and its memory."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from agent.settings.setting_types import ModelName, Url, size
from libs.sandbox import MAX_TIMEOUT

__all__ = ["ExecSettings"]


class ExecSettings(BaseSettings):
    """Part of `agent.settings.Settings`."""

    model_config = SettingsConfigDict(defer_build=True)  # only `Settings` is ever made

    exec_seconds: float = Field(30, ge=1, le=MAX_TIMEOUT)
    """Seconds that one program of the one-tool agent may take, with its packages and the sandbox's start."""
    exec_repairs: int = Field(1, ge=0, le=10)
    """How often the model of the one-tool agent may correct a failed program. 0: an error ends the run."""
    exec_disk: Annotated[int, size("1m", "512t")] = Field("256m", validate_default=True)
    """Size of the working directory of one program, which is memory; at most a quarter of SANDBOX_MEMORY is \
used."""
    exec_pass_keys: bool = Field("0", validate_default=True)
    """Whether programs of the one-tool agent see the variables of the environment and of `.env` whose names \
end in `_API_KEY` or begin with `API_KEY_` or `BASE_URL_`, such as BRAVE_API_KEY. This \
setting never passes the key of the model in use; SANDBOX_ENV_ALLOW passes the key if it names the key's \
variable. Variables named in EGRESS_CREDENTIALS are not passed either: programs get a placeholder."""

    otel_exporter_otlp_endpoint: Url | None = None
    """Collector for OpenTelemetry spans over HTTP, such as http://localhost:4318: a span for each execution \
of the one-tool agent. No span holds code, arguments or output."""

    memory_messages: int = Field(20, ge=1, le=10_000)
    """Newest messages of a thread that are sent to the model of the one-tool agent."""
    memory_recall: int = Field(4, ge=0, le=50)
    """Earlier messages, nearest to the task, that are sent as well. 0: none."""
    memory_scope: Literal["thread", "owner"] = "thread"
    """Where earlier messages are looked for: in the `thread`, or in all threads of the `owner`."""
    embedder: ModelName | None = None
    """Embedding model that finds earlier messages by meaning, such as `openai:text-embedding-3-small`. \
Unset: they are found by their words."""
