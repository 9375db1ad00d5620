"""The README as a package registry shows it: away from the sources, its links lead to the site.

The address of the site is one line, `Documentation` under `[project.urls]` of `pyproject.toml`.
While there is none, links to files are plain words, so that no page shows a link that is broken.
The build of the package asks here for its long description; `make docs` follows every link of it.
"""

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).parents[2]
PAGES = {
    "docs/README.md": "index.md",
    "docs/references.bib": "papers/references.md",
    "README.md": "index.md",
    "examples/README.md": "gallery/index.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "src/hardmax/__init__.pyi": "reference/index.md",
    "src/hardmax/papers/ledger.py": "papers/right_and_wrong.md",
    "src/hardmax/papers/report.py": "papers/figures.md",
}
"""Files that pages link to, and the page of the site that has their text."""
CARRIED = {
    "docs/images/badges.svg": "images/badges.svg",
    "docs/images/partitions.png": "images/partitions.png",
    "src/hardmax/verify/verify.py": "verify.py",
}
"""Files that the site carries as they are, and where."""
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_site(file: str) -> str:
    """Return where on the site a file of the sources is.

    Examples:
        >>> on_site("docs/install.md"), on_site("CHANGELOG.md")
        ('install.html', 'project/changelog.html')
        >>> on_site("src/hardmax/verify/verify.py")
        'verify.py'
    """
    if file in CARRIED:
        return CARRIED[file]
    page = PurePosixPath(PAGES[file] if file in PAGES else file.removeprefix("docs/"))
    if page.suffix != ".md" or (file not in PAGES and not file.startswith("docs/")):
        raise ValueError(f"the site has no {file}")
    return str(page.with_suffix(".html"))


def absolute(text: str, address: str | None) -> str:
    """Return Markdown whose links to files lead to the site; without its address, plain words.

    Examples:
        >>> text = "![x](docs/images/badges.svg) [a](docs/install.md#sizes) [b](#b)"
        >>> absolute(text, "https://a.org/v1")
        '![x](https://a.org/v1/images/badges.svg) [a](https://a.org/v1/install.html#sizes) [b](#b)'
        >>> absolute(text, None)
        ' a [b](#b)'
    """

    def linked(match: re.Match[str]) -> str:
        mark, words, file, anchor = match.groups()
        if address is None:
            return "" if mark else words
        return f"{mark}[{words}]({address.rstrip('/')}/{on_site(file)}{anchor or ''})"

    return LINK.sub(linked, text)


def readme(project: Mapping[str, Any]) -> str:
    """Return the README as the registry shows it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return absolute(text, project.get("urls", {}).get("Documentation"))


def dynamic_metadata(settings: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
    """Answer what builds the package: its long description."""
    return {"readme": {"text": readme(project), "content-type": "text/markdown"}}
