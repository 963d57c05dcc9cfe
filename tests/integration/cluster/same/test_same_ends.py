"""Time-outs and cancellations end commands on a node of a cluster as in every sandbox."""

from __future__ import annotations

from tests.integration.commands.test_time_out import TestTimeOut

__all__ = ["TestTimeOut"]

LEFT_OUT = {
    "test_time_out_is_within_bounds": "makes a local sandbox",
}
