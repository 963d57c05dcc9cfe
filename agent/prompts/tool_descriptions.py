"""The descriptions of the deep agent's tools, as a model reads them."""

# ruff: noqa: E501 - prose, one paragraph a line

from __future__ import annotations

__all__ = ["SUBAGENT_DESCRIPTION", "TODO_PROMPT", "TODO_TOOL", "TOOLS"]

SUBAGENT_DESCRIPTION = (
    "Works on the same computer with the same files, shell and skills, in a conversation of its own."
)

TODO_PROMPT = "Keep a plan with `write_todos` where a task has three steps or more; skip it otherwise."

TODO_TOOL = """\
Writes your list of steps; each call replaces the whole list. States: pending, in_progress, completed.
Begin with the first step in_progress. Mark a step completed as soon as it is wholly done, not when it failed or is partial; add and drop steps as you learn more. One call at a time, never in parallel. The list is not the answer: that is your last message, after the last call."""

TOOLS = {
    "ls": "Lists the files and folders in a folder.",
    "read_file": """\
Reads a file: 100 lines from `offset` (from 0), or `limit` lines.
- The header line `@@ … @@` above the content is not part of the file; nor is a note above that, or one below that something was cut or replaced.
- Images and PDFs come back as such; give `file_path` alone.
- Read several files in one turn where that helps, and always read a file before you edit it.""",
    "write_file": "Makes a new file, with the folders it needs. Refuses an existing file: use edit_file for that.",
    "edit_file": """\
Replaces exact text in a file. Read the file first; keep its indentation and leave the `@@ … @@` header out. `old_string` must occur once, unless `replace_all` is set.""",
    "delete": "Deletes a file, or a folder with all that is in it, for good.",
    "glob": """\
Finds files by pattern, below `path`; without one, or with /, below /workspace. Gives absolute paths. `*` within a name, `**` any folders, `?`, `[abc]`, `{a,b}`. `*.py` matches at any depth, `src/**/*.py` relative to the start, `/*.py` at the start only. Names with a leading dot match only a pattern that has the dot. Wildcards do not follow links to folders.""",
    "grep": """\
Searches files for literal text, below `path`; without one, or with /, below /workspace. Folders named .git and .output, and links to folders, are left out, unless `glob` begins with their path; `**` in `glob` matches other folders with a leading dot, too. Not a regular expression: `a|b` is those three characters; for one, run `rg 'regex'` with execute.""",
    "execute": """\
Runs a bash command in /workspace and gives stdout and stderr together, and the exit code.
- Each call is a new shell: no variable or directory is kept, files are. Chain with `&&`; quote paths.
- stdin is empty.
- To look at files, use read_file, ls, glob and grep instead.""",
}
"""Descriptions of the file tools and `execute`. deepagents' own are longer, and partly wrong here."""
