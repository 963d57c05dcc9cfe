"""Reads the settings; an error names each wrong setting and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agent.settings.application_settings import Settings
from agent.settings.egress_settings import check_secrets

__all__ = ["SettingsError", "load_settings", "unchecked_settings"]


class SettingsError(Exception):
    """Wrong settings: one line for each, with its name, its value and what is allowed."""


def load_settings(env_file: Path | None = Path(".env"), **overrides: Any) -> Settings:
    """Read the settings; `overrides` win over the environment, which wins over `env_file`.

    Raises:
        SettingsError: one or more settings are wrong.
    """
    try:
        settings = Settings(_env_file=env_file, **overrides)  # type: ignore[call-arg]
    except ValidationError as error:
        raise SettingsError("\n".join(_explain(details) for details in error.errors())) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{env_file}: cannot be read: {error}") from error
    settings._dotenv = env_file
    if lines := check_secrets(settings.egress_credentials, settings.secret):
        raise SettingsError("\n".join(lines))
    return settings


def unchecked_settings(env_file: Path | None = Path(".env")) -> Settings:
    """Return default settings that know `env_file`, for use after `load_settings` has failed."""
    settings = Settings.model_construct()
    settings._dotenv = env_file
    return settings


def _explain(error: ErrorDetails) -> str:
    message = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return message
    name, value = str(error["loc"][0]), str(error["input"])
    # A malformed value may be a secret in the wrong place; a URL may hold a password.
    hidden = name in {"auth_tokens", "egress_credentials"} or "@" in value
    shown = "" if hidden else f"={value[:80]}{'…' * (len(value) > 80)}"
    return f"{name.upper()}{shown}: {message[0].lower()}{message[1:]}"
