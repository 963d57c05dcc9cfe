"""Reads the settings; an error names each wrong setting and what is allowed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agent.settings.application_settings import Settings
from agent.settings.dotenv_file import unreadable_lines
from agent.settings.egress_settings import check_secrets

__all__ = ["SettingsError", "load_settings", "unchecked_settings"]

logger = logging.getLogger(__name__)


class SettingsError(Exception):
    """Wrong settings: one line for each, with its name, its value and what is allowed."""


def load_settings(env_file: Path | None = Path(".env"), *, warn: bool = True, **overrides: Any) -> Settings:
    """Read the settings; `overrides` win over the environment, which wins over `env_file`.

    A variable in `env_file` with nearly the name of a setting is logged as a warning, unless `warn` is off
    because the caller shows `Settings.misspelt` itself.

    Raises:
        SettingsError: one or more settings are wrong, or a line of `env_file` cannot be read.
    """
    try:
        if lines := [f"{env_file}, line {n}" for n in (unreadable_lines(env_file) if env_file else ())]:
            raise SettingsError("\n".join(f"{line}: cannot be read. Write NAME=value." for line in lines))
        settings = Settings(_env_file=env_file, **overrides)  # type: ignore[call-arg]
    except ValidationError as error:
        raise SettingsError("\n".join(_explain(details) for details in error.errors())) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{env_file}: cannot be read: {error}") from error
    settings._dotenv = env_file
    for sentence in settings.misspelt():
        if sentence not in _known:
            # Noted first: logging reads the settings, too.
            _known.add(sentence)
            if warn:
                logger.warning("%s", sentence)
    if lines := check_secrets(settings.egress_credentials, settings.secret):
        raise SettingsError("\n".join(lines))
    return settings


_known: set[str] = set()
"""Warnings that this process has logged or shown, however often the process reads the settings."""


def unchecked_settings(env_file: Path | None = Path(".env")) -> Settings:
    """Return default settings that know `env_file`, for use after `load_settings` has failed."""
    # The defaults of switches are strings, and `model_construct` would keep "0", which is true in Python.
    switches = {
        name: field.default == "1"
        for name, field in Settings.model_fields.items()
        if field.annotation is bool
    }
    settings = Settings.model_construct(**switches)
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
