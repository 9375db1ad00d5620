"""Join the page into a single HTML file with its modules, style, engine and initial models."""

import base64
import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from hardmax.constructions.families.shattering import shattering_transformer
from hardmax.explorer.heads_at_work import bundled_heads
from hardmax.explorer.plain_data import model_to_data

_MODULES = (
    "exact", "models", "engine", "counting", "checker", "certificates", "colours", "drawings",
    "pens", "raster", "surface", "controls", "diagrams", "curves", "snippets", "weights", "worker",
    "server", "attention", "cells", "head", "heads", "regions", "real", "tour", "app",
)  # fmt: skip
"""The modules of the page, each after the modules that it imports."""
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


def build_page(
    start: dict[str, Any] | None = None,
    server: str = "",
    *,
    models: Sequence[dict[str, Any]] = (),
    offers: Sequence[str] = (),
) -> str:
    """Return the page as a single self-contained HTML file, for any address or a local disk.

    Args:
        start: The initial state, as the page itself saves it. Missing fields have their defaults.
        server: The token for the server that serves the page; empty if there is no server.
        models: Heads of checkpoints at work, as `heads_to_data` returns them.
        offers: The names of the checkpoints that the server can run.

    Examples:
        >>> text = build_page({"view": "regions"})
        >>> "<script src" in text, "import {" in text
        (False, False)
    """
    parts = {
        '<script type="application/json" id="start">': _safe_json(start) if start else "",
        '<script type="application/json" id="presets">': _safe_json(_preset_models()),
        '<script type="application/json" id="heads">': _safe_json(
            {"models": [*models, bundled_heads()], "offers": list(offers)}
        ),
        '<script type="text/plain" id="engine">': base64.b64encode(read_engine()).decode(),
    }
    text = _read("index.html")
    text = text.replace('name="server" content=""', f'name="server" content="{server}"')
    text = text.replace("/*style.css*/", "\n" + _read("style.css"))
    for tag, content in parts.items():
        text = text.replace(tag, tag + content)
    return text.replace("/*program*/", "\n" + join_modules())


def read_engine() -> bytes:
    """Return the engine, a WebAssembly module, or no bytes if it has not been built."""
    engine = files("hardmax.explorer") / "engine.wasm"
    return engine.read_bytes() if engine.is_file() else b""


@cache
def join_modules() -> str:
    """Return all modules as one script, each in its own scope.

    Only two forms are supported: modules import names from modules next to them, and export
    functions, constants and classes at their declarations. The module `palette` is generated here.
    """
    scopes = [f"modules.palette = {{ PALETTE: {_palette_json()} }};"]
    for name in _MODULES:
        text = _read(f"{name}.js")
        text = _IMPORT.sub(r"const {\1} = modules.\2;", text)
        exported = ", ".join(_EXPORT.findall(text))
        text = _EXPORT.sub("", text)
        scopes.append(f"modules.{name} = (() => {{\n{text}\nreturn {{ {exported} }};\n}})();")
    joined = "\n".join(['"use strict";', "{", "const modules = {};", *scopes, "}"])
    assert "</script" not in joined
    return joined


@cache
def _preset_models() -> dict[str, Any]:
    """Return the built-in models of the page as plain data."""
    return {
        f"shattering {depth}": model_to_data(shattering_transformer(2, 2, depth, 4))
        for depth in range(1, 5)
    }


def _palette_json() -> str:
    """Return the palette of all pictures as JSON."""
    text = (files("hardmax._ground") / "palette.json").read_text(encoding="utf-8")
    return json.dumps(json.loads(text), separators=(",", ":"))


def _read(name: str) -> str:
    return (files("hardmax.explorer") / "page" / name).read_text(encoding="utf-8")


def _safe_json(value: Any) -> str:
    """Return JSON that cannot close the HTML element that contains it."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
