"""Search for programs in the sandbox: a provider on the host, whose key never enters."""

from libs.gateway.search.brave import Brave
from libs.gateway.search.choose import search_provider
from libs.gateway.search.fake import Fake
from libs.gateway.search.provider import Result, SearchError, SearchProvider, SearchType
from libs.gateway.search.searxng import SearXNG
from libs.gateway.search.service import SearchService

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
