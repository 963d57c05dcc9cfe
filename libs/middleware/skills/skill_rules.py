"""The rules for SKILL.md, as pure functions over its bytes.

Source: the Agent Skills specification, https://agentskills.io/specification, and for open questions its
reference validator `skills-ref`. A breach is a `Finding`. Loading rejects fatal findings only; strict
validation reports all.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

__all__ = [
    "MAX_DESCRIPTION_CHARS",
    "MAX_NAME_CHARS",
    "Finding",
    "UnreadableSkill",
    "check_description",
    "check_fields",
    "cut",
    "fold",
    "parse_front_matter",
]

MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024
MAX_COMPATIBILITY_CHARS = 500
# YAML parsing is recursive and superlinear. A real front matter has a few lines.
MAX_FRONT_MATTER_CHARS = 16_384
FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")


@dataclass(frozen=True)
class Finding:
    """One breach of a rule and its fix. With a fatal finding the skill cannot be used."""

    message: str
    fix: str
    fatal: bool = False


class UnreadableSkill(ValueError):
    """A SKILL.md that cannot be read. `finding` holds the reason and the fix."""

    def __init__(self, message: str, *, fix: str) -> None:
        super().__init__(message)
        self.finding = Finding(message, fix, fatal=True)


def fold(text: str) -> str:
    """Return `text` as one line of printable characters.

    Each run of white space, control, format (bidirectional, zero-width) and unassigned characters becomes one
    space. The result cannot start a new line of a prompt or hide a part.
    """
    if not text.isprintable():
        text = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(text.split())


def cut(text: str, limit: int) -> str:
    """Return `text` in at most `limit` characters, with "…" at the cut."""
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…" if limit else ""


def parse_front_matter(content: bytes) -> Mapping[str, object]:
    """Return the fields between the two `---` lines at the start of SKILL.md.

    A byte order mark and CRLF or CR line ends are accepted. All scalars are text:
    `version: 1.0` gives the string "1.0".

    Raises:
        UnreadableSkill: not UTF-8, no front matter, not closed, over 16,384 characters, not YAML, or
            not a mapping.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableSkill(
            f"SKILL.md is not UTF-8 (byte 0x{content[error.start]:02x} at offset {error.start})",
            fix="Save it as UTF-8.",
        ) from error
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[0].rstrip() != "---":
        raise UnreadableSkill(
            "SKILL.md has no front matter",
            fix="Start the file with a line `---`, then `name:` and `description:`, then a line `---`.",
        )
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if end is None:
        raise UnreadableSkill("the front matter of SKILL.md is not closed", fix="End it with a line `---`.")
    source = "\n".join(lines[1:end])
    if len(source) > MAX_FRONT_MATTER_CHARS:
        raise UnreadableSkill(
            f"the front matter of SKILL.md has {len(source):,} characters (limit {MAX_FRONT_MATTER_CHARS:,})",
            fix="Move the text below the second `---`.",
        )
    try:
        fields = yaml.load(source, Loader=yaml.BaseLoader)  # noqa: S506 - builds only str, list and dict
    except (yaml.YAMLError, RecursionError) as error:
        raise UnreadableSkill(
            f"the front matter of SKILL.md is not YAML: {_yaml_reason(error)}",
            fix="Quote a value that holds `: `, ` #` or starts with a sign of YAML's own.",
        ) from error
    if not isinstance(fields, dict):
        raise UnreadableSkill(
            "the front matter of SKILL.md is not a list of fields",
            fix="Write `name: …` and `description: …`, one a line.",
        )
    return {str(key): value for key, value in fields.items()}


def check_fields(fields: Mapping[str, object], *, folder: str) -> Iterator[Finding]:
    """Yield every rule that `fields` break, for a skill in the folder named `folder`.

    Only a missing, empty or invalid description is fatal: without a description no model knows when the skill
    applies.
    """
    yield from _check_name(fields.get("name"), folder)
    yield from check_description(fields.get("description"))
    for field in ("license", "allowed-tools"):
        if not isinstance(fields.get(field, ""), str):
            yield Finding(f"{field} is not text", f"Write {field} as one line of text.")
    compatibility = fields.get("compatibility")
    if compatibility is not None and not (
        isinstance(compatibility, str) and 0 < len(compatibility.strip()) <= MAX_COMPATIBILITY_CHARS
    ):
        yield Finding(
            f"compatibility is not text of 1 to {MAX_COMPATIBILITY_CHARS} characters",
            "Shorten it, or leave the field out.",
        )
    metadata = fields.get("metadata", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        yield Finding("metadata is not a mapping of text to text", "Write one `key: value` a line.")
    for field in fields:
        if field not in FIELDS:
            yield Finding(
                f"{fold(field)[:MAX_NAME_CHARS]!r} is not a field of a skill",
                f"Move it under `metadata:`; the fields are {', '.join(FIELDS)}.",
            )


def _check_name(name: object, folder: str) -> Iterator[Finding]:
    if not isinstance(name, str) or not name.strip():
        yield Finding("name is missing", f"Add `name: {fold(folder)[:MAX_NAME_CHARS]}`.")
        return
    # As in the reference validator: some file systems decompose folder names.
    name, folder = unicodedata.normalize("NFKC", name), unicodedata.normalize("NFKC", folder)
    shown = fold(name)[:MAX_NAME_CHARS]
    if len(name) > MAX_NAME_CHARS:
        yield Finding(f"name has {len(name):,} characters (limit {MAX_NAME_CHARS})", "Shorten it.")
    if name != name.lower() or not all(char.isalnum() or char == "-" for char in name):
        yield Finding(f"name {shown!r} is not lower-case letters, digits and hyphens", "Rename the skill.")
    if name.startswith("-") or name.endswith("-") or "--" in name:
        yield Finding(
            f"name {shown!r} starts or ends with a hyphen, or has two in a row", "Use single hyphens inside."
        )
    if name != folder:
        yield Finding(
            f"name {shown!r} differs from the folder name {fold(folder)[:MAX_NAME_CHARS]!r}",
            "Make the two equal.",
        )


def check_description(description: object) -> Iterator[Finding]:
    """Yield every rule that a description breaks."""
    if description is None:
        yield Finding("description is missing", "Say what the skill does and when to use it.", fatal=True)
    elif not isinstance(description, str):
        yield Finding("description is not text", "Write it as one line of text.", fatal=True)
    elif not fold(description):
        yield Finding("description is empty", "Say what the skill does and when to use it.", fatal=True)
    elif len(description.strip()) > MAX_DESCRIPTION_CHARS:
        yield Finding(
            f"description has {len(description.strip()):,} characters (limit {MAX_DESCRIPTION_CHARS:,})",
            "Shorten it; details belong in the body.",
        )


def _yaml_reason(error: yaml.YAMLError | RecursionError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        # The mark counts from 0 and without the opening `---`.
        return f"{error.problem}, line {error.problem_mark.line + 2}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return fold(str(error))
