"""Encodes frames and messages between host and container. Both ends use these modules.

In come messages. Out come bytes of frames, which the other end reads as messages. Standard library only,
because the container has these modules, too.
"""
