r"""Writing maxima of affine forms down: as text, as a constructor call, in LaTeX.

Numbers are the shortest decimals that read back as the same float64.
"""

from collections.abc import Sequence

import numpy as np

from hardmax.display import LONGEST
from hardmax.typing import FloatArray

_SHOWN_TERMS = 12
_SHOWN_NUMBERS = 30


def plain(slopes: FloatArray, offsets: FloatArray) -> str:
    r"""Write $\max_j \langle a_j, x\rangle + c_j$ as text; a single form needs no `max`.

    Variables are `x, y, z` up to three and `x1, x2, ...` beyond. Long maxima are cut short.

    Args:
        slopes: The $a_j$, shape `(n_terms, dim)`.
        offsets: The $c_j$, shape `(n_terms,)`.

    Examples:
        >>> plain(np.array([[2.0, 0.0], [0.0, -1.0], [0.0, 0.0]]), np.array([1.0, 0.0, 0.0]))
        'max(2x + 1, -y, 0)'
        >>> plain(np.array([[0.0, 0.5]]), np.array([-0.25]))
        '0.5y - 0.25'
    """
    dim = slopes.shape[1]
    names = list("xyz")[:dim] if dim <= 3 else [f"x{k + 1}" for k in range(dim)]
    terms = [
        _affine(slope, offset, names, "")
        for slope, offset in zip(slopes[:_SHOWN_TERMS], offsets[:_SHOWN_TERMS], strict=True)
    ]
    if len(offsets) == 1:
        return terms[0]
    rest = f", ... {len(offsets) - _SHOWN_TERMS} more" if len(offsets) > _SHOWN_TERMS else ""
    return f"max({', '.join(terms)}{rest})"


def constructor(slopes: FloatArray, offsets: FloatArray, exact: bool) -> str:
    """Write the call that makes the polynomial, or its size if the call would be long.

    Examples:
        >>> constructor(np.array([[1.0]]), np.array([0.0]), exact=True)
        'TropicalPolynomial([[1.0]], [0.0])'
        >>> constructor(np.zeros((90, 2)), np.zeros(90), exact=True)
        'TropicalPolynomial(<90 terms, 2 variables>)'
        >>> constructor(np.array([[1.0]]), np.array([0.0]), exact=False)
        'TropicalPolynomial([[1.0]], [0.0])  # coefficients rounded for display'
    """
    n_terms, dim = slopes.shape
    note = "" if exact else "  # coefficients rounded for display"
    few = n_terms * (dim + 1) <= _SHOWN_NUMBERS
    call = f"TropicalPolynomial({slopes.tolist()}, {offsets.tolist()}){note}" if few else ""
    if not few or len(call) > LONGEST:
        terms = "term" if n_terms == 1 else "terms"
        variables = "variable" if dim == 1 else "variables"
        return f"TropicalPolynomial(<{n_terms} {terms}, {dim} {variables}>){note}"
    return call


def latex(slopes: FloatArray, offsets: FloatArray, tropical: bool = False) -> str:
    r"""Write the polynomial in LaTeX.

    Args:
        slopes: The $a_j$, shape `(n_terms, dim)`.
        offsets: The $c_j$, shape `(n_terms,)`.
        tropical: Whether to write $\oplus$ and $\odot$ instead of $\max$ and $+$.

    Examples:
        >>> slopes, offsets = np.array([[1.5], [0.0]]), np.array([-2.0, 0.0])
        >>> print(latex(slopes, offsets))
        \max\{1.5 x - 2,\; 0\}
        >>> print(latex(slopes, offsets, tropical=True))
        (-2) \odot x^{\odot 1.5} \oplus 0
    """
    dim = slopes.shape[1]
    names = ["x"] if dim == 1 else [f"x_{{{k + 1}}}" for k in range(dim)]
    write = _monomial if tropical else _latex_affine
    terms = [
        write(slope, offset, names)
        for slope, offset in zip(slopes[:_SHOWN_TERMS], offsets[:_SHOWN_TERMS], strict=True)
    ]
    if len(offsets) > _SHOWN_TERMS:
        terms += [r"\cdots", write(slopes[-1], offsets[-1], names)]
    if tropical:
        return r" \oplus ".join(terms)
    return terms[0] if len(offsets) == 1 else r"\max\{" + r",\; ".join(terms) + r"\}"


def _affine(slope: FloatArray, offset: float, names: Sequence[str], space: str) -> str:
    """Write one form as a signed sum without zeros and without factors of one."""
    parts: list[tuple[float, str]] = [
        (value, name) for value, name in zip(slope.tolist(), names, strict=True) if value
    ]
    if offset or not parts:
        parts.append((float(offset), ""))
    words = []
    for position, (value, name) in enumerate(parts):
        sign = "-" if value < 0 else ("+" if position else "")
        glue = f" {sign} " if position else sign
        size = _decimal(abs(value))
        words.append(
            glue + (name if name and size == "1" else size + (space if name else "") + name)
        )
    return "".join(words)


def _latex_affine(slope: FloatArray, offset: float, names: Sequence[str]) -> str:
    return _affine(slope, offset, names, " ")


def _monomial(slope: FloatArray, offset: float, names: Sequence[str]) -> str:
    """Write one term as a tropical monomial; the coefficient 0 is the tropical one."""
    powers = [
        name if value == 1 else rf"{name}^{{\odot {_bracketed(value)}}}"
        for value, name in zip(slope.tolist(), names, strict=True)
        if value
    ]
    factors = ([_bracketed(offset)] if offset or not powers else []) + powers
    return r" \odot ".join(factors)


def _bracketed(value: float) -> str:
    return f"({_decimal(value)})" if value < 0 else _decimal(value)


def _decimal(value: float) -> str:
    """Write the shortest decimal of a float64, whole numbers without a point.

    Examples:
        >>> [_decimal(v) for v in (2.0, -0.0, 0.1, 1e300)]
        ['2', '0', '0.1', '1e+300']
    """
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e16:
        return np.format_float_positional(value, trim="-")
    return repr(float(value))
