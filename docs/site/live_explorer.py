"""The explorer inside the site: its one file is written beside the pages, and shown on some."""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.logging import getLogger

import hardmax
from hardmax.explorer.joined_page import read_engine

PAGE = "explorer/index.html"


class Live(SphinxDirective):
    """Show the page of the explorer within this one."""

    def run(self) -> list[nodes.Node]:
        """Return the frame, and a link to the page by itself."""
        above = "../" * self.env.docname.count("/")
        html = (
            f'<iframe class="live" src="{above}{PAGE}" title="the explorer, live"></iframe>'
            f'<p class="live"><a href="{above}{PAGE}">Open the explorer by itself</a></p>'
        )
        return [nodes.raw("", html, format="html")]


def _write(app: Sphinx) -> None:
    if not read_engine():
        getLogger(__name__).warning("the explorer has no engine: `make explorer` builds it")
    path = Path(app.outdir) / PAGE
    path.parent.mkdir(parents=True, exist_ok=True)
    hardmax.explore().save(path)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive and write the page."""
    app.add_directive("explorer", Live)
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
