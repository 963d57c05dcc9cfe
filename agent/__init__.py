"""The application: builds the parts of `libs` from the settings, and opens the doors.

The doors are graphs, command line, chat, server and editor.
"""
