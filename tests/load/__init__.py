"""A mixed load on sandboxes: commands, Python blocks, files and long outputs. All results are checked."""
