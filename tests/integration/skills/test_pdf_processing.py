"""pdf-processing inside the container: each command of its texts, forms, passwords and broken files."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from libs.backends.docker import DockerExecutionBackend
from tests.support.skill_texts import commands, refusals

ROOT = Path(__file__).parents[3]
SCRIPTS = "/skills/pdf-processing/scripts"

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module", autouse=True)
def files(backend: DockerExecutionBackend) -> None:
    """PDF files of every kind in /data."""
    program = (ROOT / "tests/support/pdf_cases.py").read_bytes()
    (result,) = backend.upload_files([("/workspace/make.py", program)])
    assert result.error is None
    done = backend.execute("python /workspace/make.py")
    assert done.exit_code == 0, done.output


def answer(backend: DockerExecutionBackend, command: str) -> dict[str, Any]:
    response = backend.execute(command)
    assert response.exit_code == 0, response.output
    parsed: dict[str, Any] = json.loads(response.output, parse_constant=pytest.fail)
    return parsed


def run(backend: DockerExecutionBackend, script: str, *arguments: str) -> dict[str, Any]:
    return answer(backend, f"python {SCRIPTS}/{script}.py {shlex.join(arguments)}")


def refusal(backend: DockerExecutionBackend, script: str, *arguments: str) -> str:
    # stdout is thrown away: what is left is stderr.
    response = backend.execute(f"python {SCRIPTS}/{script}.py {shlex.join(arguments)} 2>&1 >/dev/null")
    assert response.exit_code == 1, response.output
    assert "Traceback" not in response.output
    return response.output


def values(backend: DockerExecutionBackend, path: str) -> dict[str, Any]:
    return {field["name"]: field["value"] for field in run(backend, "extract_forms", path)["fields"]}


@pytest.mark.parametrize("command", commands("pdf-processing"))
def test_every_command_of_the_skill_works(backend: DockerExecutionBackend, command: str) -> None:
    result = answer(backend, command)
    assert result["file"].startswith(("/data/", "/results/"))
    assert "warnings" not in result
    if "out" in result:
        assert backend.execute(f"test -s {result['out']}").exit_code == 0


def test_info_has_metadata_and_page_sizes(backend: DockerExecutionBackend) -> None:
    info = run(backend, "info", "/data/report.pdf")
    assert (info["pages"], info["encrypted"], info["form_fields"]) == (4, False, 0)
    assert (info["metadata"]["Title"], info["metadata"]["Author"]) == ("Quarterly ä", "Ada")
    (size,) = info["sizes_in_points"]
    assert size == {"pages": "1-4", "width": 595.3, "height": 841.9, "rotation": 0}
    assert [size["pages"] for size in run(backend, "info", "/data/scan.pdf")["sizes_in_points"]] == ["1", "2"]
    assert run(backend, "info", "/data/form.pdf")["form_fields"] == 7


def test_text_of_selected_pages(backend: DockerExecutionBackend) -> None:
    result = run(backend, "text", "/data/report.pdf", "--pages", "4,1-2")
    assert [page["page"] for page in result["text"]] == [4, 1, 2]
    assert result["text"][0]["text"].strip() == "Fourth page."
    assert "First page" in result["text"][1]["text"]
    assert (result["cut"], result["pages_left_out"], result["without_text"]) == (False, 0, [])
    assert run(backend, "text", "/data/scan.pdf")["without_text"] == [1]
    (page,) = run(backend, "text", "/data/report.pdf", "--pages", "3", "--layout")["text"]
    assert re.search(r"left {2,}right", page["text"])


def test_long_text_is_cut_and_reported(backend: DockerExecutionBackend) -> None:
    result = run(backend, "text", "/data/many.pdf", "--limit", "100")
    assert sum(len(page["text"]) for page in result["text"]) == 100
    assert (result["cut"], result["pages_left_out"]) == (True, 1500 - len(result["text"]))


@pytest.mark.thorough
def test_many_pages_stay_within_300_mb(backend: DockerExecutionBackend) -> None:
    measured = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)"
    )
    for script, options in (("text", "--out /tmp/many.txt"), ("tables", "--pages 1-200")):
        command = f"python {SCRIPTS}/{script}.py /data/many.pdf {options}"
        response = backend.execute(f'python -c "{measured}" {command} 2>&1 >/tmp/answer.json')
        assert response.exit_code == 0, response.output
        assert int(response.output) < 300_000  # kilobytes
    found = backend.execute("grep -c '^This is page' /tmp/many.txt; grep -A1 'page 1500 -' /tmp/many.txt")
    assert found.output.startswith("1500\n--- page 1500 ---\nThis is page 1500.")


def test_tables_as_json_and_as_csv(backend: DockerExecutionBackend) -> None:
    result = run(backend, "tables", "/data/report.pdf", "--out", "/results/tables")
    first, second, third = result["tables"]
    assert first["cells"] == [["region", "revenue"], ["North", "1,200"], ["South", "950"]]
    assert (first["page"], first["table"], first["rows"], first["columns"]) == (1, 1, 3, 2)
    assert second["cells"][1] == ["1", "", 'x "y", z']
    assert (third["page"], third["table"]) == (3, 1)
    assert first["out"] == "/results/tables/report-page1-table1.csv"
    assert backend.execute(f"cat {second['out']}").output == 'a,b,c\r\n1,,"x ""y"", z"\r\n'
    limited = run(backend, "tables", "/data/report.pdf", "--pages", "1", "--limit", "1")["tables"][0]
    assert (limited["rows"], limited["cells"]) == (3, [["region", "revenue"]])
    assert run(backend, "tables", "/data/scan.pdf", "--pages", "2")["tables"] == []


def test_fields_list_kinds_and_choices(backend: DockerExecutionBackend) -> None:
    fields = {field["name"]: field for field in run(backend, "extract_forms", "/data/form.pdf")["fields"]}
    assert fields["name"] == {"name": "name", "kind": "text", "value": "old", "max_length": 30}
    assert fields["locked"]["read_only"] is True
    agree = {"name": "agree", "kind": "check box", "value": "Off", "states": ["Yes", "Off"]}
    assert fields["agree"] == agree | {"required": True}
    assert fields["news"]["value"] == "Yes"
    assert (fields["size"]["kind"], fields["size"]["value"]) == ("radio", "medium")
    assert fields["size"]["states"] == ["small", "medium", "large", "Off"]
    assert (fields["colour"]["kind"], fields["colour"]["options"]) == ("choice", ["Rot", "Blau"])
    assert fields["note"]["kind"] == "text"


def test_filled_fields_are_read_back_and_drawn(backend: DockerExecutionBackend) -> None:
    asked = {
        "name": "Ada L. €",
        "agree": "on",
        "news": "Off",
        "size": "large",
        "colour": "Blau",
        "note": "1\n2",
    }
    pairs = [part for name, value in asked.items() for part in ("--set", f"{name}={value}")]
    result = run(backend, "fill", "/data/form.pdf", "/results/new/filled.pdf", *pairs)
    expected = asked | {"agree": "Yes", "colour": "blue"}
    assert (result["filled"], result["left"]) == (expected, ["locked"])
    assert values(backend, "/results/new/filled.pdf") == expected | {"locked": "kept"}
    assert values(backend, "/data/form.pdf")["name"] == "old"
    # Programs that only draw pages use the appearance of a field, not its value.
    drawn = (
        "from pypdf import PdfReader\n"
        "for page in PdfReader('/results/new/filled.pdf').pages:\n"
        "    for note in page['/Annots']:\n"
        "        note = note.get_object()\n"
        "        parent = note.get('/Parent', note).get_object()\n"
        "        data = note['/AP']['/N'].get_object()\n"
        "        print(note.get('/T') or parent['/T'], note.get('/AS'),"
        " b'Ada L' in data.get_data() if '/AS' not in note else '')\n"
    )
    backend.upload_files([("/workspace/drawn.py", drawn.encode())])
    lines = backend.execute("python /workspace/drawn.py").output.splitlines()
    assert "name None True" in lines
    assert "agree /Yes " in lines
    assert "news /Off " in lines
    assert [line for line in lines if line.startswith("size")] == ["size /Off ", "size /Off ", "size /large "]


@pytest.mark.thorough
def test_fields_of_groups_have_full_names(backend: DockerExecutionBackend) -> None:
    assert {"name", "billing.name", "shipping.name"} <= values(backend, "/data/groups.pdf").keys()
    run(backend, "fill", "/data/groups.pdf", "/tmp/g.pdf", "--set", "billing.name=B", "--set", "name=N")
    found = values(backend, "/tmp/g.pdf")
    assert (found["name"], found["billing.name"], found["shipping.name"]) == ("N", "B", "shipping")


def test_values_of_a_file_and_of_options(backend: DockerExecutionBackend) -> None:
    options = ["--values", "/data/values.json", "--set", "name=Set"]
    run(backend, "fill", "/data/form.pdf", "/tmp/f.pdf", *options)
    found = values(backend, "/tmp/f.pdf")
    assert (found["name"], found["agree"], found["note"]) == ("Set", "Yes", "two\nlines")


@pytest.mark.thorough
def test_encrypted_files_need_their_password(backend: DockerExecutionBackend) -> None:
    for path in ("/data/secret.pdf", "/data/rc4.pdf"):
        assert refusal(backend, "text", path) == (
            f"error: {path} is encrypted: give its password with --password\n"
        )
        assert "the password is wrong" in refusal(backend, "extract_forms", path, "--password", "no")
        assert run(backend, "text", path, "--password", "open-sesame")["pages"] == 4
        assert len(run(backend, "tables", path, "--password", "owner")["tables"]) == 3


def test_wrong_use_exits_with_1_and_writes_nothing(backend: DockerExecutionBackend) -> None:
    form = ("/data/form.pdf", "/tmp/never.pdf")
    cases: tuple[tuple[str, list[str], str], ...] = (
        ("text", [], "usage:"),
        ("text", ["/data/none.pdf"], "error: [Errno 2] No such file or directory: '/data/none.pdf'\n"),
        ("text", ["/data/text.pdf"], "is not a PDF: it begins with b'just text'"),
        ("text", ["/data/half.pdf"], "error: the PDF is damaged"),
        ("info", ["/data/noise.pdf"], "error: the PDF is damaged"),
        ("text", ["/data/report.pdf", "--pages=5"], "no page 5; the file has 4"),
        ("tables", ["/data/report.pdf", "--pages=3-2"], "no page 3-2"),
        ("text", ["/data/report.pdf", "--pages=one"], "takes numbers and ranges"),
        ("fill", [*form, "--set", "nope=1"], "no field 'nope'; there are: name, locked, agree, news, size,"),
        ("fill", [*form, "--set", "size=huge"], "cannot be 'huge'; its states: small, medium, large, Off"),
        ("fill", [*form, "--set", "colour=green"], "cannot be 'green'; its options: Rot, Blau"),
        ("fill", [*form, "--set", "locked=x"], "is read-only"),
        ("fill", [*form, "--set", f"name={'x' * 31}"], "takes 30 characters, not 31"),
        ("fill", [*form], "nothing to fill"),
        ("fill", [*form, "--values", "/data/list.json"], "is not a JSON object"),
    )
    calls = [(f"{SCRIPTS}/{script}.py", *arguments) for script, arguments, _ in cases]
    for said, (*_, message) in zip(refusals(backend, calls), cases, strict=True):
        assert message in said
    assert backend.execute("ls /tmp/never.pdf").exit_code != 0


def test_input_file_is_never_written(backend: DockerExecutionBackend) -> None:
    said = refusal(backend, "fill", "/data/form.pdf", "/workspace/data/form.pdf", "--set", "name=x")
    assert "another file" in said
    assert "the file that is read" in refusal(backend, "text", "/data/form.pdf", "--out", "/data/form.pdf")
    assert "there are: none" in refusal(
        backend, "fill", "/data/report.pdf", "/tmp/never.pdf", "--set", "name=x"
    )
