"""Docstrings of this library as reStructuredText, which autodoc expects.

They are written as Markdown: `$` around formulas, `|` and `_` mean themselves.
"""

import re
from typing import Any

from sphinx.application import Sphinx

PARTS = re.compile(r"(``.+?``|`[^`]+`|\$\$.+?\$\$|\$[^$]+\$)", re.DOTALL)
"""Code and formulas, which are not to be touched otherwise."""

DISPLAYED = re.compile(r"^( *)\$\$([^$]+)\$\$([.,;]?) *$", re.MULTILINE)
"""A formula on lines of its own, and where it stands."""

HEADINGS = ("Args:", "Attributes:", "Examples:", "Raises:", "References:", "Returns:", "Yields:")
"""The sections of a docstring."""


def restructured(lines: list[str]) -> list[str]:
    r"""Return the lines of a docstring as reStructuredText.

    Examples:
        >>> restructured(["The $x_1$ of `a_` is |a|."])
        ['The :math:`x_1` of `a_` is \\|a\\|.']
        >>> restructured([">>> f'{x}' | y_"])
        [">>> f'{x}' | y_"]
        >>> restructured(["Count", "$$n", "+ 1$$", "cells."])
        ['Count', '', '.. math:: n + 1', '', 'cells.']
    """
    result: list[str] = []
    for paragraph in _paragraphs(lines):
        if paragraph[0].lstrip().startswith(">>>"):
            result += paragraph
        elif _is_listing(paragraph):
            result += [f"{paragraph[0]}:", "", *paragraph[1:]]
        else:
            result += _with_displayed("\n".join(paragraph))
    return result


def _is_listing(paragraph: list[str]) -> bool:
    """Return whether a line ends with a colon, is no heading, and a block follows."""
    first, *rest = paragraph
    follows = bool(rest) and rest[0].startswith("    ")
    return follows and first[:1].strip() != "" and first.endswith(":") and first not in HEADINGS


def _paragraphs(lines: list[str]) -> list[list[str]]:
    """Cut lines before examples and at empty ones, which stay with what they end."""
    found: list[list[str]] = [[]]
    for line in lines:
        starts = line.lstrip().startswith(">>>") and not (
            found[-1] and found[-1][0].lstrip().startswith(">>>")
        )
        if starts or (found[-1] and not found[-1][-1].strip()):
            found.append([])
        found[-1].append(line)
    return [part for part in found if part]


def _with_displayed(text: str) -> list[str]:
    """Return the lines of a paragraph, with directives for formulas on lines of their own."""
    lines: list[str] = []
    pieces = DISPLAYED.split(text)
    for before, indent, formula, end in zip(*[iter(pieces[:-1])] * 4, strict=True):
        lines += _written(before.strip("\n")) if before.strip() else []
        lines += ["", f"{indent}.. math:: {' '.join(formula.split())}{end}", ""]
    return lines + _written(pieces[-1].removeprefix("\n") if lines else pieces[-1])


def _written(text: str) -> list[str]:
    return "".join(map(_part, PARTS.split(text))).split("\n")


def _part(text: str) -> str:
    if text.startswith("`"):
        return text
    if text.startswith("$"):
        return f":math:`{' '.join(text.strip('$').split())}`"
    return re.sub(r"(\||(?<=\w)_(?!\w))", r"\\\1", text)


def _process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = restructured(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    """Come before napoleon, which makes sections of the result."""
    app.connect("autodoc-process-docstring", _process, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
