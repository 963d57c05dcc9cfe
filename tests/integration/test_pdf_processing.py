"""pdf-processing inside the container: every command of its SKILL.md, forms, passwords and hostile files."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from libs.backends.docker import DockerExecutionBackend

ROOT = Path(__file__).parents[2]
SKILL = ROOT / "skills" / "pdf-processing"
SCRIPTS = "/skills/pdf-processing/scripts"

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module", autouse=True)
def files(backend: DockerExecutionBackend) -> None:
    """PDF files of every kind in /data."""
    program = Path(__file__).with_name("pdf_cases.py").read_bytes()
    (result,) = backend.upload_files([("/workspace/make.py", program)])
    assert result.error is None
    done = backend.execute("python /workspace/make.py")
    assert done.exit_code == 0, done.output


def commands() -> list[str]:
    text = (SKILL / "SKILL.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


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
    return {field["name"]: field["value"] for field in run(backend, "fields", path)["fields"]}


@pytest.mark.parametrize("command", commands())
def test_every_command_of_the_skill_works(backend: DockerExecutionBackend, command: str) -> None:
    result = answer(backend, command)
    assert result["file"].startswith("/data/")
    assert "warnings" not in result
    if "out" in result:
        assert backend.execute(f"test -s {result['out']}").exit_code == 0


def test_every_script_explains_itself_and_is_named_in_the_skill(backend: DockerExecutionBackend) -> None:
    text = (SKILL / "SKILL.md").read_text(encoding="utf-8")
    scripts = {path.stem for path in (SKILL / "scripts").glob("*.py")} - {"command", "form"}
    assert scripts == {"info", "text", "tables", "fields", "fill"}
    for script in scripts:
        assert f"{SCRIPTS}/{script}.py" in text
        response = backend.execute(f"python {SCRIPTS}/{script}.py --help")
        assert (response.exit_code, "--password" in response.output) == (0, True)


def test_info_has_metadata_and_page_sizes(backend: DockerExecutionBackend) -> None:
    info = run(backend, "info", "/data/report.pdf")
    assert (info["pages"], info["encrypted"], info["form_fields"]) == (4, False, 0)
    assert (info["metadata"]["Title"], info["metadata"]["Author"]) == ("Quarterly ä", "Ada")
    (size,) = info["sizes_in_points"]
    assert size == {"pages": "1-4", "width": 595.3, "height": 841.9, "rotation": 0}
    assert [size["pages"] for size in run(backend, "info", "/data/scan.pdf")["sizes_in_points"]] == ["1", "2"]
    assert run(backend, "info", "/data/form.pdf")["form_fields"] == 7


def test_text_of_the_pages_asked_for(backend: DockerExecutionBackend) -> None:
    result = run(backend, "text", "/data/report.pdf", "--pages", "4,1-2")
    assert [page["page"] for page in result["text"]] == [4, 1, 2]
    assert result["text"][0]["text"].strip() == "Fourth page."
    assert "First page" in result["text"][1]["text"]
    assert (result["cut"], result["pages_left_out"], result["without_text"]) == (False, 0, [])
    assert run(backend, "text", "/data/scan.pdf")["without_text"] == [1]


def test_layout_keeps_columns_apart(backend: DockerExecutionBackend) -> None:
    (page,) = run(backend, "text", "/data/report.pdf", "--pages", "3", "--layout")["text"]
    assert re.search(r"left {2,}right", page["text"])


def test_text_over_the_limit_is_cut_and_said_so(backend: DockerExecutionBackend) -> None:
    result = run(backend, "text", "/data/many.pdf", "--limit", "100")
    assert sum(len(page["text"]) for page in result["text"]) == 100
    assert (result["cut"], result["pages_left_out"]) == (True, 1500 - len(result["text"]))


def test_many_pages_are_written_in_bounded_memory(backend: DockerExecutionBackend) -> None:
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


def test_fields_say_what_they_may_hold(backend: DockerExecutionBackend) -> None:
    fields = {field["name"]: field for field in run(backend, "fields", "/data/form.pdf")["fields"]}
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
    # What a program that draws pages, and knows nothing of forms' values, is shown.
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


def test_values_of_a_file_and_set_over_it(backend: DockerExecutionBackend) -> None:
    options = ["--values", "/data/values.json", "--set", "name=Set"]
    run(backend, "fill", "/data/form.pdf", "/tmp/f.pdf", *options)
    found = values(backend, "/tmp/f.pdf")
    assert (found["name"], found["agree"], found["news"], found["note"]) == (
        *("Set", "Yes", "Off"),
        "two\nlines",
    )


def test_fields_of_one_name_in_several_groups_are_told_apart(backend: DockerExecutionBackend) -> None:
    assert {"name", "billing.name", "shipping.name"} <= values(backend, "/data/groups.pdf").keys()
    run(backend, "fill", "/data/groups.pdf", "/tmp/g.pdf", "--set", "billing.name=B", "--set", "name=N")
    found = values(backend, "/tmp/g.pdf")
    assert (found["name"], found["billing.name"], found["shipping.name"]) == ("N", "B", "shipping")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "nope=1"], "no field 'nope'; there are: name, locked, agree, news, size, colour, note"),
        (["--set", "size=huge"], "cannot be 'huge'; its states: small, medium, large, Off"),
        (["--set", "agree=maybe"], "cannot be 'maybe'; its states: Yes, Off"),
        (["--set", "colour=green"], "cannot be 'green'; its options: Rot, Blau"),
        (["--set", "locked=x"], "is read-only"),
        (["--set", f"name={'x' * 31}"], "takes 30 characters, not 31"),
        (["--set", "name"], "--set needs NAME=VALUE"),
        ([], "nothing to fill"),
        (["--values", "/data/list.json"], "is not a JSON object"),
        (["--values", "/data/text.pdf"], "is not JSON"),
        (["--values", "/data/none.json"], "No such file"),
    ],
)
def test_what_a_field_cannot_hold_is_refused(
    backend: DockerExecutionBackend, arguments: list[str], message: str
) -> None:
    assert message in refusal(backend, "fill", "/data/form.pdf", "/tmp/never.pdf", *arguments)
    assert backend.execute("ls /tmp/never.pdf").exit_code != 0


def test_the_file_that_is_read_is_never_written(backend: DockerExecutionBackend) -> None:
    said = refusal(backend, "fill", "/data/form.pdf", "/workspace/data/form.pdf", "--set", "name=x")
    assert "another file" in said
    assert "the file that is read" in refusal(backend, "text", "/data/form.pdf", "--out", "/data/form.pdf")
    assert "there are: none" in refusal(
        backend, "fill", "/data/report.pdf", "/tmp/never.pdf", "--set", "name=x"
    )


@pytest.mark.parametrize("name", ["secret", "rc4"])
@pytest.mark.parametrize("script", ["info", "text", "tables", "fields"])
def test_encrypted_files_need_their_password(backend: DockerExecutionBackend, script: str, name: str) -> None:
    path = f"/data/{name}.pdf"
    assert refusal(backend, script, path) == (
        f"error: {path} is encrypted: give its password with --password\n"
    )
    assert refusal(backend, script, path, "--password", "no") == (
        f"error: {path} is encrypted: the password is wrong\n"
    )
    for password in ("open-sesame", "owner"):
        assert run(backend, script, path, "--password", password)["pages"] == 4


def test_what_is_encrypted_is_read_whole(backend: DockerExecutionBackend) -> None:
    options = ["/data/secret.pdf", "--password", "open-sesame"]
    assert "First page" in run(backend, "text", *options)["text"][0]["text"]
    assert len(run(backend, "tables", *options)["tables"]) == 3
    assert run(backend, "info", *options)["encrypted"] is True


def test_a_file_that_opens_without_a_password_is_filled_without_one(backend: DockerExecutionBackend) -> None:
    assert run(backend, "info", "/data/restricted.pdf")["encrypted"] is True
    run(backend, "fill", "/data/restricted.pdf", "/tmp/r.pdf", "--set", "agree=Yes")
    assert values(backend, "/tmp/r.pdf")["agree"] == "Yes"
    assert run(backend, "info", "/tmp/r.pdf")["encrypted"] is False


@pytest.mark.parametrize("script", ["info", "text", "tables", "fields", "fill"])
def test_what_is_no_pdf_is_named(backend: DockerExecutionBackend, script: str) -> None:
    rest = ["/tmp/never.pdf", "--set", "a=b"] if script == "fill" else []
    assert "usage:" in refusal(backend, script)
    assert "usage:" in refusal(backend, script, "/data/form.pdf", *rest, "--no-such-option")
    assert refusal(backend, script, "/data/none.pdf", *rest) == "error: no such file: /data/none.pdf\n"
    assert refusal(backend, script, "/data", *rest) == "error: not a file: /data\n"
    assert refusal(backend, script, "/data/empty.pdf", *rest) == "error: /data/empty.pdf is empty\n"
    assert "is not a PDF: it begins with b'just text'" in refusal(backend, script, "/data/text.pdf", *rest)
    for broken in ("half", "noise"):
        assert "error: the PDF is damaged" in refusal(backend, script, f"/data/{broken}.pdf", *rest)


@pytest.mark.parametrize(
    ("pages", "message"),
    [
        ("5", "no page 5; the file has 4"),
        ("2-9", "no page 2-9; the file has 4"),
        ("3-2", "no page 3-2"),
        ("0", "no page 0"),
        ("-2", "takes numbers and ranges"),
        ("one", "takes numbers and ranges"),
        ("1,,2", "takes numbers and ranges"),
        ("", "takes numbers and ranges"),
    ],
)
def test_pages_that_there_are_not(backend: DockerExecutionBackend, pages: str, message: str) -> None:
    for script in ("text", "tables"):
        assert message in refusal(backend, script, "/data/report.pdf", f"--pages={pages}")
