"""Where lines of a page may break: not beside a formula's bracket, but behind a slash of a path."""

import re
from typing import Any

from sphinx.application import Sphinx

from hardmax.papers.mathematics import prevent_breaks

PATH = re.compile(r'(?<=<span class="pre">)[^<]*\w/\w[^<]*(?=</span>)')


def with_breaks(html: str) -> str:
    """Let paths break behind their slashes, so that tables of files fit on a narrow screen.

    Examples:
        >>> with_breaks('<span class="pre">core/src/</span>')
        '<span class="pre">core/<wbr>src/</span>'
    """
    return PATH.sub(lambda path: re.sub(r"/(?=\w)", "/<wbr>", path[0]), html)


def _set_breaks(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    if "body" in context:
        context["body"] = with_breaks(prevent_breaks(context["body"]))


def setup(app: Sphinx) -> dict[str, bool]:
    """Change each page when it is written."""
    app.connect("html-page-context", _set_breaks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
