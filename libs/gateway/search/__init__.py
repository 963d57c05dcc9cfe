"""Web search for programs in the sandbox. The provider and its key stay on the host.

In come queries of programs. Out come titles, addresses and excerpts from the chosen provider.
"""

from libs.gateway.search.brave_provider import Brave
from libs.gateway.search.choose_provider import search_provider
from libs.gateway.search.fake_provider import Fake
from libs.gateway.search.search_contract import Result, SearchError, SearchProvider, SearchType
from libs.gateway.search.search_service import SearchService
from libs.gateway.search.searxng_provider import SearXNG

__all__ = [
    "Brave",
    "Fake",
    "Result",
    "SearXNG",
    "SearchError",
    "SearchProvider",
    "SearchService",
    "SearchType",
    "search_provider",
]
