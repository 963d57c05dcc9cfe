"""One rule of the rules file: its form, and the calls that it covers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from libs.middleware.approvals.rules import path_patterns
from libs.middleware.approvals.rules.program_words import CODE_IN_WORDS, begins_with, holds, may_hold
from libs.middleware.approvals.rules.shell_tree import all_commands, plain_commands_in_tree
from libs.middleware.approvals.rules.shell_words import Word, plain_commands

__all__ = ["FILE_TOOLS", "RULED", "Call", "Rule", "RuleDecision", "is_ruled"]

RuleDecision = Literal["allow", "ask", "deny"]

FILE_TOOLS = ("edit_file", "write_file", "delete")
"""Tools whose rules have a `path`."""
RULED = ("execute", "execute_code", *FILE_TOOLS)
"""Tools that can have rules, besides `mcp:server.tool`."""

_SUBJECT = {"execute": "command", "execute_code": "code", **dict.fromkeys(FILE_TOOLS, "file_path")}
"""Tool -> the argument that rules are about."""
_BESIDE = {
    "execute": {"timeout"},
    "execute_code": {"language"},
    "edit_file": {"old_string", "new_string", "replace_all"},
    "write_file": {"content"},
}
"""Tool -> arguments that an `allow` covers whatever they are. No other may have a value."""


def is_ruled(tool: str) -> bool:
    """Return whether rules can be about calls of this name."""
    return tool in RULED or _is_mcp(tool)


def _is_mcp(tool: str) -> bool:
    server, dot, name = tool.removeprefix("mcp:").partition(".")
    return tool.startswith("mcp:") and bool(server and dot and name)


class Call:
    """A call as the rules read it. Each reading is made once, for all rules."""

    def __init__(self, tool: str, args: Mapping[str, Any]) -> None:
        self.tool = tool
        subject = args.get(_SUBJECT.get(tool, ""))
        self.subject = subject if isinstance(subject, str) else None
        """The command, code or path. None: the call has none, so no `allow` covers the call."""
        self.language = args.get("language") or "python"
        beside = {_SUBJECT.get(tool), *_BESIDE.get(tool, ())}
        self.has_more = any(value for name, value in args.items() if name not in beside)

    @cached_property
    def plain(self) -> list[tuple[Word, ...]] | None:
        """The simple commands of a plain command. None: another command, or the two readers do not agree."""
        text = self.subject or ""
        commands = plain_commands(text)
        return commands if commands and commands == plain_commands_in_tree(text) else None

    @cached_property
    def commands(self) -> list[tuple[Word, ...]] | None:
        """Every simple command that can be found, at any depth. None: the command takes too long to read."""
        found = all_commands(self.subject or "")
        return None if found is None else [*(self.plain or ()), *found]


class Rule(BaseModel):
    """A `[[rule]]` of the rules file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tool: str
    decision: RuleDecision
    prefix: tuple[str | tuple[str, ...], ...] | None = Field(None, min_length=1)
    """First words of a simple command. A list: any of its words. For `execute`."""
    exact: str | None = Field(None, min_length=1)
    """The whole command or program. For `execute` and `execute_code`."""
    language: Literal["python", "bash"] | None = None
    """Language of `exact` for `execute_code`. Default: Python for `allow`, both for `ask` and `deny`."""
    path: str | tuple[str, ...] | None = Field(None, min_length=1)
    """Pattern of paths, or several. For file tools."""
    match: tuple[str, ...] = ()
    """Commands, programs or paths that this rule covers by itself."""
    not_match: tuple[str, ...] = ()
    """Commands, programs or paths that this rule does not cover."""
    number: int = Field(0, exclude=True)
    """Place in the file, from 1."""

    @field_validator("prefix", "path", "match", "not_match")
    @classmethod
    def _no_empty_text(cls, value: Any) -> Any:
        if any(not each for each in (value if isinstance(value, tuple) else ())):
            raise ValueError("holds an empty text or list")
        return value

    @model_validator(mode="after")
    def _fits_its_tool(self) -> Self:
        if not is_ruled(self.tool):
            raise ValueError(f"tool is {self.tool!r}: write {', '.join(RULED)} or mcp:server.tool")
        needed = {
            "execute": {"prefix", "exact"},
            "execute_code": {"exact"},
            **{tool: {"path"} for tool in FILE_TOOLS},
        }
        given = {name for name in ("prefix", "exact", "path") if getattr(self, name) is not None}
        wanted = needed.get(self.tool, set())
        if len(given) != min(1, len(wanted)) or given - wanted:
            raise ValueError(
                f"a rule for {self.tool} has {' or '.join(sorted(wanted)) or 'no prefix, exact or path'}"
            )
        if self.language and self.tool != "execute_code":
            raise ValueError("language is for execute_code")
        programs = self.words[0] if self.words else ()
        if spaced := [word for word in programs if " " in word]:
            raise ValueError(f'{spaced[0]!r} is one word: write prefix = ["git", "status"]')
        if self.decision == "allow" and (code := CODE_IN_WORDS & set(programs)):
            raise ValueError(
                f"{min(code)!r} runs its words as code or changes what later commands mean, so a "
                "prefix would allow everything: write exact"
            )
        return self

    @property
    def is_mcp(self) -> bool:
        """Whether the rule is about a tool of an MCP server."""
        return _is_mcp(self.tool)

    @cached_property
    def digest(self) -> str:
        """First 16 hex digits of the SHA-256 over the rule, wherever in the file the rule stands."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]

    @cached_property
    def words(self) -> tuple[tuple[str, ...], ...]:
        """`prefix`, with a list for each word."""
        return tuple((each,) if isinstance(each, str) else each for each in self.prefix or ())

    @property
    def _patterns(self) -> Sequence[str]:
        return (self.path,) if isinstance(self.path, str) else self.path or ()

    def __str__(self) -> str:
        what = self.exact if self.exact is not None else ", ".join(self._patterns)
        if self.words:
            what = " ".join("|".join(choices) for choices in self.words)
        line, *more = what.splitlines() or [""]
        text = f"{self.decision} {self.tool} {line}".strip()
        return f"rule {self.number} ({text}{' …' * bool(more)})"

    def covers(self, call: Call) -> bool:
        """Return whether the rule is surely about the call: an `allow` about all, others about a part.

        Every `ask` and `deny` with a prefix covers a command that takes too long to read.
        """
        if call.tool != self.tool:
            return False
        if self.is_mcp:
            return True
        if call.subject is None or (self.decision == "allow" and call.has_more):
            return False
        if self.exact is not None:
            spoken = self.language or ("python" if self.decision == "allow" else call.language)
            same = self.tool != "execute_code" or spoken == call.language
            return same and self.exact == call.subject
        if self.words:
            if self.decision == "allow":
                return bool(call.plain) and all(self.allows(words) for words in call.plain or ())
            return call.commands is None or any(holds(words, self.words) for words in call.commands)
        return self._covers_path(call.subject)

    def _covers_path(self, path: str) -> bool:
        if self.decision == "allow":
            # To delete a folder deletes what is in it, so only a pattern for all that is below will do.
            return path_patterns.is_clear(path) and any(
                path_patterns.matches(path, each) for each in self._patterns
            )
        return any(
            path_patterns.matches(path, each)
            or (self.tool == "delete" and path_patterns.contains(path, each))
            for each in self._patterns
        )

    def allows(self, words: tuple[Word, ...]) -> bool:
        """Return whether the rule allows one simple command."""
        return self.decision == "allow" and bool(self.words) and begins_with(words, self.words)

    def may_cover(self, call: Call) -> bool:
        """Return whether an `ask` or a `deny` may be about the call, so that no `allow` covers the call."""
        if call.tool != self.tool or call.subject is None:
            return False
        if self.words:
            return call.commands is None or any(may_hold(words, self.words) for words in call.commands)
        return self.tool == "delete" and any(
            path_patterns.may_contain(call.subject, each) for each in self._patterns
        )
