"""A mixed load on sandboxes: commands, blocks of Python, files, floods of output, all checked."""
