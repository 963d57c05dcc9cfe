"""Extracts the text of a fetched PDF file."""

from __future__ import annotations

import io
import logging

from skills.web._fetch import Page

__all__ = ["pdf_text"]


def pdf_text(page: Page) -> tuple[str, str, str]:
    """Return title, Markdown with a heading for each page, and plain text.

    Raises:
        ValueError: the file is damaged, has no text, or needs a password.
    """
    import pypdf

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        pdf = pypdf.PdfReader(io.BytesIO(page.content))
        if pdf.is_encrypted and not pdf.decrypt(""):
            raise ValueError(f"{page.url} is a PDF file that needs a password")
        pages = [each.extract_text().strip() for each in pdf.pages]
        title = (pdf.metadata.title if pdf.metadata else None) or ""
    except (pypdf.errors.PyPdfError, OSError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{page.url} is a PDF file that cannot be read: {error}") from None
    if not any(pages):
        raise ValueError(f"{page.url} is a PDF file of {len(pages)} pages without text: perhaps a scan")
    headed = (f"## Page {number}\n\n{text}" for number, text in enumerate(pages, 1) if text)
    return str(title), "\n\n".join(headed) + "\n", "\n\n".join(filter(None, pages)) + "\n"
