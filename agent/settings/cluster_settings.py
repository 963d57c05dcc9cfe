"""Settings of a cluster of machines that run the sandboxes of threads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from agent.settings.setting_types import size

__all__ = ["ClusterSettings"]


class ClusterSettings(BaseSettings):
    """Part of `agent.settings.Settings`."""

    model_config = SettingsConfigDict(defer_build=True)  # only `Settings` is ever made

    sandbox_cluster: str | None = None
    """Ray cluster whose machines run the sandboxes of threads: an address such as `10.0.0.1:6379`, or \
`auto` for the cluster of this machine. Needs SANDBOX_SCOPE=thread. Unset: sandboxes run on this machine. \
Several servers need APP_ENV=production with the same DATABASE_URL and SNAPSHOTS_URL."""
    sandbox_reserve_memory: Annotated[int, size("0m", "1024t")] = Field("0m", validate_default=True)
    """Memory of a machine that each sandbox of the cluster reserves, whatever SANDBOX_MEMORY allows. With \
0m, the number of sandboxes that a machine offers is the only bound."""
    sandbox_reserve_cpus: float = Field(0, ge=0, le=1024)
    """Processors of a machine that each sandbox of the cluster reserves, whatever SANDBOX_CPUS allows."""
    sandbox_wait: float = Field(60, ge=0, le=3600)
    """Seconds that a sandbox waits for a place when the cluster is full."""

    @property
    def travels(self) -> bool:
        """Whether sandboxes of threads start empty, so that workspaces travel as snapshots."""
        return self.sandbox_cluster is not None
