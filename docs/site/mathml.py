"""Mathematics as MathML, which browsers set themselves, with a font made for it: no script.

The font is STIX Two Math (SIL Open Font License), as the package ziamath carries it, cut down to
the characters that formulas can have.
"""

import re
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, fromstring, register_namespace, tostring

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

NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"
OPENING, CLOSING = "([{⟨⌊⌈", ")]}⟩⌋⌉"
RELATIONS = "=≤≥<>≠≈∈→⊂∼"
WHOLE, PART = 24, 30
"""Up to how many characters a formula in a line stays whole, and a part of it between relations."""
GAP = "0.167em"

register_namespace("", NAMESPACE.strip("{}"))


def mathml(latex: str, place: Any, display: str) -> str:
    r"""Return a formula as MathML; one that cannot be read is a warning, so a strict build fails.

    Examples:
        >>> mathml("x", None, "inline").startswith("<math")
        True
    """
    try:
        formula = fromstring(convert(_as_known(latex), display=display))
    except Exception as error:
        logger.warning("cannot read the formula %s: %r", latex, error, location=place)
        return f"<code>{escape(latex)}</code>"
    if "\\" in "".join(formula.itertext()):
        logger.warning("the formula %s has a command that is not known", latex, location=place)
    for row in list(formula.iter()):
        _give_space(row)
    formulas = breakable(formula) if display == "inline" else [formula]
    return "".join(tostring(one, encoding="unicode") for one in formulas)


def _as_known(latex: str) -> str:
    r"""Write what the converter does not know as what it knows.

    Brackets of a stated size grow with what is between them instead.

    Examples:
        >>> print(_as_known(r"\arg \Big(x\Big)^d \big/ \lVert y \rVert"))
        \operatorname{arg} \left(x\right)^d / \left\| y \right\|
    """
    latex = latex.replace(r"\lVert", r"\left\|").replace(r"\rVert", r"\right\|")
    latex = re.sub(r"\\arg\b", r"\\operatorname{arg}", latex)
    latex = re.sub(r"\\[bB]igg?l?(?=[(\[]|\\(?:langle|lfloor|lceil|\{))", r"\\left", latex)
    latex = re.sub(r"\\[bB]igg?r?(?=[)\]]|\\(?:rangle|rfloor|rceil|\}))", r"\\right", latex)
    return re.sub(r"\\[bB]ig(?=/)", "", latex)


def _give_space(row: Element) -> None:
    """Give bars no space, a minus that opens an expression none, and names of functions some."""
    for place, item in reversed(list(enumerate(row))):
        before = row[place - 1] if place else None
        if _is(item, "mo", "|") and item.get("stretchy") == "false":
            item.set("lspace", "0")
            item.set("rspace", "0")
        if _is(item, "mo", "−") and before is not None and _is(before, "mo", "([,="):
            item.set("form", "prefix")
        if item.tag == f"{NAMESPACE}mo" and (item.text or "").isalpha():
            item.set("lspace", "0")
            item.set("rspace", "0")
        if _has_place_for_a_gap(row) and _is_name(item):
            after = row[place + 1] if place + 1 < len(row) else None
            if after is not None and _is_operand(after):
                row.insert(place + 1, Element(f"{NAMESPACE}mspace", {"width": GAP}))
            if before is not None and _is_operand(before):
                row.insert(place, Element(f"{NAMESPACE}mspace", {"width": GAP}))


def breakable(formula: Element) -> list[Element]:
    r"""Return a formula of a line in parts between which the line may break, if it is long.

    As in print, a line breaks behind a relation, and where that is not enough behind a sum's sign;
    never inside brackets.

    Examples:
        >>> from latex2mathml.converter import convert
        >>> formula = fromstring(convert(r"f(x) = a_0 + a_1 x + a_2 x^2 = (x - b)(x - c)"))
        >>> ["".join(part.itertext()) for part in breakable(formula)]
        ['f(x)=', 'a0+a1x+a2x2=', '(x−b)(x−c)']
        >>> len(breakable(fromstring(convert("f(x) = 1"))))
        1
    """
    if len("".join(formula.itertext())) <= WHOLE or len(formula) != 1:
        return [formula]
    parts = []
    for part in _split(list(formula[0]), RELATIONS):
        is_long = sum(len("".join(item.itertext())) for item in part) > PART
        parts += _split(part, "+−") if is_long else [part]
    formulas = []
    for part in parts:
        one = Element(formula.tag, formula.attrib)
        SubElement(one, f"{NAMESPACE}mrow").extend(part)
        formulas.append(one)
    return formulas


def _split(items: list[Element], signs: str) -> list[list[Element]]:
    """Cut a row behind each of some signs that stands between two things, outside brackets."""
    parts: list[list[Element]] = [[]]
    depth, in_bars = 0, False
    for place, item in enumerate(items):
        parts[-1].append(item)
        sign = (_base(item).text or "").strip()
        depth += (sign in OPENING and sign != "") - (sign in CLOSING and sign != "")
        in_bars ^= sign in ("|", "‖", "∥")
        is_between = len(parts[-1]) > 1 and place + 1 < len(items) and item.get("form") != "prefix"
        if _is(item, "mo", signs) and is_between and depth == 0 and not in_bars:
            item.set("form", "infix")
            parts.append([])
    return parts if depth == 0 and not in_bars else [items]


def _base(item: Element) -> Element:
    """Return what powers and indices are on."""
    is_scripted = item.tag.removeprefix(NAMESPACE) in ("msub", "msup", "msubsup")
    return item[0] if is_scripted and len(item) else item


def _is(item: Element, tag: str, signs: str) -> bool:
    text = (item.text or "").strip()
    return item.tag == NAMESPACE + tag and text != "" and text in signs


def _is_name(item: Element) -> bool:
    """Say whether this is the name of a function, perhaps with an index or a power."""
    base, text = _base(item), _base(item).text or ""
    is_word = len(text) > 1 and text.isascii() and text.isalpha()
    return is_word and base.tag in (f"{NAMESPACE}mi", f"{NAMESPACE}mo")


def _is_operand(item: Element) -> bool:
    """Say whether nothing else makes a space beside this."""
    return _is_name(item) or _base(item).tag.removeprefix(NAMESPACE) in (
        "mi",
        "mn",
        "mfrac",
        "msqrt",
    )


def _has_place_for_a_gap(row: Element) -> bool:
    return row.tag.removeprefix(NAMESPACE) in ("math", "mrow", "msqrt", "mstyle", "mtd")


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
    _keep_roots_small(font)
    path.parent.mkdir(parents=True, exist_ok=True)
    subset.save_font(font, str(path), options)


def _keep_roots_small(font: Any) -> None:
    """Let the root sign not grow.

    Roots here stand in lines of text, where the smallest sign is high enough. Chromium leaves as
    much room behind a root as the largest sign would need.
    """
    variants = font["MATH"].table.MathVariants
    root = variants.VertGlyphCoverage.glyphs.index(font.getBestCmap()[ord("√")])
    sign = variants.VertGlyphConstruction[root]
    sign.GlyphAssembly = None
    sign.MathGlyphVariantRecord = sign.MathGlyphVariantRecord[:1]
    sign.VariantCount = 1


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
