"""Prints what pip is set to, as JSON. Run by the Python whose pip it is, in a process of its own.

It is pip's own code that reads pip's files and variables, with its defaults and its order; of that code it
uses what has been there, by these names, since pip 19.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pip._internal.commands import create_command
from pip._internal.models.link import Link
from pip._internal.utils.urls import path_to_url


def main() -> None:
    command: Any = create_command("install")
    options, _ = command.parse_args(["--no-input"])
    session = command._build_session(options)
    session.auth.prompting = False
    indexes = [] if options.no_index else [options.index_url, *options.extra_index_urls]
    trusted = [options.cert]
    found: dict[str, list[dict[str, str | None]]] = {"indexes": [], "pages": []}
    for kind, locations in (("indexes", indexes), ("pages", options.find_links)):
        for location in filter(None, locations):
            url = _as_url(location)
            user = password = None
            if urlsplit(url).scheme in ("http", "https"):
                if not session.is_secure_origin(Link(url)):
                    continue  # as pip does, which says so
                trusted.append(session.merge_environment_settings(url, {}, None, None, None)["verify"])
                url, user, password = session.auth._get_url_and_credentials(url)
            found[kind].append({"url": url, "user": user, "password": password})
    can_be_direct = hasattr(options, "no_proxy_env")
    sys.stdout.write(
        json.dumps(
            {
                **found,
                "trusted": [path for path in dict.fromkeys(trusted) if isinstance(path, str)],
                "proxy": options.proxy or None,
                "direct": can_be_direct and (options.no_proxy_env or options.proxy == ""),
            }
        )
    )


def _as_url(location: str) -> str:
    """pip takes paths as well."""
    path = Path(location).expanduser()
    return path_to_url(str(path)) if path.exists() else location


if __name__ == "__main__":
    main()
