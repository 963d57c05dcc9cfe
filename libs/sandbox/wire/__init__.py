"""Encodes frames and messages between host and container. Both ends use these modules.

Standard library only, because the container has these modules, too.
"""
