"""Mathematics as MathML, which browsers set themselves, with a font made for it: no script.

The font is STIX Two Math (SIL Open Font License), as the package ziamath carries it, cut down to
the characters that formulas can have.
"""

import re
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from docutils import nodes
from fontTools import subset
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger

logger = getLogger(__name__)

CHARACTERS = (
    range(0x20, 0x17F),
    range(0x391, 0x3F6),
    range(0x2010, 0x2060),
    range(0x2070, 0x20A0),
    range(0x20D0, 0x20F0),
    range(0x2100, 0x2300),
    range(0x2300, 0x2320),
    range(0x239B, 0x23B4),
    range(0x25A0, 0x2600),
    range(0x27C0, 0x2800),
    range(0x2980, 0x2AFF),
    range(0x1D400, 0x1D800),
)
"""Letters, Greek, punctuation, accents, letter-like signs, arrows and operators, alphabets."""

OPENING_MINUS = re.compile(
    r"(<mo[^>]*>(?:&#x00028;|&#x0005B;|,|=|&#x0003D;|&#x0002C;)</mo>)<mo>&#x02212;</mo>"
)


def mathml(latex: str, place: Any, display: str) -> str:
    r"""Return a formula as MathML; one that cannot be read is a warning, so a strict build fails.

    Examples:
        >>> mathml("x", None, "inline").startswith("<math")
        True
    """
    try:
        return _spaced(convert(latex, display=display))
    except Exception as error:
        logger.warning("cannot read the formula %s: %r", latex, error, location=place)
        return f"<code>{escape(latex)}</code>"


def _spaced(text: str) -> str:
    """Give bars and signs the space they need: bars none, a minus that opens an expression none."""
    bar = '<mo lspace="0" rspace="0" stretchy="false">&#x0007C;</mo>'
    text = text.replace('<mo stretchy="false">&#x0007C;</mo>', bar)
    return OPENING_MINUS.sub(r'\1<mo form="prefix">&#x02212;</mo>', text)


def visit_inline(translator: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(mathml(node.astext(), node, "inline"))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    """Write a formula on a line of its own."""
    translator.body.append(f'<div class="math">{mathml(node.astext(), node, "block")}</div>')
    raise nodes.SkipNode


def write_font(path: Path) -> None:
    """Write the characters of formulas as a font for the web."""
    package = find_spec("ziamath")
    assert package is not None
    assert package.origin is not None
    whole = Path(package.origin).parent / "fonts" / "STIXTwoMath-Regular.ttf"
    options = subset.Options(flavor="woff", layout_features=["*"])
    font = subset.load_font(str(whole), options)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=[code for block in CHARACTERS for code in block])
    cutter.subset(font)
    path.parent.mkdir(parents=True, exist_ok=True)
    subset.save_font(font, str(path), options)


def _add_font(app: Sphinx) -> None:
    path = Path(app.outdir) / "_static" / "mathematics.woff"
    if app.builder.format == "html" and not path.exists():
        write_font(path)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.config.html_math_renderer = "mathml"
    app.connect("builder-inited", _add_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
