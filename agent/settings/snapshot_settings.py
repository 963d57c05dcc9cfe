"""Settings of the snapshots of workspaces."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from agent.settings.setting_types import size

__all__ = ["SnapshotSettings"]


class SnapshotSettings(BaseSettings):
    """Part of `agent.settings.Settings`."""

    model_config = SettingsConfigDict(defer_build=True)  # only `Settings` is ever made

    snapshots_url: str = ".code-agent/snapshots"
    """Where the contents of captured files are kept: a folder, or a URL such as `s3://bucket/prefix`, \
`gs://…` or `az://…`, with the credentials in the variables of the provider. Must be outside of \
the workspace."""
    snapshot_file_max: Annotated[int, size("1k", "4g")] = Field("64m", validate_default=True)
    """Largest file whose content is kept. Larger files are only listed, by size and time of the last write, \
and stay as they are when a thread goes back."""
    snapshots_max: Annotated[int, size("1m", "1024t")] = Field("4g", validate_default=True)
    """Size of all kept contents, compressed. Above it, the oldest are removed until a tenth is free. What \
is younger than an hour is never removed, nor what the latest state of a thread, an open question or an \
undo needs."""
