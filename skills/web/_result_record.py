"""Base of results that are read by attribute, and by key like a dict."""

from __future__ import annotations

from dataclasses import fields

__all__ = ["Record"]


class Record(dict[str, str]):
    """Base of frozen dataclasses. Each field is also an item of a dict, so json.dumps writes a record."""

    def __post_init__(self) -> None:
        # A subclass is a dataclass; this class has no fields.
        self.update({field.name: getattr(self, field.name) for field in fields(self)})
