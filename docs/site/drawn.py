"""Pictures of a page's own examples: `{drawn} what is shown` draws what the lines above have drawn.

The examples of a page that stand above the directive are run, in one namespace; the figure of the
last axes they made is saved, on light paper and on dark, and shown as the page is. So no picture
is stored, and none can be out of date.
"""

import contextlib
import doctest
import io
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from hardmax.plotting.style import off_screen


class Drawn(SphinxDirective):
    """Show the figure that the examples above have drawn."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Run the examples above and save the figure."""
        page = Path(self.env.doc2path(self.env.docname))
        stem = f"{self.env.docname.replace('/', '_')}_{self.lineno}"
        folder = Path(self.env.app.outdir) / "_drawn"
        folder.mkdir(exist_ok=True)
        for theme in ("light", "dark"):
            with off_screen(theme), contextlib.redirect_stdout(io.StringIO()):
                figure = last_figure(page.read_text(encoding="utf-8"), self.lineno)
                path = folder / f"{stem}-{theme}.svg"
                figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
        above = "../" * self.env.docname.count("/")
        text = nodes.Text(self.arguments[0])
        alternative = self.arguments[0].replace('"', "")
        html = "".join(
            f'<img class="only-{theme}" src="{above}_drawn/{stem}-{theme}.svg" alt="{alternative}">'
            for theme in ("light", "dark")
        )
        return [nodes.figure("", nodes.raw("", html, format="html"), nodes.caption("", "", text))]


def last_figure(text: str, line: int) -> Any:
    """Run the examples of a page before a line, and return the figure of the axes made last."""
    found: dict[str, Any] = {}
    axes = None
    for example in doctest.DocTestParser().get_examples(text):
        if example.lineno < line and example.exc_msg is None:
            exec(compile(example.source, "<page>", "single"), found)
            axes = found.get("ax", axes)
    if axes is None:
        raise ValueError(f"no example above line {line} makes an `ax`")
    return axes.figure


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("drawn", Drawn)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
