"""The subcommands of `code-agent`.

Each module has one command or one group of commands, which `agent.cli` adds to the command line. A command
prints for a person and ends with an exit status.
"""
