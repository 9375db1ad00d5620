"""Pages that are made, not written: the reference, the gallery, the ledger, the references.

They are written to folders of `docs/` that git ignores, before Sphinx looks for pages; a file that
would not change is left alone, so that a second build is quick. The order of all pages in the
sidebar is that of `docs/README.md`, with the made ones in their sections.
"""

import os
import re
import shutil
from pathlib import Path

from api_pages import reference_pages
from bibliography import bibliography_page
from figures_page import figures_pages, write_report
from ledger_page import ledger_page
from notebooks import gallery_pages
from readme_links import CARRIED, PAGES
from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
MADE = {
    "Start": ["gallery/index"],
    "The papers": ["papers/right_and_wrong", "papers/figures", "papers/references"],
    "Reference": ["reference/index"],
    "Project": [
        "project/benchmarks",
        "project/changelog",
        "project/contributing",
        "project/security",
    ],
}
"""Which made pages stand at the end of which section of the sidebar."""


def made_pages() -> dict[str, str | bytes]:
    """Return every made page and picture by its path in `docs/`."""
    pages: dict[str, str | bytes] = {}
    pages |= reference_pages()
    pages |= gallery_pages(ROOT / "examples")
    pages["papers/right_and_wrong.md"] = ledger_page(ROOT / "results" / "audit")
    pages |= figures_pages(ROOT / "results")
    pages["papers/references.md"] = bibliography_page(DOCS / "references.bib")
    for file, page in PAGES.items():
        if page.startswith("project/"):
            text = (ROOT / file).read_text(encoding="utf-8")
            pages[page] = _moved_links(text, (ROOT / file).parent)
    return pages


def sidebar(index: str) -> str:
    r"""Return the tables of contents that the list of pages in `docs/README.md` amounts to.

    Examples:
        >>> print(sidebar("## Start\n\n| [One](one.md) | x |"))
        ```{toctree}
        :hidden:
        :caption: Start
        <BLANKLINE>
        one
        gallery/index
        ```
        <BLANKLINE>
    """
    text = ""
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        caption, _, rest = section.partition("\n")
        written = re.findall(r"^\|\s*\[[^\]]*\]\(([\w]+)\.md\)", rest, re.MULTILINE)
        pages = "\n".join([*written, *MADE.get(caption.strip(), [])])
        text += f"```{{toctree}}\n:hidden:\n:caption: {caption.strip()}\n\n{pages}\n```\n"
    return text


def _moved_links(text: str, folder: Path) -> str:
    """Let relative links of a file outside `docs/` work from a page in `docs/project/`."""

    def moved(match: re.Match[str]) -> str:
        target = match[1]
        if "://" in target or target.startswith("#"):
            return match[0]
        file, hash_, anchor = target.partition("#")
        path = (folder / file).resolve()
        name = str(path.relative_to(ROOT))
        if name in PAGES:
            return f"](../{PAGES[name]}{hash_}{anchor})"
        if path.is_relative_to(DOCS):
            return f"](../{path.relative_to(DOCS)}{hash_}{anchor})"
        return f"](../../{name}{hash_}{anchor})"

    return re.sub(r"\]\(([^)\s]+)\)", moved, text)


def _write(app: Sphinx) -> None:
    pages = made_pages()
    for name, content in pages.items():
        path = DOCS / name
        data = content if isinstance(content, bytes) else content.encode("utf-8")
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
    for folder in {(DOCS / name).parent for name in pages}:
        for path in folder.iterdir():
            if str(path.relative_to(DOCS)) not in pages:
                path.unlink()
    write_report(ROOT / "results", Path(app.outdir) / "papers" / "report.html")
    for file, place in CARRIED.items():
        path = Path(app.outdir) / place
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, path)


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    for file, made in PAGES.items():
        target = os.path.relpath(ROOT / file, DOCS)
        for end in ")", "#":
            source[0] = source[0].replace(f"]({target}{end}", f"]({made}{end}")
    # Doctest wants an empty line before the end of a block, readers do not.
    source[0] = re.sub(r"\n\n```$", "\n```", source[0], flags=re.MULTILINE)
    if page == "index":
        source[0] += "\n" + sidebar((DOCS / "README.md").read_text(encoding="utf-8"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages first of all."""
    app.connect("builder-inited", _write)
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
