"""Commands about the machines that run sandboxes: their set-up, their checks and their containers.

In come settings. Out come an Engine and an image, checks with hints, and lists of containers.
"""
