"""Lists files of the workspace: `/data` and absent paths of the task for the prompt, and files of a run.

In come a task, a sandbox or a workspace folder; out come texts for the prompt, and names of files.
"""

from __future__ import annotations

from agent.listing.absent_paths import SaysAbsentPaths, absent_line
from agent.listing.listed_data import LISTING_SECONDS, DataListing, ShowsData, data_listing
from agent.listing.produced_files import Listing, captured_listing, is_plot, listing, made_since
from agent.listing.task_paths import NamedPath, absent, is_input, named_paths

__all__ = [
    "LISTING_SECONDS",
    "DataListing",
    "Listing",
    "NamedPath",
    "SaysAbsentPaths",
    "ShowsData",
    "absent",
    "absent_line",
    "captured_listing",
    "data_listing",
    "is_input",
    "is_plot",
    "listing",
    "made_since",
    "named_paths",
]
