"""The page as a notebook widget whose state Python can read and set."""

from importlib.resources import files
from typing import Any

from hardmax._ground.extras import load_extra


def explorer_widget(text: str, start: dict[str, Any]) -> Any:
    """Return a widget that shows the page and synchronizes its `state` in both directions.

    Args:
        text: The page as HTML.
        start: The initial state.

    Raises:
        MissingExtraError: If anywidget is not installed.
    """
    anywidget = load_extra("anywidget", extra="notebooks", purpose="Widgets")
    traitlets = load_extra("traitlets", extra="notebooks", purpose="Widgets")

    fields = {
        "_esm": (files("hardmax.explorer") / "page" / "widget.mjs").read_text(encoding="utf-8"),
        "page": traitlets.Unicode().tag(sync=True),
        "state": traitlets.Dict().tag(sync=True),
    }
    return type("Explorer", (anywidget.AnyWidget,), fields)(page=text, state=start)
