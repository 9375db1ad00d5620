"""Conversion of formulas in the sentences of the ledger and of the summaries to MathML.

A formula is written as plain text, `N^(dL)`, `tau = sqrt(d_k)`, `sum_{j<d} binom(H, j)`. It is
recognized by parts that do not occur in ordinary sentences: a power, an index, a Greek letter, a
root, a relation between symbols, a minimum. Browsers render MathML themselves, so pages need no
other software.
"""

import re
from collections.abc import Callable, Iterator
from html import escape
from typing import NamedTuple

_GREEK = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "epsilon": "ε",
    "eps": "ε",
    "kappa": "κ",
    "lambda": "λ",
    "mu": "μ",
    "pi": "π",
    "rho": "ρ",
    "sigma": "σ",
    "tau": "τ",
    "phi": "φ",
    "Theta": "Θ",
    "Omega": "Ω",
}
_FUNCTIONS = {"log", "exp", "min", "max", "tanh", "relu", "sign", "softmax", "ffn", "conv"}
_CALLED = {"sqrt", "binom", "floor", "ceil", "sum"}
"""Functions that are ordinary words unless a bracket or an index follows."""
_BRACKETS = {"floor": ("⌊", "⌋"), "ceil": ("⌈", "⌉")}
_SIGNS = {"<=": "≤", ">=": "≥", "->": "→", "-": "−", "*": "·", "(+)": "⊕", "!=": "≠"}
_PRODUCTS = {"dL", "NH", "HN", "VR", "dk", "qk"}
"""Products of symbols, written without a sign between them."""
_TOKEN = re.compile(
    r"(?P<code>`[^`]*`)|(?P<number>\d+(?:,\d{3})+|\d+(?:\.\d+)?(?:e[-+]?\d+)?)|(?P<word>[A-Za-z]+)"
    r"|(?P<sign>\(\+\)|<=|>=|->|!=|[-+*/=<>^_|!])|(?P<open>[({\[⟨])|(?P<close>[)}\]⟩])"
    r"|(?P<space> )|(?P<other>.)",
    re.DOTALL,
)
_PRODUCT = re.compile(r"<([a-z]), ?([a-z](?:_[a-z])?)>")
_FORMULA = re.compile(r'([(\[]?)(<math\b(?![^>]*="block")[^>]*>.*?</math>)([)\].,;:]*)', re.DOTALL)
_RELATIONS = ("=", "<=", ">=", "<", ">", "->", "!=")
_MARKS = ("^", "_", "(+)", "sqrt", "binom", *_RELATIONS)
_CLOSING = {"(": ")", "{": "}", "[": "]", "⟨": "⟩"}


_GAP = '<mspace width="0.17em"/>'


class _Token(NamedTuple):
    kind: str
    text: str


def typeset(text: str) -> str:
    """Write a text as escaped HTML, with formulas as MathML and names in backticks as code.

    Examples:
        >>> typeset("at most N^2 < M cells")
        'at most <math><msup><mi>N</mi><mn>2</mn></msup><mo>&lt;</mo><mi>M</mi></math> cells'
        >>> typeset("a <b>bold</b> claim, see `hm.plot`")
        'a &lt;b&gt;bold&lt;/b&gt; claim, see <code>hm.plot</code>'
    """
    written: dict[str, Callable[[str], str]] = {
        "formula": str,
        "code": lambda name: f"<code>{escape(name)}</code>",
        "plain": escape,
    }
    return prevent_breaks("".join(written[kind](part) for kind, part in iter_parts(text)))


def prevent_breaks(html: str) -> str:
    """Prevent line breaks between a formula and an adjacent bracket or comma.

    Examples:
        >>> prevent_breaks("(<math><mi>N</mi></math> keys)")
        '<span class="whole">(<math><mi>N</mi></math></span> keys)'
    """

    def wrap_in_span(match: re.Match[str]) -> str:
        before, formula, behind = match.groups()
        whole = f"{before}{formula}{behind}"
        return f'<span class="whole">{whole}</span>' if before or behind else formula

    return _FORMULA.sub(wrap_in_span, html)


def iter_parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a text with their kinds: `"formula"` as MathML, `"code"`, and `"plain"`.

    Examples:
        >>> list(iter_parts("in `plot`: tau"))[2:]
        [('code', 'plot'), ('plain', ':'), ('plain', ' '), ('formula', '<math><mi>τ</mi></math>')]
    """
    text = _PRODUCT.sub(r"⟨\1, \2⟩", text)
    tokens = [_Token(str(m.lastgroup), m[0]) for m in _TOKEN.finditer(text)]
    place = 0
    while place < len(tokens):
        end = place if _is_inside_word(tokens, place) else _find_formula_end(tokens, place)
        if end > place:
            yield "formula", f"<math>{_MathmlWriter(tokens[place:end]).row()}</math>"
            place = end
            continue
        token = tokens[place]
        if token.kind == "code" and len(token.text) > 2:
            yield "code", token.text.strip("`")
        else:
            yield "plain", token.text
        place += 1


def _is_inside_word(tokens: list[_Token], place: int) -> bool:
    """Return whether a token directly follows letters or digits."""
    return place > 0 and tokens[place - 1].kind in ("word", "number")


def _find_formula_end(tokens: list[_Token], start: int) -> int:
    """Return the end of the formula that begins here, or `start` if there is no formula."""
    depth, place, end = 0, start, start
    while place < len(tokens) and _can_continue(tokens, start, place, depth):
        token = tokens[place]
        depth += (token.kind == "open") - (token.kind == "close")
        place += 1
        if (depth == 0 and token.kind in ("word", "number", "close")) or token.text in "|!":
            end = place
    formula = tokens[start:end]
    is_called = any(_is_extremum(formula, k) for k in range(len(formula)))
    if not is_called and not any(_is_mark(token) for token in formula):
        return start
    relations = [k for k, token in enumerate(formula) if token.text in _RELATIONS]
    is_whole = all(0 < k < len(formula) - 1 for k in relations)
    return end if is_whole else start


def _is_mark(token: _Token) -> bool:
    """Return whether a token turns the letters and numbers around it into a formula."""
    has_exponent = token.kind == "number" and "e" in token.text
    return token.text in _MARKS or token.text in _GREEK or has_exponent


def _is_extremum(formula: list[_Token], place: int) -> bool:
    """Return whether a token is a minimum or maximum of a list in brackets."""
    words = [token.text for token in formula[place : place + 2]]
    return words in (["min", "("], ["max", "("])


def _can_continue(tokens: list[_Token], start: int, place: int, depth: int) -> bool:
    """Return whether a token can belong to the formula begun at `start`."""
    token, before = tokens[place], tokens[place - 1] if place > start else _Token("none", " ")
    after = tokens[place + 1] if place + 1 < len(tokens) else _Token("none", "")
    glued = before.kind not in ("none", "space")
    if token.kind == "open":
        return glued or depth > 0 or token.text == "⟨" or _has_power_or_factor(tokens, place)
    if token.kind == "close":
        return depth > 0
    if token.kind == "word":
        is_index = glued and before.text in "^_"
        return is_index or _is_symbol(tokens, place) or (depth > 0 and len(token.text) <= 2)
    if token.kind == "sign":
        if token.text in "^_":
            return glued and after.kind in ("word", "number", "open", "sign")
        if token.text in _RELATIONS and (before.kind == "space") != (after.kind == "space"):
            return False
        return before.kind != "none" or token.text in "-|"
    if token.kind == "space":
        return before.kind not in ("none", "space")
    return token.kind == "number" or (token.text == "," and depth > 0)


def _is_symbol(tokens: list[_Token], place: int) -> bool:
    """Return whether a word is a symbol, or a function with an argument."""
    text = tokens[place].text
    behind = [token for token in tokens[place + 1 : place + 3] if token.kind != "space"]
    following = behind[0] if behind else _Token("none", "")
    if text in _GREEK or text in _PRODUCTS:
        return True
    if text in _CALLED:
        return following.text in ("(", "_", "^")
    if text in _FUNCTIONS:
        is_argument = following.kind in ("number", "open") or following.text in _GREEK
        is_argument |= following.kind == "word" and len(following.text) == 1
        return is_argument or following.text in ("_", "^")
    if len(text) > 1:
        return False
    # These three are words as well, unless a sign follows them.
    return text not in "aAI" or following.kind == "sign"


def _has_power_or_factor(tokens: list[_Token], place: int) -> bool:
    """Return whether the bracket opened here is closed before a power, an index or a factor."""
    depth = 0
    for k in range(place, len(tokens)):
        depth += (tokens[k].kind == "open") - (tokens[k].kind == "close")
        if depth == 0:
            behind = tokens[k + 1] if k + 1 < len(tokens) else _Token("none", "")
            is_factor = behind.kind == "word" and len(behind.text) == 1
            return behind.text in ("^", "_") or is_factor
    return False


class _MathmlWriter:
    """Turns the tokens of one formula into MathML, from left to right."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = [token for token in tokens if token.kind != "space"]
        self.place = 0

    def row(self, closing: str = "") -> str:
        parts = []
        while self.place < len(self.tokens) and self.tokens[self.place].text != closing:
            parts.append(self.item())
        self.place += bool(closing)
        return "".join(parts)

    def item(self) -> str:
        """Set one item with its powers and indices."""
        base, scripts = self.atom(), {}
        while self.place < len(self.tokens) and self.tokens[self.place].text in ("^", "_"):
            mark = self.tokens[self.place].text
            self.place += 1
            if mark in scripts or self.place == len(self.tokens):
                return f"{base}<mo>{mark}</mo>"
            scripts[mark] = self.atom(bare=True)
        if len(scripts) == 2:
            return f"<msubsup>{base}{scripts['_']}{scripts['^']}</msubsup>"
        for mark, script in scripts.items():
            tag = "msup" if mark == "^" else "msub"
            return f"<{tag}>{base}{script}</{tag}>"
        return base

    def atom(self, bare: bool = False) -> str:
        """Set a symbol, a number or a bracket; powers and indices lose their brackets."""
        token = self.tokens[self.place]
        self.place += 1
        if token.kind == "open":
            closing = _CLOSING[token.text]
            inner = self.row(closing)
            if bare or token.text == "{":
                return f"<mrow>{inner}</mrow>"
            return f"<mrow>{_fixed_bracket(token.text)}{inner}{_fixed_bracket(closing)}</mrow>"
        if token.kind == "number":
            return _format_number(token.text)
        if token.kind == "word":
            return self.word(token.text)
        if bare and token.text == "-" and self.place < len(self.tokens):
            return f"<mrow><mo>−</mo>{self.atom()}</mrow>"
        if token.text == "|":
            return _fixed_bracket("|")
        return f"<mo>{escape(_SIGNS.get(token.text, token.text))}</mo>"

    def word(self, text: str) -> str:
        is_called = self.place < len(self.tokens) and self.tokens[self.place].text == "("
        if is_called and (text in ("sqrt", "binom") or text in _BRACKETS):
            self.place += 1
            inner = self.row(")")
            if text == "sqrt":
                return f"<msqrt>{inner}</msqrt>"
            if text in _BRACKETS:
                left, right = _BRACKETS[text]
                return f"<mrow>{_fixed_bracket(left)}{inner}{_fixed_bracket(right)}</mrow>"
            top, _, bottom = inner.partition("<mo>,</mo>")
            fraction = f'<mfrac linethickness="0"><mrow>{top}</mrow><mrow>{bottom}</mrow></mfrac>'
            return f"<mrow>{_fixed_bracket('(')}{fraction}{_fixed_bracket(')')}</mrow>"
        if text in _GREEK:
            return f"<mi>{_GREEK[text]}</mi>"
        if text == "sum":
            return "<mo>∑</mo>"
        if text == "R" and self.place < len(self.tokens) and self.tokens[self.place].text == "^":
            return "<mi>ℝ</mi>"
        if text in _PRODUCTS:
            return f"<mrow>{''.join(f'<mi>{letter}</mi>' for letter in text)}</mrow>"
        before = self.tokens[self.place - 2].kind if self.place > 1 else "none"
        is_function = text in _FUNCTIONS
        left = _GAP if is_function and before in ("word", "number", "close") else ""
        right = _GAP if is_function and not is_called else ""
        return f"{left}<mi>{escape(text)}</mi>{right}"


def _format_number(text: str) -> str:
    digits, _, power = text.partition("e")
    if not power:
        return f"<mn>{text}</mn>"
    sign = "<mo>−</mo>" if int(power) < 0 else ""
    exponent = f"<mrow>{sign}<mn>{abs(int(power))}</mn></mrow>"
    return f"<mrow><mn>{digits}</mn><mo>·</mo><msup><mn>10</mn>{exponent}</msup></mrow>"


def _fixed_bracket(bracket: str) -> str:
    """Set a bracket of fixed size, as in a line of text."""
    return f'<mo stretchy="false">{bracket}</mo>'
