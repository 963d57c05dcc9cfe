"""The connection to a supervisor: one channel carries many requests, and connections of programs inside.

In come requests and their input, as frames: out come the frames of the answers. Nothing here knows what a
request means, nor how a sandbox is started.
"""

from __future__ import annotations

from libs.sandbox.host.channel.channel import Channel
from libs.sandbox.host.channel.connections import Door, Egress, EgressStream, Receiver, way_out
from libs.sandbox.host.channel.transport import Transport

__all__ = ["Channel", "Door", "Egress", "EgressStream", "Receiver", "Transport", "way_out"]
