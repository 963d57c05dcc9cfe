"""The form of a PDF: its fields and their allowed values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pypdf import PdfReader, PdfWriter
from pypdf.constants import FieldDictionaryAttributes
from pypdf.generic import ArrayObject, DictionaryObject

Flag = FieldDictionaryAttributes.FfBits
OFF = "Off"
_MAX_DEPTH = 50  # of fields in fields; more is a circle


@dataclass(frozen=True)
class Field:
    """A field with a value. `states` are the states of a check box or radio group, with `Off`."""

    name: str
    kind: str
    value: str | list[str] | None
    states: list[str]
    options: dict[str, str]
    """Shown text -> stored value of a choice."""
    max_length: int | None
    flags: int
    node: DictionaryObject
    widgets: list[DictionaryObject]

    def described(self) -> dict[str, Any]:
        """Return the field for JSON, without keys that do not apply."""
        about: dict[str, Any] = {"name": self.name, "kind": self.kind, "value": self.value}
        if self.states:
            about["states"] = self.states
        if self.options:
            about["options"] = list(self.options)
        if self.max_length is not None:
            about["max_length"] = self.max_length
        for name, flag in (("read_only", Flag.ReadOnly), ("required", Flag.Required)):
            if self.flags & flag:
                about[name] = True
        return about


def has_xfa(pdf: PdfReader | PdfWriter) -> bool:
    """Return whether the PDF also has an XFA form, which only programs of Adobe can fill."""
    return "/XFA" in form_of(pdf)


def fields_of(pdf: PdfReader | PdfWriter) -> list[Field]:
    """Return every field with a value, in the order of the form."""
    return list(_walk(form_of(pdf).get("/Fields", ArrayObject()), "", {}, 0))


def form_of(pdf: PdfReader | PdfWriter) -> DictionaryObject:
    """Return the form of the PDF, or an empty one."""
    form = pdf.root_object.get("/AcroForm", DictionaryObject()).get_object()
    return form if isinstance(form, DictionaryObject) else DictionaryObject()


def _walk(nodes: Any, prefix: str, inherited: dict[str, Any], depth: int) -> Iterator[Field]:
    for reference in nodes.get_object() if depth < _MAX_DEPTH else []:
        node = reference.get_object()
        if not isinstance(node, DictionaryObject):
            continue
        name = ".".join(part for part in (prefix, str(node.get("/T", ""))) if part)
        # Fields below inherit these four keys.
        here = inherited | {key: node[key] for key in ("/FT", "/Ff", "/V", "/MaxLen") if key in node}
        kids = [kid.get_object() for kid in node.get("/Kids", ArrayObject()).get_object()]
        if any("/T" in kid for kid in kids):
            yield from _walk(node["/Kids"], name, here, depth + 1)
        elif "/FT" in here:
            yield _field(name, node, here, kids or [node])


def _field(name: str, node: DictionaryObject, here: dict[str, Any], widgets: list[DictionaryObject]) -> Field:
    flags = int(here.get("/Ff", 0))
    kind = _kind(str(here["/FT"]), flags)
    button = kind in ("check box", "radio")
    value = here.get("/V")
    return Field(
        name=name,
        kind=kind,
        value=_text(value).removeprefix("/") if button and value is not None else _value(value),
        states=_states(widgets) if button else [],
        options=_options(node) if kind == "choice" else {},
        max_length=int(here["/MaxLen"]) if kind == "text" and "/MaxLen" in here else None,
        flags=flags,
        node=node,
        widgets=widgets,
    )


def _kind(type_name: str, flags: int) -> str:
    if type_name == "/Btn":
        return "button" if flags & Flag.Pushbutton else "radio" if flags & Flag.Radio else "check box"
    return {"/Tx": "text", "/Ch": "choice", "/Sig": "signature"}.get(type_name, type_name)


def _value(value: Any) -> str | list[str] | None:
    if value is None:
        return None
    if isinstance(value, ArrayObject):
        return [_text(item) for item in value]
    return None if isinstance(value, DictionaryObject) else _text(value)  # a signature is a dictionary


def _text(value: Any) -> str:
    value = value.get_object()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _states(widgets: list[DictionaryObject]) -> list[str]:
    """Return the states with an appearance, and `Off`, which needs none."""
    names = [name.removeprefix("/") for widget in widgets for name in appearances(widget)]
    return [*dict.fromkeys(name for name in names if name != OFF), OFF]


def appearances(widget: DictionaryObject) -> list[str]:
    """Return the names of the appearances of a button, such as `/Yes`."""
    pictures = widget.get("/AP", DictionaryObject()).get_object().get("/N", DictionaryObject()).get_object()
    return [str(name) for name in pictures] if type(pictures) is DictionaryObject else []


def _options(node: DictionaryObject) -> dict[str, str]:
    options: dict[str, str] = {}
    for option in node.get("/Opt", ArrayObject()).get_object():
        item = option.get_object()
        stored, shown = (item[0], item[1]) if isinstance(item, ArrayObject) else (item, item)
        options[_text(shown)] = _text(stored)
    return options
