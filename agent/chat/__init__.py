"""`code-agent chat`: a conversation at the terminal, or line by line from a pipe.

In come a person's messages, slash commands and answers. Out go runs of a thread, shown at the terminal.
"""
