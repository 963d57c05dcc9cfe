"""Make PDF files from Markdown.

    from skills.pdf import generate

    path = generate("# Sales\\n\\n| region | revenue |\\n|---|---:|\\n| North | 12 |\\n", "sales")
    print(path)   # /results/sales.pdf

In a shell: `generate-pdf NAME [TITLE] < report.md`.
"""

from __future__ import annotations

__all__ = ["generate"]


def generate(markdown: str, name: str, title: str | None = None) -> str:
    """Make `/results/<name>.pdf` of CommonMark with tables, and return its path. A file there is replaced.

    Headings, paragraphs, bold, italic, strike-through, code, links, lists, quotations, tables, code blocks
    and images; A4, pages numbered. An image is a PNG, JPEG, GIF or BMP file in /workspace, its path
    absolute or relative to /results or /workspace. Letters are Latin, Greek, Cyrillic and symbols; others
    are boxes. HTML is shown as text. `title` is printed above the text and is the title that a reader shows.

    Example:
        generate("## Result\\n\\n![](plot.png)\\n\\nRevenue grew by **8 %**.", "report", title="March")

    Raises:
        ValueError: `name` leads out of /results or is not a file name, there is no text, an image is not in
            /workspace or cannot be read, or a table has more than 39 columns.
    """
    # reportlab takes a quarter of a second to import.
    from skills.file._results import as_shown, results_file
    from skills.pdf._document import render

    file = results_file(name, ".pdf")
    if not markdown.strip():
        raise ValueError("there is no text: the Markdown is empty")
    content = render(markdown, title=title, name=file.stem)
    file.write_bytes(content)
    return as_shown(file)
