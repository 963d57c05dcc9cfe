"""Files that run in the sandbox of a program, with the standard library only."""
