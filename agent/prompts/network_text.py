"""Describes the network to models, exactly as the gateway allows it."""

# ruff: noqa: E501 - prose, one paragraph a line

from __future__ import annotations

from agent.settings import Settings

__all__ = ["network_rule"]

_NONE = "There is no network: nothing can be downloaded or installed."
_SOME = "Of the network you reach {what}, over http and https, through the proxy in HTTP_PROXY; programs find it by themselves. All else is refused with 403 and the reason (`curl -v` shows it): then do without it, or tell the user what you need."
_MOST_NAMED = 20


def network_rule(settings: Settings, *, search: str = "web search (skill `web`)") -> str:
    """Return one or two sentences for the limits in a system prompt.

    Args:
        search: how the agent's programs search the web, if SEARCH_PROVIDER is set.
    """
    reached = []
    if hosts := settings.egress_allow:
        named = ", ".join(hosts[:_MOST_NAMED])
        reached.append(
            named + (f" and {len(hosts) - _MOST_NAMED} hosts more" if len(hosts) > _MOST_NAMED else "")
        )
    if settings.egress_packages:
        reached.append("the package indexes (`pip install --user` works, and `npm` where the image has Node)")
    if settings.search_provider:
        reached.append(search)
    return _SOME.format(what="; ".join(reached)) if reached else _NONE
