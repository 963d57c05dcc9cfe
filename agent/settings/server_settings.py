"""Settings of the server: tokens, origins, limits, database."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from agent.settings.setting_types import comma_list, size
from agent.settings.token_settings import Tokens

__all__ = ["Origins", "ServerSettings"]

_STUDIO = "https://smith.langchain.com"


def _origins(value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_origin(item) for item in value)


def _origin(item: str) -> str:
    """Normalize an origin as browsers do: lower case, no path, no default port."""
    if item == "*":
        raise ValueError("* would let every web page start runs and answer approvals: list the origins")
    try:
        parts = urlsplit(item.lower())
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if (
        parts.scheme not in {"http", "https"}
        or not parts.hostname
        or not re.fullmatch(r"[^\s/?#@*]+", parts.netloc)
        or parts.path not in {"", "/"}
        or parts.query
        or parts.fragment
    ):
        raise ValueError(f"{item} must be an origin such as https://agent.example.com:8443")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    usual = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{host}" + (f":{port}" if port not in {None, usual} else "")


Origins = Annotated[tuple[str, ...], NoDecode, BeforeValidator(comma_list), AfterValidator(_origins)]


class ServerSettings(BaseSettings):
    """Part of `agent.settings.Settings`."""

    model_config = SettingsConfigDict(defer_build=True)  # only `Settings` is ever made

    auth_tokens: Tokens = ()
    """Tokens of the server: `owner:sha256[:expiry date]`, comma-separated; `code-agent token new OWNER` \
prints a token and its entry. If set, every request except /ok and /health needs a token, threads belong \
to their owner, and each thread has its own sandbox, whatever SANDBOX_SCOPE says. Unset: everyone who \
reaches the server may do everything."""
    allowed_origins: Origins = Field((_STUDIO,), validate_default=True)
    """Origins of other web pages that may call the server, comma-separated, such as \
`https://agent.example.com`. Requests may also use the hosts of these origins as the server's name, besides \
its own address and localhost. The default is LangGraph's Studio."""
    http_max_body: Annotated[int, size("1k", "300m")] = Field("16m", validate_default=True)
    """Largest body of a request, in bytes. /run, /run/{thread_id}/resume and /run-lite accept at most 1m."""
    http_body_seconds: float = Field(30, ge=0.1, le=3600)
    """Seconds in which the body of a request must arrive."""
    http_rate: int = Field(6000, ge=1, le=10_000_000)
    """Requests per minute of one owner, or of one IP address without AUTH_TOKENS."""
    http_concurrency: int = Field(256, ge=1, le=100_000)
    """Concurrent requests, including streams. One owner may use half of them."""
    shutdown_seconds: float = Field(20, ge=0, le=3600)
    """Seconds that a server waits for running steps, such as a command or a reply of the model, before it \
ends or reloads. A longer step is stopped, and the model reads that its effect is unknown. The runs continue \
after the next start."""

    app_env: Literal["development", "production"] = "development"
    """`production` keeps threads in the database at DATABASE_URL, if that is set."""
    database_url: SecretStr | None = None
    """Postgres database for threads, `postgresql://user:password@host:port/database`, where APP_ENV is \
`production`. Otherwise threads are kept in `.code-agent/threads.sqlite`."""

    @model_validator(mode="after")
    def _is_postgres(self) -> Self:
        # In development the variable may belong to another program.
        if self.postgres_url and not self.postgres_url.startswith(("postgresql://", "postgres://")):
            raise ValueError("DATABASE_URL: must begin with postgresql:// where APP_ENV is production")
        return self

    @property
    def postgres_url(self) -> str | None:
        """URL of the database that keeps threads; None: a file in the working directory keeps them."""
        if self.app_env != "production" or self.database_url is None:
            return None
        return self.database_url.get_secret_value()
