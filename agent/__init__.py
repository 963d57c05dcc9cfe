"""The application: builds the parts of `libs` from the settings, and opens the entry points.

The entry points are graphs, command line, chat, server and editor.
"""
