"""Lists the secrets of this installation, which `[REDACTED]` replaces in output."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import SecretStr

from agent.settings import Settings, mcp_servers
from libs.gateway import is_placeholder
from libs.redaction import SecretFilter, unfit

if TYPE_CHECKING:
    from libs.servers import ServerConfig

__all__ = ["PROVIDER_KEYS", "key_of", "known_secrets", "secret_filter"]

PROVIDER_KEYS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "cohere": "COHERE_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "fireworks": "FIREWORKS_API_KEY",
    "google_genai": "GOOGLE_API_KEY",
    "groq": "GROQ_API_KEY",
    "mistralai": "MISTRAL_API_KEY",
    "nvidia": "NVIDIA_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "perplexity": "PPLX_API_KEY",
    "together": "TOGETHER_API_KEY",
    "upstage": "UPSTAGE_API_KEY",
    "xai": "XAI_API_KEY",
}
"""Providers of `init_chat_model` whose only credential is one key, and the variable that holds it."""

_KEYS_BESIDES = {"ibm": "WATSONX_API_KEY"}
"""Providers that need more than a key, and whose key is in another variable than `<PROVIDER>_API_KEY`."""

_OTHER_KEYS = ("OPENAI_API_KEY", "LANGSMITH_API_KEY", "LANGCHAIN_API_KEY")
"""Keys that packages read from the environment by themselves, or that are settings."""

_NAMED = re.compile(r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL", re.IGNORECASE)
_CREDENTIAL_HEADERS = ("authorization", "proxy-authorization", "cookie")
_NAMED_NOT = re.compile(r"_(?:FILE|PATH|DIR|ID|NAME|URL|HOST)$|PUBLIC|TOKENIZERS|MAX_TOKENS", re.IGNORECASE)


def key_of(settings: Settings, model: str) -> SecretStr | None:
    """Return the key of a model's provider, or None; `model` has the form of MODEL."""
    provider = model.partition(":")[0]
    if provider == "openai":
        return settings.openai_api_key
    variables = {**PROVIDER_KEYS, **_KEYS_BESIDES}
    return settings.secret(variables.get(provider, f"{provider.upper()}_API_KEY"))


def known_secrets(settings: Settings) -> dict[str, str]:
    """Return every known secret: variable or setting -> value.

    The secrets are:

    - secret settings (OPENAI_API_KEY) and passwords in URLs of settings and proxies;
    - keys of providers and variables that EGRESS_CREDENTIALS names, in the environment or `.env`;
    - credentials of the servers in MCP_CONFIG: in `${NAME}`, `env`, `headers`, `url` and `args`;
    - variables in `.env`, or visible to commands, whose name looks like a secret (KEY, TOKEN, PASSWORD, …)
      or whose value is a URL with a password.
    """
    found: dict[str, str] = {}
    for name, value in {**settings.dotenv(), **settings.variables_of_programs()}.items():
        if _is_named(name):
            found[name] = value
        elif password := _password(value):
            found[name] = password
    credentials = [rule.secret for rule in settings.egress_credentials]
    for name in [*PROVIDER_KEYS.values(), *_OTHER_KEYS, *credentials]:
        if secret := settings.secret(name):
            found[name] = secret.get_secret_value()
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, SecretStr):
            secret_value = value.get_secret_value()
            found[name.upper()] = _password(secret_value) or secret_value
        elif isinstance(value, str) and (password := _password(value)):
            found[name.upper()] = password
    for name, value in settings.given().items():
        if password := _password(value):
            found.setdefault(name, password)
    for server in mcp_servers(settings):
        found |= {f"{name} of {server.name}": value for name, value in _of_server(server)}
    # Inside the sandbox of another installation, variables hold placeholders, which are not secrets.
    return {name: value for name, value in found.items() if not is_placeholder(value)}


def secret_filter(settings: Settings) -> SecretFilter | None:
    """Return the filter of the known secrets; None without any. Logs a warning about unusable secrets."""
    # A setting that holds no secret, or a misspelt one, may look like a secret by its name: AUTH_TOKENS.
    fields = type(settings).model_fields.items()
    plain = {name.upper() for name, field in fields if field.annotation != SecretStr | None}
    plain |= {name.upper() for name in settings.near_settings()}
    known = {
        name: value
        for name, value in known_secrets(settings).items()
        if not (_NAMED.search(name) and name.upper() in plain and unfit(value.strip()))
    }
    return (_filter(tuple(sorted(known.items()))) or None) if known else None


@lru_cache(maxsize=8)
def _filter(secrets: tuple[tuple[str, str], ...]) -> SecretFilter:
    """Make one filter for all callers, so that its warning is logged once."""
    return SecretFilter(dict(secrets))


def _of_server(server: ServerConfig) -> Iterator[tuple[str, str]]:
    """Yield the credentials of a server: name -> value."""
    for name, value in server.headers:
        if _NAMED.search(name) or name.lower() in _CREDENTIAL_HEADERS:
            yield name, value.rpartition(" ")[2]  # without `Bearer`
    options = [
        arg.partition("=")[::2] if "=" in arg else (arg, following)
        for arg, following in pairwise([*server.args, ""])
    ]
    named = [
        (name.lstrip("-").replace("-", "_"), value)
        for name, value in options
        if name.startswith("-") and value and not value.startswith("-")
    ]
    for name, value in [*server.env, *server.variables, *named, *_query(server.url)]:
        if _is_named(name):
            yield name, value
    for place, text in [("url", server.url), *(("args", arg) for arg in server.args)]:
        if password := _password(text):
            yield place, password


def _query(url: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(urlsplit(url).query)
    except ValueError:
        return []


def _is_named(name: str) -> bool:
    """Return whether a variable, an option or a parameter is named like a secret."""
    return bool(_NAMED.search(name) and not _NAMED_NOT.search(name))


def _password(value: str) -> str | None:
    """Return the password in a URL, such as the URL of a database or a package index."""
    if "://" not in value or "@" not in value:
        return None
    try:
        return unquote(urlsplit(value).password or "") or None
    except ValueError:
        return None
