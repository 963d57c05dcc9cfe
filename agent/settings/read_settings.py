"""Reads the settings; an error names each wrong setting and what is allowed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from agent.settings.application_settings import Settings
from agent.settings.dotenv_file import unreadable_lines
from agent.settings.egress_settings import check_secrets
from agent.settings.setting_types import ModelName, bounds_of

if TYPE_CHECKING:
    from libs.servers import ServerConfig

__all__ = [
    "SettingsError",
    "check_model_name",
    "checked_settings",
    "load_settings",
    "mcp_servers",
    "unchecked_settings",
]

logger = logging.getLogger(__name__)


class SettingsError(Exception):
    """Wrong settings: one line for each, with its name, its value and what is allowed."""


def load_settings(env_file: Path | None = Path(".env"), **overrides: Any) -> Settings:
    """As `checked_settings`. Logs a warning for a variable in `env_file` with nearly the name of a setting.

    Raises:
        SettingsError: one or more settings are wrong, or a line of `env_file` cannot be read.
    """
    settings = checked_settings(env_file, **overrides)
    for sentence in settings.misspelt():
        _warn_once(sentence)
    return settings


def checked_settings(env_file: Path | None = Path(".env"), **overrides: Any) -> Settings:
    """Read the settings; `overrides` win over the environment, which wins over `env_file`.

    For programs that prepare others, such as `code-agent setup`: the hints of `load_settings` come once.

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
    if lines := check_secrets(settings.egress_credentials, settings.secret):
        raise SettingsError("\n".join(lines))
    mcp_servers(settings)
    return settings


def mcp_servers(settings: Settings) -> tuple[ServerConfig, ...]:
    """Read the servers of MCP_CONFIG; none if MCP_CONFIG is unset.

    Raises:
        SettingsError: the file is wrong.
    """
    if settings.mcp_config is None:
        return ()
    from libs.servers import ServersError, read_servers

    try:
        return read_servers(settings.mcp_config, settings.environment())
    except ServersError as error:
        raise SettingsError(f"MCP_CONFIG={error}") from None


def check_model_name(name: str) -> None:
    """Raise SettingsError if a name has not the form of MODEL."""
    try:
        TypeAdapter(ModelName).validate_python(name)
    except ValidationError as error:
        raise SettingsError(
            "\n".join(_explain({**each, "loc": ("model",)}) for each in error.errors())
        ) from None


_warned: set[str] = set()


def _warn_once(sentence: str) -> None:
    """Log a warning once, however often this process reads the settings."""
    if sentence not in _warned:
        _warned.add(sentence)
        logger.warning("%s", sentence)


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


def _allowed(field: FieldInfo) -> str:
    """Return which values a number or a switch may have; "" for a field of another type."""
    if field.annotation is bool:
        return "must be 1 or 0"
    if (bounds := bounds_of(field)) is None:
        return ""
    return f"must be a {'whole ' * (field.annotation is int)}number from {bounds[0]} to {bounds[1]}"


def _explain(error: ErrorDetails) -> str:
    message = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return message
    field = Settings.model_fields.get(str(error["loc"][0]))
    if field and error["type"] != "value_error":  # pydantic's own texts do not name the range
        message = _allowed(field) or message
    name, value = str(error["loc"][0]), str(error["input"])
    # A malformed value may be a secret in the wrong place; a URL may hold a password.
    hidden = name in {"auth_tokens", "egress_credentials"} or "@" in value
    shown = "" if hidden else f"={value[:80]}{'…' * (len(value) > 80)}"
    if shown.endswith(":"):  # two colons would look like an error of this text
        shown = f"='{value}'"
    return f"{name.upper()}{shown}: {message[0].lower()}{message[1:]}"
