"""Skills as a library inside the container: imports, the programs of SKILL.md, and PDF files."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from libs.backends.docker import DockerExecutionBackend
from tests.servers.inside_web import PROXIED, example, serve
from tests.support.sandboxes import IMAGE
from tests.support.skill_texts import blocks

ROOT = Path(__file__).parents[3]
LIBRARIES = sorted(path.parent.name for path in (ROOT / "skills").glob("*/__init__.py"))
NEEDS_MORE = {"browser": "`test_browser.py`"}
"""Libraries whose programs need another image -> where they are run."""

pytestmark = pytest.mark.docker


def python(backend: DockerExecutionBackend, program: str, folder: str = "/workspace") -> str:
    """What the program prints; it has to succeed."""
    done = backend.execute(f"cd {folder} && python -c {shlex.quote(program)}")
    assert done.exit_code == 0, done.output
    return done.output


def read_pdf(backend: DockerExecutionBackend, path: str) -> dict[str, Any]:
    program = (
        "import json, pypdf\n"
        f"pdf = pypdf.PdfReader({path!r})\n"
        "print(json.dumps({'title': pdf.metadata.title, 'pages': [p.extract_text() for p in pdf.pages],"
        " 'images': sum(len(p.images) for p in pdf.pages)}))"
    )
    found: dict[str, Any] = json.loads(python(backend, program))
    return found


def shown(language: str) -> list[Any]:
    runnable = (name for name in LIBRARIES if name not in NEEDS_MORE)
    return [pytest.param(block, id=name) for name in runnable for block in blocks(name, language)]


@pytest.mark.parametrize("program", shown("python"))
def test_program_of_a_skill_prints_its_comments(backend: DockerExecutionBackend, program: str) -> None:
    sales = (ROOT / "workspace" / "data" / "sales.csv").read_bytes()
    backend.upload_files([("/tmp/program.py", program.encode()), ("/workspace/data/sales.csv", sales)])
    online = "from skills.web " in program
    if online:
        serve(backend)
        example(backend)
    done = backend.execute(f"rm -f /workspace/.beads.db; {PROXIED if online else ''} python /tmp/program.py")
    assert done.exit_code == 0, done.output
    # The output stands behind its statement or in the lines below.
    printed = re.findall(r"^(?:print\(.*\)\s+# (?=['\[/])|# )(.*)$", program, re.MULTILINE)
    assert printed
    for line in printed:
        assert line in done.output.splitlines()


@pytest.mark.parametrize("commands", shown("bash"))
def test_command_of_a_skill_makes_its_file(backend: DockerExecutionBackend, commands: str) -> None:
    for command in commands.splitlines():
        done = backend.execute(command)
        assert done.exit_code == 0, done.output
        assert backend.execute(f"file -b {done.output}").output.startswith("PDF document")


@pytest.mark.parametrize("folder", ["/", "/skills/file"])
def test_libraries_are_imported_from_any_folder(backend: DockerExecutionBackend, folder: str) -> None:
    program = "".join(f"import skills.{name}; print(skills.{name}.__file__)\n" for name in LIBRARIES)
    assert python(backend, program, folder).splitlines() == [
        f"/skills/{name}/__init__.py" for name in LIBRARIES
    ]


def test_workspace_folder_hides_no_skill(backend: DockerExecutionBackend) -> None:
    backend.execute("mkdir -p /workspace/skills/file && echo 'evil = 1' > /workspace/skills/file/__init__.py")
    assert python(backend, "import skills.file as s; print(s.__file__)") == "/skills/file/__init__.py\n"
    assert backend.execute("echo x | generate-pdf shadowed").output == "/results/shadowed.pdf\n"
    backend.execute("rm -r /workspace/skills")


def test_root_folder_is_not_importable(backend: DockerExecutionBackend) -> None:
    for folder in ("results", "workspace"):
        done = backend.execute(f"cd /usr && python -c 'import {folder}'")
        assert f"No module named '{folder}'" in done.output


@pytest.fixture
def with_more(tmp_path: Path) -> Iterator[tuple[DockerExecutionBackend, Path]]:
    """A sandbox with two folders of skills, the second a team's."""
    for name in ("skills", "team"):
        (tmp_path / name / "greet").mkdir(parents=True)
        (tmp_path / name / "greet" / "__init__.py").write_text(f"source = {name!r}\n")
    (tmp_path / "team" / "extra").mkdir()
    (tmp_path / "team" / "extra" / "__init__.py").write_text("source = 'team'\n")
    with DockerExecutionBackend(
        tmp_path / "workspace",
        skills_dir=tmp_path / "skills",
        extra_skills=[tmp_path / "team"],
        name="test-libraries",
        image=IMAGE,
    ) as backend:
        yield backend, tmp_path


def test_skills_of_other_folders_and_new_skills_are_imported(
    with_more: tuple[DockerExecutionBackend, Path],
) -> None:
    backend, root = with_more
    program = "from skills.greet import source as a; from skills.extra import source as b; print(a, b)"
    assert python(backend, program) == "skills team\n"
    (root / "skills" / "new").mkdir()
    (root / "skills" / "new" / "__init__.py").write_text("def f() -> int:\n    return 42\n")
    assert python(backend, "from skills.new import f; print(f())") == "42\n"


MARKDOWN = """\
# Heading & more

Some **bold**, *italic*, ~~gone~~ and `a < b` with <b>HTML</b> and a [link](https://example.org/?a=1&b="2").

- one
  - nested
10. ten

> quoted

| name | value |
|:--|--:|
| **Ω** | Ж€ |

```python
if a < b: print("&amp;")
```

![plot](plot.png)

---
last
"""


@pytest.fixture
def plot(backend: DockerExecutionBackend) -> None:
    python(backend, "from PIL import Image; Image.new('RGB', (2000, 9000), 'red').save('/results/plot.png')")


def generate(backend: DockerExecutionBackend, markdown: str, *arguments: str) -> str:
    backend.upload_files([("/workspace/in.md", markdown.encode())])
    done = backend.execute(f"generate-pdf {shlex.join(arguments)} < /workspace/in.md")
    assert done.exit_code == 0, done.output
    return done.output.strip()


@pytest.mark.thorough
@pytest.mark.usefixtures("plot")
def test_markdown_elements_are_in_the_pdf(backend: DockerExecutionBackend) -> None:
    path = generate(backend, MARKDOWN, "all", "A $(touch /tmp/hacked) <title>")
    assert path == "/results/all.pdf"
    pdf = read_pdf(backend, path)
    text = "\n".join(pdf["pages"])
    assert pdf["title"] == "A $(touch /tmp/hacked) <title>"
    assert pdf["images"] == 1
    for shown in (
        *(
            "A $(touch /tmp/hacked) <title>",
            "Heading & more",
            "bold, italic, gone and a < b with <b>HTML</b>",
        ),
        *("one", "nested", "10.", "quoted", "name", "value", "Ω", "Ж€", 'if a < b: print("&amp;")', "last"),
    ):
        assert shown in text
    assert "**" not in text
    assert backend.execute("ls /tmp/hacked").exit_code != 0
    assert backend.execute("grep -aq DejaVuSans-BoldOblique /results/all.pdf").exit_code == 1
    assert backend.execute("grep -aq DejaVuSans-Bold /results/all.pdf").exit_code == 0


@pytest.mark.thorough
def test_long_elements_continue_on_numbered_pages(backend: DockerExecutionBackend) -> None:
    markdown = (
        f"{'word ' * 3000}\n\n```\n{'x' * 2000}\n{'line' + chr(10)}```\n\n| a | b |\n|--|--|\n"
        f"| {'cell ' * 3000}| {'y' * 300} |\n\n{'z' * 500}\n"
    )
    pages = read_pdf(backend, generate(backend, markdown, "long"))["pages"]
    assert len(pages) > 8
    assert [page.split()[0] == str(number) or page.split()[-1] == str(number)
            for number, page in enumerate(pages, 1)] == [True] * len(pages)  # fmt: skip
    whole = "".join(pages)
    assert whole.count("word") == whole.count("cell") == 3000
    for letter, count in (("x", 2000), ("y", 300), ("z", 500)):
        assert whole.count(letter) == count


def test_title_of_a_pdf(backend: DockerExecutionBackend) -> None:
    assert read_pdf(backend, generate(backend, "text\n\n## The *second*", "a"))["title"] == "The second"
    assert read_pdf(backend, generate(backend, "text", "sub/folder/b.pdf"))["title"] == "b"
    assert backend.execute("ls /results/sub/folder").output == "b.pdf\n"


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "out/x", ""])
def test_pdf_stays_in_the_results(backend: DockerExecutionBackend, name: str) -> None:
    backend.execute("ln -sfn /workspace/data /results/out; ls -R /workspace > /tmp/before")
    done = backend.execute(f"echo x | generate-pdf {shlex.quote(name)}")
    assert done.exit_code == 1
    assert re.match(r"error: (the name .* leads out of /results|no name for a file)", done.output)
    assert backend.execute("ls -R /workspace | diff /tmp/before -; ls /tmp/x*").output.startswith("ls: ")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("markdown", "message"),
    [
        (b"", "there is no text"),
        (b"caf\xe9", "'utf-8' codec can't decode"),
        (b"![](/etc/passwd)", "the image /etc/passwd is not a file in /workspace"),
        (b"![](../../etc/passwd)", "is not a file in /workspace"),
        (b"![](https://example.org/a.png)", "is not a file in /workspace"),
        (b"![](/workspace/in.md)", "cannot be read as one of PNG"),
        (b"|a" * 50 + b"|\n" + b"|-" * 50 + b"|\n", "a table has 50 columns, and at most 39 fit on the page"),
    ],
)
def test_failed_pdf_leaves_no_file(backend: DockerExecutionBackend, markdown: bytes, message: str) -> None:
    backend.upload_files([("/workspace/in.md", markdown)])
    done = backend.execute("generate-pdf never < /workspace/in.md")
    assert (done.exit_code, done.output.startswith("error: ")) == (1, True)
    assert message in done.output
    assert backend.execute("ls /results/never.pdf").exit_code != 0
