"""The list of references, from `references.bib`."""

import re
from pathlib import Path
from unicodedata import normalize

ENTRY = re.compile(r"^@\w+\{(\w+), (.*)\}$", re.MULTILINE)
FIELD = re.compile(r"(\w+) = \{((?:[^{}]|\{[^{}]*\})*)\}")
ACCENT = re.compile(r"\{\\(['`\"^~cvH]) ?(\w)\}")
MARKS = {"'": "\u0301", "`": "\u0300", '"': "\u0308", "^": "\u0302", "~": "\u0303", "c": "\u0327"}
MARKS |= {"v": "\u030c", "H": "\u030b"}


def bibliography_page(path: Path) -> str:
    """Return the page of references: an anchor for each key."""
    text = "# References\n\nWorks cited on these pages and in docstrings.\n\n"
    for key, rest in ENTRY.findall(path.read_text(encoding="utf-8")):
        text += f"({key.lower()})=\n**[{key}]** {citation(rest)}\n\n"
    return text


def citation(fields: str) -> str:
    r"""Return the fields of an entry as one line of Markdown.

    Examples:
        >>> citation("author = {Karp, Richard M.}, title = {On {C}ycles}, year = {1978}")
        'Karp, Richard M.: *On Cycles*. 1978.'
    """
    found = {name: _plain(value) for name, value in FIELD.findall(fields)}
    who = found.get("author") or found.get("editor", "")
    where = " ".join(
        found[name]
        for name in ("journal", "booktitle", "series", "publisher", "school", "volume")
        if name in found
    )
    parts = [f"{who.replace(' and ', '; ')}: *{found.get('title', '')}*", where]
    parts += [f"pages {found['pages']}"] if "pages" in found else []
    parts.append(found.get("year", ""))
    if "eprint" in found:
        number = found["eprint"]
        parts.append(f"[arXiv {number}](https://arxiv.org/abs/{number})")
    note = f" ({found['note']})" if "note" in found else ""
    return ". ".join(part for part in parts if part) + f"{note}."


def _plain(value: str) -> str:
    value = ACCENT.sub(lambda found: normalize("NFC", found[2] + MARKS[found[1]]), value)
    return value.replace("--", "–").replace("{", "").replace("}", "")
