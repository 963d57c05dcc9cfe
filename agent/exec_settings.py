"""The settings of the one-tool agent, and of what it remembers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from agent.setting_types import ModelName, Url, size
from libs.sandbox.limits import MAX_TIMEOUT

__all__ = ["ExecSettings"]


class ExecSettings(BaseSettings):
    """Part of `agent.config.Settings`."""

    model_config = SettingsConfigDict(defer_build=True)  # only `Settings` is ever made

    exec_seconds: float = Field(30, ge=1, le=MAX_TIMEOUT)
    """Seconds one program of the one-tool agent may take, packages and the start of its sandbox included."""
    exec_repairs: int = Field(1, ge=0, le=10)
    """How often the model of the one-tool agent may mend a program that failed. 0: an error ends the run."""
    exec_disk: Annotated[int, size("1m", "512t")] = Field("256m", validate_default=True)
    """Size of the working directory of one program, in memory; at most a quarter of SANDBOX_MEMORY is \
used."""
    exec_pass_keys: bool = Field("0", validate_default=True)
    """Whether programs of the one-tool agent see the variables whose names end in `_API_KEY` or begin with \
`API_KEY_` or `BASE_URL_`, but for those of this application. EGRESS_CREDENTIALS does without showing them."""

    otel_exporter_otlp_endpoint: Url | None = None
    """Collector that is sent an OpenTelemetry span for each execution of the one-tool agent, over HTTP, \
such as http://localhost:4318. No span holds code, arguments or output."""

    memory_messages: int = Field(20, ge=1, le=10_000)
    """Messages of a thread, the newest, that the one-tool agent is sent."""
    memory_recall: int = Field(4, ge=0, le=50)
    """Earlier messages, those nearest to the task, that it is sent besides. 0: none."""
    memory_scope: Literal["thread", "owner"] = "thread"
    """Where it looks for them: in the `thread`, or in all threads of the `owner`."""
    embedder: ModelName | None = None
    """Model that finds messages by their meaning, `provider:model` as in `openai:text-embedding-3-small`. \
Unset: they are found by their words."""
