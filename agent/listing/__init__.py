"""Lists files of the workspace: `/data` for the prompt, and files that a run made.

In comes a sandbox or a workspace folder; out come the text about `/data`, and names of new files.
"""

from __future__ import annotations

from agent.listing.listed_data import LISTING_SECONDS, DataListing, ShowsData, data_listing
from agent.listing.produced_files import is_plot, listing, made_since

__all__ = ["LISTING_SECONDS", "DataListing", "ShowsData", "data_listing", "is_plot", "listing", "made_since"]
