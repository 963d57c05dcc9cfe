"""Fill form fields of a PDF and write the result to another file, which is not encrypted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from form import OFF, Field, Flag, appearances, fields_of, form_of
from pdf_command import Parser, open_pdf, run
from pypdf import PdfWriter
from pypdf.generic import NameObject, TextStringObject

from skills.file._script import CommandError

ON_WORDS, OFF_WORDS = ("on", "yes", "true"), ("off", "no", "false")


def checked(field: Field, value: str) -> str:
    """Return the stored form of `value`.

    Raises:
        CommandError: the field does not allow the value; the message lists the allowed values.
    """
    if field.flags & Flag.ReadOnly:
        raise CommandError(f"field {field.name!r} is read-only")
    if field.kind == "text":
        if field.max_length is not None and len(value) > field.max_length:
            raise CommandError(f"field {field.name!r} takes {field.max_length} characters, not {len(value)}")
        return value
    if field.kind in ("check box", "radio"):
        if value in field.states:
            return value
        on = [state for state in field.states if state != OFF]
        if value.lower() in OFF_WORDS:
            return OFF
        if field.kind == "check box" and len(on) == 1 and value.lower() in ON_WORDS:
            return on[0]
        raise CommandError(f"field {field.name!r} cannot be {value!r}; its states: {', '.join(field.states)}")
    if field.kind == "choice":
        if value in field.options:
            return field.options[value]
        if value in field.options.values() or (field.flags & Flag.Combo and field.flags & Flag.Edit):
            return value
        raise CommandError(
            f"field {field.name!r} cannot be {value!r}; its options: {', '.join(field.options)}"
        )
    raise CommandError(f"field {field.name!r} is a {field.kind}, which cannot be filled")


def wanted_values(pairs: list[str], file: str | None) -> dict[str, str]:
    """Return the values of --set and of the JSON file by field name; --set wins."""
    values: dict[str, str] = {}
    if file:
        try:
            values = {name: str(value) for name, value in json.loads(Path(file).read_text("utf-8")).items()}
        except (ValueError, AttributeError) as error:
            raise CommandError(f"{file} is not a JSON object of field names and values: {error}") from error
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise CommandError(f"--set needs NAME=VALUE, not {pair!r}")
        values[name] = value
    if not values:
        raise CommandError("nothing to fill: give --set NAME=VALUE or --values FILE")
    return values


def main() -> dict[str, Any]:
    parser = Parser(__doc__)
    parser.add_argument("out", help="PDF file to write")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="one field; may be repeated"
    )
    parser.add_argument("--values", metavar="FILE", help="JSON object of field names and values")
    args = parser.parse_args()
    values = wanted_values(args.set, args.values)
    if Path(args.out).resolve() == Path(args.file).resolve():
        raise CommandError("the result needs another file: the one that is read stays as it is")

    writer = PdfWriter(clone_from=open_pdf(args.file, args.password))
    fields = {field.name: field for field in fields_of(writer)}
    unknown = [name for name in values if name not in fields]
    if unknown:
        raise CommandError(f"no field {unknown[0]!r}; there are: {', '.join(fields) or 'none'}")
    stored = {name: checked(fields[name], value) for name, value in values.items()}
    fill(writer, fields, stored)
    Path(args.out).parent.mkdir(parents=True, exist_ok=True)
    writer.write(args.out)
    return {"file": args.file, "filled": stored, "left": sorted(fields.keys() - stored), "out": args.out}


def fill(writer: PdfWriter, fields: dict[str, Field], stored: dict[str, str]) -> None:
    """Store the values, and update the appearances for programs that only draw pages."""
    buttons = {name for name in stored if fields[name].states}
    for name in buttons:
        state = NameObject(f"/{stored[name]}")
        fields[name].node[NameObject("/V")] = state
        for widget in fields[name].widgets:
            shown = state if state in appearances(widget) else NameObject(f"/{OFF}")
            widget[NameObject("/AS")] = shown
    written = {name: value for name, value in stored.items() if name not in buttons}
    if written:
        # pypdf matches fields by the last part of a name, so fields that share the part are written again
        # with their own values.
        sharing = {
            name: field.value or ""
            for name, field in fields.items()
            if field.kind in ("text", "choice") and name not in stored and name.rpartition(".")[2] in written
        }
        values = dict(sorted((written | sharing).items(), key=lambda item: item[0].count(".")))
        # Viewers with forms draw the fields again, with letters that the appearances lack.
        writer.update_page_form_field_values(None, values, auto_regenerate=True)
        for name, value in written.items():
            fields[name].node[NameObject("/V")] = TextStringObject(value)
    form_of(writer).pop("/XFA", None)  # the form in XML still has the old values


if __name__ == "__main__":
    run(main)
