"""Settings of the sandbox: limits, image, scope, visible variables of the host."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from agent.settings.setting_types import Names, size
from libs.sandbox import MAX_TIMEOUT, SandboxLimits

__all__ = ["SandboxSettings"]


class SandboxSettings(BaseSettings):
    """Part of `agent.settings.Settings`."""

    model_config = SettingsConfigDict(defer_build=True)  # only `Settings` is ever made

    sandbox_memory: Annotated[int, size("64m", "1024t")] = Field("2g", validate_default=True)
    """Memory of the sandbox, /tmp included, at least 64m; swap is off."""
    sandbox_cpus: float = Field(2, ge=0.01, le=1024)
    """Processors that the sandbox may use."""
    sandbox_pids: int = Field(256, ge=32, le=4_000_000)
    """Processes and threads in the sandbox at once."""
    sandbox_tmp: Annotated[int, size("1m", "512t")] = Field("256m", validate_default=True)
    """Size of /tmp in the sandbox, at least 1m and at most half of SANDBOX_MEMORY."""
    sandbox_timeout: float = Field(120, ge=0.001, le=MAX_TIMEOUT)
    """Seconds that a command may take unless the call sets another time-out."""
    sandbox_output_chars: int = Field(50_000, ge=1_000, le=10_000_000)
    """Characters of a command's output that are returned. The whole output is kept in a file."""
    sandbox_scope: Literal["shared", "thread"] = "shared"
    """`shared`: all threads work in one sandbox, on WORKSPACE_DIR. `thread`: each thread has its own, on \
WORKSPACE_DIR/threads/<id>, and reads WORKSPACE_DIR/data."""
    sandbox_warm: int = Field(1, ge=0, le=32)
    """Number of started spare sandboxes for new threads (SANDBOX_SCOPE=thread) and for programs of the \
one-tool agent."""
    sandbox_idle_seconds: float = Field(900, ge=1, le=604_800)
    """Seconds without a command after which a sandbox is stopped. The next command starts it again, and its \
output says so. Files of the workspace stay; other files, processes in the background and variables of \
Python blocks are lost."""
    sandbox_runtime: str | None = None
    """Container runtime, such as `runsc` (installed by `make setup RUNTIME=runsc`). Unset: Docker's."""
    sandbox_image: str = "code-execution-agent"
    """Image of the sandbox."""
    sandbox_browser: bool = Field("0", validate_default=True)
    """Whether the sandbox has a browser (the skill `browser`), Node.js and npm: another image, \
SANDBOX_IMAGE with `-browser` after its name, which `code-agent setup` builds. It needs 0.75 GB more."""
    sandbox_env_allow: Names = ()
    """Variables of the environment and of `.env` that commands see: names, comma-separated; `*` matches any \
characters. A pattern that matches the variable of the model's key, as `OPENAI_*` does, passes the key."""
    sandbox_env_inherit: Literal["none", "all"] = "none"
    """`all` shows commands every variable of the environment and of `.env`, keys and tokens included. \
Unsafe."""

    @model_validator(mode="after")
    def _tmp_fits(self) -> Self:
        if self.sandbox_tmp > self.sandbox_memory // 2:
            raise ValueError(
                f"SANDBOX_TMP={self.sandbox_tmp >> 20}m: must be at most half of SANDBOX_MEMORY, "
                f"which is {self.sandbox_memory >> 20}m"
            )
        return self

    @property
    def env_patterns(self) -> tuple[str, ...]:
        """Patterns of the names of variables that commands may see."""
        return ("*",) if self.sandbox_env_inherit == "all" else self.sandbox_env_allow

    @property
    def limits(self) -> SandboxLimits:
        """Limits of one sandbox."""
        return SandboxLimits(
            memory=self.sandbox_memory,
            cpus=self.sandbox_cpus,
            pids=self.sandbox_pids,
            tmp=self.sandbox_tmp,
            timeout=self.sandbox_timeout,
            output_chars=self.sandbox_output_chars,
        )

    @property
    def image(self) -> str:
        """Name of the used image: SANDBOX_IMAGE, or its variant with a browser."""
        if not self.sandbox_browser:
            return self.sandbox_image
        path, slash, last = self.sandbox_image.rpartition("/")
        name, colon, tag = last.partition(":")
        return f"{path}{slash}{name}-browser{colon}{tag}"
