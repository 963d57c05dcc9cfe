"""Settings from the environment and `.env`, and the documents that are written from the settings.

In come the environment and `.env`. Out goes `Settings`: checked values, nothing built from them.
"""

from __future__ import annotations

from agent.settings.application_settings import Settings
from agent.settings.read_settings import (
    SettingsError,
    check_model_name,
    checked_settings,
    load_settings,
    mcp_servers,
    unchecked_settings,
)
from agent.settings.state_paths import (
    COMMANDS,
    DECISIONS,
    LEARNED,
    LITE_ROOT,
    LOCKS,
    MEMORY,
    PACKAGES,
    ROOT,
    RULES,
    THREADS,
    WORKSPACES,
)
from agent.settings.token_settings import Token, TokenRefused, new_token, owner_by_token

__all__ = [
    "COMMANDS",
    "DECISIONS",
    "LEARNED",
    "LITE_ROOT",
    "LOCKS",
    "MEMORY",
    "PACKAGES",
    "ROOT",
    "RULES",
    "THREADS",
    "WORKSPACES",
    "Settings",
    "SettingsError",
    "Token",
    "TokenRefused",
    "check_model_name",
    "checked_settings",
    "load_settings",
    "mcp_servers",
    "new_token",
    "owner_by_token",
    "unchecked_settings",
]
